//! Where the trail goes, what is written, and what happens when nothing can be; already validated.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use url::Url;

use super::event::Arguments;
use super::syslog::Facility;

/// Takes what looks like a secret out of JSON text.
pub type Redact = Box<dyn Fn(&[u8]) -> Vec<u8> + Send>;

/// Where the trail goes and what happens when it cannot.
#[derive(Clone, PartialEq, Eq)]
pub struct Config {
    pub output: Output,
    /// Keys every hash, so that only who has it can write a chain that holds.
    pub key: Option<String>,
    pub on_full: OnFull,
    /// Records that wait for the writer; at least 16.
    pub queue: usize,
    /// A file beyond this many bytes is set aside.
    pub rotate_bytes: u64,
    /// So is one that is older than this.
    pub rotate_age: Duration,
    /// Files set aside that are kept; older ones are removed.
    pub keep: usize,
    /// How often an anchor is written, also when nothing happens.
    pub anchor: Duration,
    pub arguments: Arguments,
    /// Who else gets the records; needs a file.
    pub forward: Forward,
}

/// Who else gets the records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forward {
    pub syslog: Option<Syslog>,
    pub webhook: Option<Webhook>,
}

/// A receiver of syslog over TCP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Syslog {
    /// With the scheme `https` where TLS is spoken, else `http`.
    pub address: Url,
    pub facility: Facility,
    /// What it is shown when it asks for a client certificate.
    pub client: Option<ClientFiles>,
}

/// PEM files of a certificate with its chain, and of its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientFiles {
    pub cert: PathBuf,
    pub key: PathBuf,
}

/// A receiver of signed HTTP requests.
#[derive(Clone, PartialEq, Eq)]
pub struct Webhook {
    pub url: Url,
    pub secret: Vec<u8>,
    /// Further headers of each, with names in lower case; not those of the signature.
    pub headers: BTreeMap<String, String>,
    /// What it is shown when it asks for a client certificate.
    pub client: Option<ClientFiles>,
}

/// The address may be a secret, too, and headers mostly are.
impl std::fmt::Debug for Webhook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Webhook")
    }
}

/// Where records are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    Stdout,
    Stderr,
    /// A file of mode 0600, which goes on with the chain that it finds.
    File(PathBuf),
}

/// What happens to calls that cannot be recorded: the disk is full, or the writer cannot keep up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFull {
    /// They are refused.
    Deny,
    /// They go on; how many records are missing is counted, and written into the chain as soon as
    /// possible.
    Drop,
}

/// Never shows the key.
impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Config")
            .field("output", &self.output)
            .field("key", &self.key.as_ref().map(|_| "…"))
            .field("on_full", &self.on_full)
            .field("queue", &self.queue)
            .field("rotate_bytes", &self.rotate_bytes)
            .field("rotate_age", &self.rotate_age)
            .field("keep", &self.keep)
            .field("anchor", &self.anchor)
            .field("arguments", &self.arguments)
            .field("forward", &self.forward)
            .finish()
    }
}
