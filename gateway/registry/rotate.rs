//! Seals all credentials anew with the first key of the ring, so that the others can go. Gateways
//! may work meanwhile: each integration's credentials stay what they are.

use lockgate_store::{Field, IntegrationRecord};
use url::Url;

use crate::error::RegistryError;
use crate::integration::Integration;
use crate::registry::Registry;
use crate::snapshot::name_field;

/// What became of the credentials.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rotation {
    /// Sealed anew.
    pub resealed: usize,
    /// Sealed with the first key already.
    pub current: usize,
    /// Ids of integrations whose credentials do not open with any key of the ring, and stay as they
    /// are.
    pub unusable: Vec<String>,
}

impl Registry {
    /// Seals all credentials with the first key; of each organisation all or none.
    ///
    /// # Errors
    /// [`RegistryError::NoVaultKey`], [`RegistryError::StoreUnavailable`].
    pub async fn rotate(&self) -> Result<Rotation, RegistryError> {
        if !self.vault.can_seal() {
            return Err(RegistryError::NoVaultKey);
        }
        self.refresh().await?;
        let mut rotation = Rotation::default();
        for organisation in self.organisations() {
            self.rotate_organisation(&organisation.id, &mut rotation).await?;
        }
        self.refresh().await?;
        Ok(rotation)
    }

    async fn rotate_organisation(
        &self,
        organisation: &str,
        rotation: &mut Rotation,
    ) -> Result<(), RegistryError> {
        let mut change = self.store.begin(organisation).await?;
        let mut resealed = 0;
        for mut record in change.list_integrations().await? {
            let Some(sealed) = &record.sealed else { continue };
            if self.vault.is_current(sealed) {
                rotation.current += 1;
            } else if let Some(anew) = self.seal_anew(&record, sealed)? {
                record.sealed = Some(anew);
                change.update_integration(&record).await?;
                resealed += 1;
            } else {
                rotation.unusable.push(record.id);
            }
        }
        if resealed == 0 {
            return Ok(change.roll_back().await?);
        }
        change.commit().await?;
        rotation.resealed += resealed;
        Ok(())
    }

    /// None of what does not open.
    fn seal_anew(
        &self,
        record: &IntegrationRecord,
        sealed: &[u8],
    ) -> Result<Option<Vec<u8>>, RegistryError> {
        let Ok(url) = Url::parse(&record.url) else { return Ok(None) };
        let field = name_field(&Integration::from_record(record).auth, &url);
        let place = Field { organisation: &record.organisation, record: &record.id, field: &field };
        let Ok(secret) = self.vault.open(&place, sealed) else { return Ok(None) };
        Ok(Some(self.vault.seal(&place, &secret)?))
    }
}
