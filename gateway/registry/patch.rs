//! Changes of an integration; omitted fields keep their value.

use lockgate_store::Secret;

use crate::auth::Auth;

/// Changes of an integration. Its slug and its kind never change.
#[derive(Clone, Debug, Default)]
pub struct IntegrationPatch {
    pub name: Option<String>,
    /// A changed address, apart from a trailing `/`, requires new credentials: otherwise a user
    /// could have the stored secret sent to an address of their choice. Not allowed, like `auth`,
    /// for predefined integrations.
    pub url: Option<String>,
    /// A changed method or header requires new credentials.
    pub auth: Option<Auth>,
    pub credentials: Option<Secret>,
    pub enabled: Option<bool>,
}
