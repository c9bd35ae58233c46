//! `audit`: the trail of decisions and outcomes. Contains a secret and so has no `Debug`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::leaf::{Seconds, Size, Text, Whole};

#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Audit {
    /// `off`, `stdout` (JSON lines; under `lockgate stdio`, stderr) or `file`. Default `file` with
    /// `audit.file`, else `off`, in production `stdout`.
    pub output: Option<Output>,
    /// The file, of mode 0600; relative to this file. Files that were set aside are beside it.
    pub file: Option<Text>,
    /// At least 32 characters. With it every hash is keyed, so that who can write the file still
    /// cannot forge it. A reference: `${LOCKGATE_AUDIT_KEY}` or `file:PATH`.
    pub key: Option<Text>,
    /// When a record cannot be written (disk full, writer too slow): `deny` refuses the call,
    /// `drop` makes it and counts what is missing.
    pub on_full: OnFull,
    /// Records that wait for the writer, 64–1000000; a running call holds the place of its outcome.
    pub queue: Whole<64, 1_000_000, 8192>,
    /// Size at which the file is set aside, 64KiB–16GiB.
    pub rotate_size: Size<0x1_0000, 0x4_0000_0000, 0x400_0000>,
    /// Age at which the file is set aside, 60–2678400 s.
    pub rotate_age: Seconds<60, 2_678_400, 86_400>,
    /// Files set aside that are kept, 1–10000.
    pub keep: Whole<1, 10_000, 30>,
    /// How often an anchor is written, 10–86400 s.
    pub anchor: Seconds<10, 86_400, 300>,
    /// What is kept of arguments: `digest`, `redacted` (and the digest) or `omitted`.
    pub arguments: Arguments,
    /// A receiver of syslog (RFC 5424 over TCP) that gets every record; needs `audit.file`.
    pub syslog: Option<Syslog>,
    /// An address that every record is posted to; needs `audit.file`.
    pub webhook: Option<Webhook>,
}

#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "AuditSyslog")]
pub struct Syslog {
    /// `tls://HOST:PORT`, port 6514 where none is written, or `tcp://HOST:PORT` (601) without
    /// encryption.
    pub address: Option<Text>,
    /// `audit` (13), `auth`, `authpriv`, or `local0` to `local7`.
    pub facility: Facility,
    /// PEM file of the certificate chain that a receiver is shown when it asks for one, with
    /// `tls://`; relative to this file, and read again for each connection.
    pub client_cert: Option<Text>,
    /// PEM file of its private key; relative to this file.
    pub client_key: Option<Text>,
}

#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "AuditWebhook")]
pub struct Webhook {
    /// Where records are posted, as JSON lines (`application/x-ndjson`).
    pub url: Option<Text>,
    /// What the requests are signed with (Standard Webhooks): `whsec_` and 24 to 64 random bytes in
    /// base64. A reference: `${AUDIT_WEBHOOK_SECRET}` or `file:PATH`.
    pub secret: Option<Text>,
    /// Headers for the receiver, such as `Authorization: "Splunk ${HEC_TOKEN}"`; at most 32.
    pub headers: BTreeMap<String, Text>,
    /// PEM file of the certificate chain that a receiver is shown when it asks for one, with
    /// `https://`; relative to this file, and read again for each connection.
    pub client_cert: Option<Text>,
    /// PEM file of its private key; relative to this file.
    pub client_key: Option<Text>,
}

#[derive(Clone, Copy, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Facility {
    #[default]
    Audit,
    Auth,
    Authpriv,
    Local0,
    Local1,
    Local2,
    Local3,
    Local4,
    Local5,
    Local6,
    Local7,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Output {
    Off,
    Stdout,
    File,
}

#[derive(Clone, Copy, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum OnFull {
    #[default]
    Deny,
    Drop,
}

#[derive(Clone, Copy, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Arguments {
    #[default]
    Digest,
    Redacted,
    Omitted,
}
