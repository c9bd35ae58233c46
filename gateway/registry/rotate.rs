//! Seals all credentials anew with the first key of the ring, so that the others can go. Gateways
//! may work meanwhile: each integration's credentials stay what they are.

use lockgate_store::{Field, IntegrationRecord, StoreError, VaultError};

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
    /// [`StoreError`], in words for the operator; [`VaultError::NoKey`] without a key.
    pub async fn rotate(&self) -> Result<Rotation, StoreError> {
        if !self.vault.can_seal() {
            return Err(VaultError::NoKey.into());
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
    ) -> Result<(), StoreError> {
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
            return change.roll_back().await;
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
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(field) = name_field(record) else { return Ok(None) };
        let place = Field { organisation: &record.organisation, record: &record.id, field: &field };
        let Ok(secret) = self.vault.open(&place, sealed) else { return Ok(None) };
        Ok(Some(self.vault.seal(&place, &secret)?))
    }
}
