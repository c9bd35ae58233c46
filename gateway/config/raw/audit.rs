//! `audit`: the trail of decisions and outcomes. Contains a secret and so has no `Debug`.

use std::collections::BTreeMap;

use lockgate_telemetry::audit::{Arguments, Facility, OnFull};
#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::leaf::{Seconds, Size, Text, Whole};

#[derive(Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Audit {
    /// `off`, `stdout` (JSON lines; under `lockgate stdio`, stderr) or `file`. Default `file` with
    /// `audit.file`, else `off`, in production `stdout`.
    pub output: Option<Output>,
    /// The file, with mode 0600; relative to this file. Rotated files are kept next to it.
    pub file: Option<Text>,
    /// At least 32 characters. With it every hash is keyed, so that write access to the file is not
    /// enough to forge it. A reference: `${LOCKGATE_AUDIT_KEY}` or `file:PATH`.
    pub key: Option<Text>,
    /// When a record cannot be written (disk full, writer too slow): `deny` rejects the call,
    /// `drop` sends it and counts the missing records.
    pub on_full: OnFull,
    /// Records that wait for the writer, 64–1000000; a running call reserves the place of its
    /// outcome.
    pub queue: Whole<64, 1_000_000, 8192>,
    /// Size at which the file is rotated, 64KiB–16GiB.
    pub rotate_size: Size<0x1_0000, 0x4_0000_0000, 0x400_0000>,
    /// Age at which the file is rotated, 60–2678400 s.
    pub rotate_age: Seconds<60, 2_678_400, 86_400>,
    /// Rotated files that are kept, 1–10000.
    pub keep: Whole<1, 10_000, 30>,
    /// How often an anchor is written, 10–86400 s.
    pub anchor: Seconds<10, 86_400, 300>,
    /// How arguments are recorded: `digest`, `redacted` (and the digest) or `omitted`.
    pub arguments: Arguments,
    /// A syslog receiver (RFC 5424 over TCP) of every record; requires `audit.file`.
    pub syslog: Option<Syslog>,
    /// A webhook that receives every record; requires `audit.file`.
    pub webhook: Option<Webhook>,
}

#[derive(Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(test, schemars(rename = "AuditSyslog"))]
pub struct Syslog {
    /// `tls://HOST:PORT`, default port 6514, or `tcp://HOST:PORT` (601) without encryption.
    pub address: Option<Text>,
    /// `audit` (13), `auth`, `authpriv`, or `local0` to `local7`.
    pub facility: Facility,
    /// PEM file of the client certificate chain, used with `tls://` if the receiver requests one;
    /// relative to this file, and read again for each connection.
    pub client_cert: Option<Text>,
    /// PEM file of its private key; relative to this file.
    pub client_key: Option<Text>,
}

#[derive(Default, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(test, schemars(rename = "AuditWebhook"))]
pub struct Webhook {
    /// Address to which records are posted, as JSON lines (`application/x-ndjson`).
    pub url: Option<Text>,
    /// Key that signs the requests (Standard Webhooks): `whsec_` and 24 to 64 random bytes in
    /// base64. A reference: `${AUDIT_WEBHOOK_SECRET}` or `file:PATH`.
    pub secret: Option<Text>,
    /// Headers for the receiver, such as `Authorization: "Splunk ${HEC_TOKEN}"`; at most 32.
    pub headers: BTreeMap<String, Text>,
    /// PEM file of the client certificate chain, used with `https://` if the receiver requests one;
    /// relative to this file, and read again for each connection.
    pub client_cert: Option<Text>,
    /// PEM file of its private key; relative to this file.
    pub client_key: Option<Text>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "lowercase")]
#[cfg_attr(test, schemars(inline))]
pub enum Output {
    Off,
    Stdout,
    File,
}
