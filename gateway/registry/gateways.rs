//! The gateways that share the store, to check that all have the same secret.

use lockgate_store::{GatewayMark, StoreError};

use crate::registry::Registry;

impl Registry {
    /// Renews the mark of this gateway. Returns the marks of all running gateways, in the order in
    /// which they started to use their secrets.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn renew_gateway(&self, own: &GatewayMark) -> Result<Vec<GatewayMark>, StoreError> {
        self.store.renew_gateway(own).await
    }

    /// Removes the mark of a gateway that shuts down.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn forget_gateway(&self, id: &str) -> Result<(), StoreError> {
        self.store.forget_gateway(id).await
    }
}
