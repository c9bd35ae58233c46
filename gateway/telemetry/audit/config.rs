//! The audit trail's validated configuration: outputs, contents, and the behaviour on failure.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use lockgate_text::settings;
use serde::Deserialize;
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

// Records as syslog messages: RFC 5424, with the length before each message (RFC 6587, as RFC 5425
// requires under TLS). The message text is the record's line, unchanged.

/// Maximum bytes of a host name (RFC 5424, section 6).
const MAX_HOST: usize = 255;

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

/// The common fields of all messages of a process.
#[derive(Clone, Debug)]
pub struct Sender {
    facility: Facility,
    host: String,
    process: u32,
}

// Severities of RFC 5424.
const WARNING: u8 = 4;
const NOTICE: u8 = 5;
const INFO: u8 = 6;

/// The members of a record that its message header contains.
#[derive(Deserialize)]
struct Head<'a> {
    time: &'a str,
    kind: &'a str,
    decision: Option<&'a str>,
}

impl Sender {
    /// Creates the sender for this process and host.
    pub fn new(facility: Facility) -> Self {
        Self::named(facility, &host(), std::process::id())
    }

    fn named(facility: Facility, host: &str, process: u32) -> Self {
        let mut host: String = host.chars().filter(char::is_ascii_graphic).collect();
        host.truncate(MAX_HOST);
        if host.is_empty() {
            host.push('-');
        }
        Self { facility, host, process }
    }

    /// Appends the messages of some records.
    pub fn write(&self, out: &mut Vec<u8>, lines: &[u8]) {
        for line in lines.split(|byte| *byte == b'\n') {
            if line.is_empty() {
                continue;
            }
            let head = self.write_head(line);
            // Writing to memory cannot fail.
            let _ = write!(out, "{} {head}", head.len() + line.len());
            out.extend_from_slice(line);
        }
    }

    fn write_head(&self, line: &[u8]) -> String {
        let head = serde_json::from_slice::<Head<'_>>(line).ok();
        let head = head.unwrap_or(Head { time: "-", kind: "-", decision: None });
        let severity = match (head.kind, head.decision) {
            ("decision", Some("deny")) | ("refusal" | "gap", _) => WARNING,
            ("open" | "rotate" | "close" | "approval" | "change", _) => NOTICE,
            _ => INFO,
        };
        let priority = self.facility as u8 * 8 + severity;
        let Self { host, process, .. } = self;
        format!("<{priority}>1 {} {host} lockgate {process} {} - ", head.time, head.kind)
    }
}

/// Returns the host name, or an empty string if unknown.
#[allow(clippy::disallowed_methods, reason = "the kernel's file with the name of the host")]
fn host() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default()
}

#[cfg(test)]
mod tests;
