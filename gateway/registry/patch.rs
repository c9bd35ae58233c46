//! What may be changed of an integration; what is left out stays as it is.

use lockgate_store::Secret;

use crate::auth::Auth;

/// Changes of an integration. Its slug and its kind never change.
#[derive(Clone, Debug, Default)]
pub struct IntegrationPatch {
    pub name: Option<String>,
    /// Another address, but for a `/` at its end, needs the credentials anew: nobody may have those
    /// of others sent to an address of their own.
    /// Those from the catalogue have neither.
    pub url: Option<String>,
    /// Another method or header needs the credentials anew.
    pub auth: Option<Auth>,
    pub credentials: Option<Secret>,
    pub enabled: Option<bool>,
}
