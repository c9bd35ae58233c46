//! The audit trail's validated configuration: outputs, contents, and the behaviour on failure.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use url::Url;

use super::event::Arguments;
use super::syslog::Facility;

/// Removes probable secrets from JSON text.
pub type Redact = Box<dyn Fn(&[u8]) -> Vec<u8> + Send>;

/// The configuration of the trail.
#[derive(Clone, PartialEq, Eq)]
pub struct Config {
    pub output: Output,
    /// Keys every hash, so that only the key's owner can write a valid chain.
    pub key: Option<String>,
    pub on_full: OnFull,
    /// Capacity of the queue in records; at least 16.
    pub queue: usize,
    /// File size from which on a file is rotated.
    pub rotate_bytes: u64,
    /// File age from which on a file is rotated.
    pub rotate_age: Duration,
    /// Number of rotated files kept; older files are removed.
    pub keep: usize,
    /// Interval of anchors, even without other records.
    pub anchor: Duration,
    pub arguments: Arguments,
    /// Requires a file output.
    pub forward: Forward,
}

/// Further receivers of the records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forward {
    pub syslog: Option<Syslog>,
    pub webhook: Option<Webhook>,
}

/// A receiver of syslog over TCP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Syslog {
    /// The scheme is `https` for TLS, otherwise `http`.
    pub address: Url,
    pub facility: Facility,
    /// The client certificate, presented on request.
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
    /// Further headers of each request, with lower-case names; not those of the signature.
    pub headers: BTreeMap<String, String>,
    /// The client certificate, presented on request.
    pub client: Option<ClientFiles>,
}

/// Hides all fields: headers usually contain secrets, and the address may.
impl std::fmt::Debug for Webhook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Webhook")
    }
}

/// The output of records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    Stdout,
    Stderr,
    /// A file of mode 0600. An existing chain is continued.
    File(PathBuf),
}

/// The treatment of calls that cannot be recorded: the disk is full, or the writer is too slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFull {
    /// Denies the calls.
    Deny,
    /// Allows the calls. Lost records are counted, and the count is written to the chain as soon as
    /// possible.
    Drop,
}

/// Hides the key.
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
