//! The audit trail's validated configuration: outputs, contents, and the behaviour on failure.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use lockgate_text::settings;
use url::Url;

use super::event::Arguments;

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

// Hides all fields: headers usually contain secrets, and the address may.
lockgate_text::debug_fields!(Webhook);

/// The output of records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    Stdout,
    Stderr,
    /// A file of mode 0600. An existing chain is continued.
    File(PathBuf),
}

impl fmt::Display for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdout => f.write_str("on stdout"),
            Self::Stderr => f.write_str("on stderr"),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

settings! {
    /// The treatment of calls that cannot be recorded, because the disk is full or the writer too
    /// slow: they are denied, or they are allowed, and the number of lost records is written to the
    /// chain as soon as possible.
    #[derive(Default)]
    #[serde(rename_all = "lowercase")]
    pub enum OnFull { #[default] Deny, Drop }
}

// Hides the key.
lockgate_text::debug_fields!(
    Config: output, on_full, queue, rotate_bytes, rotate_age, keep, anchor, arguments, forward
);

settings! {
    /// The facility of syslog messages. RFC 5424 calls `audit` "log audit".
    #[derive(Default)]
    #[serde(rename_all = "lowercase")]
    pub enum Facility {
        #[default]
        Audit = 13,
        Auth = 4,
        Authpriv = 10,
        Local0 = 16,
        Local1,
        Local2,
        Local3,
        Local4,
        Local5,
        Local6,
        Local7,
    }
}
