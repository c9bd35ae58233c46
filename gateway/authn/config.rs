//! What authentication needs to know, already validated. It reads no file and no environment.

/// Who may call.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Config {
    /// The bearer key that every caller must send (at least 16 characters). Without it only the local user on a
    /// loopback address or stdio may call, and the gateway refuses to listen anywhere else.
    pub key: Option<String>,
}

/// Never shows the key.
impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Config").field("key", &self.key.as_ref().map(|_| "…")).finish()
    }
}
