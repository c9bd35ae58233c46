//! Which built-in servers run, already validated. It reads no file and no environment.

/// The built-in servers that need no installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// `system`: what the gateway is and how its servers are.
    pub system: bool,
    /// `example`: a few harmless tools, a prompt and a resource to try a client with.
    pub example: bool,
}
