//! Key rotation: encrypts all credentials with the first key of the ring, so that the other keys
//! can be removed. Gateways can keep running, because the credentials themselves do not change.

use lockgate_store::{Field, IntegrationRecord, StoreError, VaultError};

use crate::registry::Registry;
use crate::state::name_field;

/// The outcome of a key rotation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rotation {
    /// Number of credentials that were encrypted again.
    pub resealed: usize,
    /// Number of credentials that the first key had encrypted already.
    pub current: usize,
    /// Ids of integrations and connections with credentials that no key of the ring decrypts; left
    /// unchanged.
    pub unusable: Vec<String>,
}

impl Registry {
    /// Encrypts all credentials with the first key. Atomic per organisation.
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
        let grants = self.store.reseal_accounts(&self.vault).await?;
        rotation.resealed += grants.resealed;
        rotation.current += grants.current;
        rotation.unusable.extend(grants.unusable);
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

    /// Returns `None` if the credentials cannot be decrypted.
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
