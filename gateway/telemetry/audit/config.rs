//! The audit trail's validated configuration: outputs, contents, and the behaviour on failure.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use lockgate_text::setting::{Seconds, Size, Text, Whole};
use lockgate_text::settings;
use url::Url;

use super::event::Arguments;

/// Removes probable secrets from JSON text.
pub type Redact = Box<dyn Fn(&[u8]) -> Vec<u8> + Send>;

settings! {
    // The configuration of the trail.

    pub struct Config as "Audit" {
        /// `off`, `stdout` (JSON lines; under `lockgate stdio`, stderr) or `file`. Default `file`
        /// with `audit.file`, else `off`, in production `stdout`.
        @serde(rename = "output")
        pub kind: Option<OutputKind>,
        /// The file, with mode 0600; relative to this file. Rotated files are kept next to it.
        pub file: Option<PathBuf> = Option<Text>,
        /// At least 32 characters. With it every hash is keyed, so that write access to the file is
        /// not enough to forge it. A reference: `${LOCKGATE_AUDIT_KEY}` or `file:PATH`.
        pub key: Option<String> = Option<Text>,
        /// When a record cannot be written (disk full, writer too slow): `deny` rejects the call,
        /// `drop` sends it and counts the missing records.
        pub on_full: OnFull,
        /// Records that wait for the writer, 64–1000000; a running call reserves the place of its
        /// outcome.
        pub queue: usize = Whole<64, 1_000_000, 8192>,
        /// Size at which the file is rotated, 64KiB–16GiB.
        @serde(rename = "rotate_size")
        pub rotate_bytes: u64 = Size<0x1_0000, 0x4_0000_0000, 0x400_0000>,
        /// Age at which the file is rotated, 60–2678400 s.
        pub rotate_age: Duration = Seconds<60, 2_678_400, 86_400>,
        /// Rotated files that are kept, 1–10000.
        pub keep: usize = Whole<1, 10_000, 30>,
        /// How often an anchor is written, 10–86400 s.
        pub anchor: Duration = Seconds<10, 86_400, 300>,
        /// How arguments are recorded: `digest`, `redacted` (and the digest) or `omitted`.
        pub arguments: Arguments,
        /// A syslog receiver (RFC 5424 over TCP) of every record; requires `audit.file`.
        pub syslog: Option<Syslog>,
        /// A webhook that receives every record; requires `audit.file`.
        pub webhook: Option<Webhook>,
        /// The output that results from `kind` and `file`.
        @serde(skip)
        pub output: Output,
    }

    #[derive(Debug)]
    pub struct Syslog as "AuditSyslog" {
        /// `tls://HOST:PORT`, default port 6514, or `tcp://HOST:PORT` (601) without encryption.
        pub address: String = Text | "",
        /// `audit` (13), `auth`, `authpriv`, or `local0` to `local7`.
        pub facility: Facility,
        /// PEM file of the client certificate chain, used with `tls://` if the receiver requests
        /// one; relative to this file, and read again for each connection.
        pub client_cert: Option<PathBuf> = Option<Text>,
        /// PEM file of its private key; relative to this file.
        pub client_key: Option<PathBuf> = Option<Text>,
    }

    // Headers have lower-case names, and none of them is of the signature.

    pub struct Webhook as "AuditWebhook" {
        /// Address to which records are posted, as JSON lines (`application/x-ndjson`).
        pub url: String = Text | "",
        /// Key that signs the requests (Standard Webhooks): `whsec_` and 24 to 64 random bytes in
        /// base64. A reference: `${AUDIT_WEBHOOK_SECRET}` or `file:PATH`.
        pub secret: String = Text | "",
        /// Headers for the receiver, such as `Authorization: "Splunk ${HEC_TOKEN}"`; at most 32.
        pub headers: BTreeMap<String, String> = BTreeMap<String, Text>,
        /// PEM file of the client certificate chain, used with `https://` if the receiver requests
        /// one; relative to this file, and read again for each connection.
        pub client_cert: Option<PathBuf> = Option<Text>,
        /// PEM file of its private key; relative to this file.
        pub client_key: Option<PathBuf> = Option<Text>,
    }

    #[serde(rename_all = "lowercase")]
    pub enum OutputKind { Off, Stdout, File }
}

/// Ports of syslog over TLS (RFC 5425) and over plain TCP (RFC 6587).
const TLS_PORT: u16 = 6514;
const TCP_PORT: u16 = 601;

impl Syslog {
    /// Parses the address into the form used by connections, in which `https` means TLS and `http`
    /// plain TCP.
    pub fn url(&self) -> Option<Url> {
        let (scheme, port, rest) = match self.address.split_once("://")? {
            ("tls", rest) => ("https", TLS_PORT, rest),
            ("tcp", rest) => ("http", TCP_PORT, rest),
            _ => return None,
        };
        // Checked on the text, because a parsed URL omits the default ports of HTTP.
        let has_port =
            rest.rsplit_once(':').is_some_and(|(_, port)| !port.is_empty() && !port.contains(']'));
        let mut url = Url::parse(&format!("{scheme}://{rest}")).ok()?;
        if !has_port {
            url.set_port(Some(port)).ok()?;
        }
        let is_plain = url.username().is_empty() && url.password().is_none() && url.path() == "/";
        let is_alone = url.query().is_none() && url.fragment().is_none();
        let is_usable = is_plain && is_alone && url.port_or_known_default() != Some(0);
        is_usable.then_some(url)
    }
}

// Hides all fields: headers usually contain secrets, and the address may.
lockgate_text::debug_fields!(Webhook);

/// The output of records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Output {
    #[default]
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
    Config: output, on_full, queue, rotate_bytes, rotate_age, keep, anchor, arguments, syslog,
    webhook
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

#[cfg(test)]
mod tests;
