//! `audit`: the trail of decisions and outcomes. Contains a secret and so has no `Debug`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use lockgate_telemetry::audit::{Arguments, Facility, OnFull};

use super::leaf::{Seconds, Size, Text, Whole};

lockgate_text::settings! {
    pub struct Audit as "Audit" {
        /// `off`, `stdout` (JSON lines; under `lockgate stdio`, stderr) or `file`. Default `file`
        /// with `audit.file`, else `off`, in production `stdout`.
        pub output: Option<Output>,
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
        pub rotate_size: u64 = Size<0x1_0000, 0x4_0000_0000, 0x400_0000>,
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
    }

    pub struct Syslog as "AuditSyslog" {
        /// `tls://HOST:PORT`, default port 6514, or `tcp://HOST:PORT` (601) without encryption.
        pub address: Option<String> = Option<Text>,
        /// `audit` (13), `auth`, `authpriv`, or `local0` to `local7`.
        pub facility: Facility,
        /// PEM file of the client certificate chain, used with `tls://` if the receiver requests
        /// one; relative to this file, and read again for each connection.
        pub client_cert: Option<PathBuf> = Option<Text>,
        /// PEM file of its private key; relative to this file.
        pub client_key: Option<PathBuf> = Option<Text>,
    }

    pub struct Webhook as "AuditWebhook" {
        /// Address to which records are posted, as JSON lines (`application/x-ndjson`).
        pub url: Option<String> = Option<Text>,
        /// Key that signs the requests (Standard Webhooks): `whsec_` and 24 to 64 random bytes in
        /// base64. A reference: `${AUDIT_WEBHOOK_SECRET}` or `file:PATH`.
        pub secret: Option<String> = Option<Text>,
        /// Headers for the receiver, such as `Authorization: "Splunk ${HEC_TOKEN}"`; at most 32.
        pub headers: BTreeMap<String, String> = BTreeMap<String, Text>,
        /// PEM file of the client certificate chain, used with `https://` if the receiver requests
        /// one; relative to this file, and read again for each connection.
        pub client_cert: Option<PathBuf> = Option<Text>,
        /// PEM file of its private key; relative to this file.
        pub client_key: Option<PathBuf> = Option<Text>,
    }

    #[serde(rename_all = "lowercase")]
    pub enum Output { Off, Stdout, File }
}
