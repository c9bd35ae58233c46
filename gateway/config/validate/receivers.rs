//! `audit`, `approvals` and `telemetry`: the trail's output, and the receivers of records, messages
//! and exported signals, with the headers sent to them. Opens nothing, and no message quotes a
//! header's value.

use std::collections::BTreeMap;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderName;
use lockgate_egress::{CertificateError, ClientCertificate};
use lockgate_telemetry::Export;
use lockgate_telemetry::audit::{self, OutputKind};
use url::Url;

use super::{Check, is_local, parse_open_url};

/// Headers of a signed request, besides those of HTTP framing.
const OWN_HEADERS: [&str; 5] =
    ["content-encoding", "user-agent", "webhook-id", "webhook-signature", "webhook-timestamp"];

impl Check<'_> {
    pub fn audit(&mut self) -> Option<audit::Config> {
        let raw = &self.root.audit;
        if let Some(key) = &raw.key {
            self.long_secret("audit.key", key);
        }
        let output = self.audit_output(raw);
        let webhook = self.audit_receivers(raw);
        Some(audit::Config { output: output?, webhook, ..raw.clone() })
    }

    fn audit_output(&mut self, raw: &audit::Config) -> Option<audit::Output> {
        match (raw.kind, &raw.file) {
            (Some(OutputKind::Off), _) => None,
            (None, None) if !self.production => None,
            (Some(OutputKind::Stdout) | None, None) => Some(audit::Output::Stdout),
            (Some(OutputKind::File) | None, Some(file)) => {
                if let Some(folder) = file.parent()
                    && !folder.as_os_str().is_empty()
                    && !folder.is_dir()
                {
                    let hint = "create it; the gateway creates the file but not its folder";
                    self.error("audit.file", "its folder does not exist", hint);
                }
                Some(audit::Output::File(file.clone()))
            }
            (Some(OutputKind::Stdout), Some(_)) => {
                let what = "is not used with `output: stdout`";
                self.error("audit.file", what, "remove one of them");
                None
            }
            (Some(OutputKind::File), None) => {
                let what = "`file` requires `audit.file`";
                self.error("audit.output", what, "such as file: audit.jsonl");
                None
            }
        }
    }

    /// Checks the receivers, and returns the webhook with its headers as they are sent. Records are
    /// forwarded from the file, which keeps them until then.
    fn audit_receivers(&mut self, raw: &audit::Config) -> Option<audit::Webhook> {
        let is_file = raw.file.is_some() && !matches!(raw.kind, Some(OutputKind::Off));
        let given = [("syslog", raw.syslog.is_some()), ("webhook", raw.webhook.is_some())];
        for (name, is_given) in given {
            if is_given && !is_file && !self.is_damaged("audit.file") {
                let what = "requires `audit.file`: undelivered records are kept there";
                self.error(&format!("audit.{name}"), what, "such as file: audit.jsonl");
            }
        }
        if let Some(syslog) = &raw.syslog {
            self.syslog(syslog);
        }
        raw.webhook.as_ref().map(|webhook| self.audit_webhook(webhook))
    }

    fn audit_webhook(&mut self, raw: &audit::Webhook) -> audit::Webhook {
        let path = "audit.webhook.url";
        self.webhook_secret("audit.webhook.secret", &raw.secret);
        let headers =
            self.headers_for_receiver("audit.webhook.headers", &raw.headers, is_own_header);
        if let Some(url) = self.open_url(path, &raw.url, "https://siem.example.com/lockgate") {
            self.client_files("audit.webhook", &raw.client_cert, &raw.client_key, &url);
            if is_open(&url) {
                self.warning(path, "records cross the network unencrypted", "use https://");
            }
        }
        audit::Webhook { headers, ..raw.clone() }
    }

    fn syslog(&mut self, raw: &audit::Syslog) {
        let path = "audit.syslog.address";
        let Some(address) = raw.url() else {
            let what = "must be tls:// or tcp:// with a host and a port alone";
            return self.absent(path, what, "such as tls://logs.example.com:6514");
        };
        if is_open(&address) {
            self.warning(path, "records cross the network unencrypted", "use tls://");
        }
        self.client_files("audit.syslog", &raw.client_cert, &raw.client_key, &address);
    }

    /// Checks a receiver's client certificate: both files or neither.
    fn client_files(
        &mut self,
        receiver: &str,
        cert: &Option<PathBuf>,
        key: &Option<PathBuf>,
        address: &Url,
    ) {
        let missing = match (cert, key) {
            (None, Some(_)) => Some("client_cert"),
            (Some(_), None) => Some("client_key"),
            _ => None,
        };
        if let Some(missing) = missing {
            let what = "is required: `client_cert` and `client_key` go together";
            self.absent(&format!("{receiver}.{missing}"), what, "set it to a PEM file");
        }
        let Some((cert, key)) = cert.clone().zip(key.clone()) else { return };
        if address.scheme() != "https" {
            let what = "is not used without TLS";
            let hint = "use tls:// or https://, or remove it";
            self.error(&format!("{receiver}.client_cert"), what, hint);
        }
        if let Err(error) = (ClientCertificate { cert, key }).check() {
            let wrong = match &error {
                CertificateError::Key(_) => "client_key",
                _ => "client_cert",
            };
            let hint = "use PEM files: a certificate with its chain, and its key";
            self.error(&format!("{receiver}.{wrong}"), error.to_string(), hint);
        }
    }
}

/// Returns whether the gateway itself sets this header (in lower case).
fn is_own_header(name: &str) -> bool {
    is_framing(name) || OWN_HEADERS.contains(&name)
}

/// Returns whether traffic to this address is readable on the network.
fn is_open(url: &Url) -> bool {
    url.scheme() == "http" && !is_local(url)
}

// `approvals`: the webhook must be complete. The checks of address and secret apply to every
// webhook.

/// The prefix of Standard Webhooks secrets.
const PREFIX: &str = "whsec_";
/// The permitted length of such a secret in bytes.
const BYTES: std::ops::RangeInclusive<usize> = 24..=64;

impl Check<'_> {
    pub fn webhook(&mut self) {
        let Some(webhook) = &self.root.approvals.webhook else { return };
        let example = "https://hooks.example.com/approvals";
        self.open_url("approvals.webhook.url", &webhook.url, example);
        self.webhook_secret("approvals.webhook.secret", &webhook.secret);
        if self.root.http.public_url.is_none() {
            let hint = "messages link to the gateway: set the address that approvers use";
            self.absent("http.public_url", "is required for `approvals.webhook`", hint);
        }
    }

    /// Checks an http or https address without user and password.
    pub fn open_url(&mut self, path: &str, text: &str, example: &str) -> Option<Url> {
        let url = parse_open_url(text);
        if url.is_none() {
            let what = "must be an http:// or https:// address without user and password";
            self.absent(path, what, format!("such as {example}"));
        }
        url
    }

    /// Checks the key that signs a webhook's requests.
    fn webhook_secret(&mut self, path: &str, text: &str) {
        let hint = "generate one with `echo whsec_$(openssl rand -base64 32)`";
        if text.is_empty() {
            self.absent(path, "is required: messages are signed with it", hint);
        } else if decode_webhook_secret(text).is_none() {
            self.error(path, "must be `whsec_` and 24 to 64 bytes in base64", hint);
        } else {
            self.long_secret(path, text);
        }
    }
}

/// Returns the bytes of a Standard Webhooks secret.
pub fn decode_webhook_secret(text: &str) -> Option<Vec<u8>> {
    let bytes = STANDARD.decode(text.strip_prefix(PREFIX)?).ok()?;
    BYTES.contains(&bytes.len()).then_some(bytes)
}

// `telemetry`: attributes and addresses of exported signals.

/// Maximum bytes of the service's name, and of an attribute's value.
const MAX_TEXT: usize = 256;
const MAX_ATTRIBUTES: usize = 32;

impl Check<'_> {
    pub(super) fn export(&mut self) -> Export {
        let raw = &self.root.telemetry;
        let mut unencrypted = None;
        for (key, address, signal) in
            [("otlp", &raw.otlp, "traces"), ("otlp_logs", &raw.otlp_logs, "logs")]
        {
            let Some(address) = address else { continue };
            let example = format!("http://127.0.0.1:4318/v1/{signal}");
            let url = self.open_url(&format!("telemetry.{key}"), address, &example);
            if url.is_some_and(|url| is_open(&url)) {
                unencrypted.get_or_insert(key);
            }
        }
        let path = "telemetry.headers";
        if let Some(key) = unencrypted
            && !raw.headers.is_empty()
        {
            let hint = format!("use https:// for telemetry.{key}");
            self.warning(path, "cross the network unencrypted", hint);
        }
        let service_name = &raw.service_name;
        if service_name.is_empty() {
            self.error("telemetry.service_name", "is empty", "such as lockgate-eu");
        }
        self.short("telemetry.service_name", Some(service_name), MAX_TEXT);
        for (name, value) in &raw.resource {
            self.within("telemetry.resource", name, |check| {
                check.short("", Some(value), MAX_TEXT);
                if name == "service.name" {
                    check.error("", "has a key of its own", "use telemetry.service_name");
                }
            });
        }
        self.at_most("telemetry.resource", raw.resource.len(), MAX_ATTRIBUTES, "remove some");
        let headers = self.headers_for_receiver(path, &raw.headers, is_framing);
        Export { headers, ..raw.clone() }
    }
}

// Configured headers, which are added to the gateway's own.

/// Maximum number of headers for a receiver.
const MAX_HEADERS: usize = 32;
/// Headers of HTTP framing, which only the sender of a message can set.
const FRAMING: [&str; 11] = [
    "connection",
    "content-length",
    "content-type",
    "expect",
    "host",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Returns whether a header (in lower case) belongs to HTTP framing.
pub(super) fn is_framing(name: &str) -> bool {
    FRAMING.contains(&name)
}

impl Check<'_> {
    /// Returns the headers below `path`, with names in lower case, as HTTP compares them.
    pub(super) fn headers(
        &mut self,
        path: &str,
        raw: &BTreeMap<String, String>,
        is_own: fn(&str) -> bool,
    ) -> BTreeMap<String, String> {
        let mut headers = BTreeMap::new();
        for (name, value) in raw {
            let lower = name.to_ascii_lowercase();
            let mistake = if HeaderName::from_bytes(name.as_bytes()).is_err() {
                Some(("is not a header name", "use letters, digits and -"))
            } else if is_own(&lower) {
                Some(("the gateway sets this header itself", "remove it"))
            } else if !value.bytes().all(|byte| matches!(byte, b'\t' | b' '..=b'~')) {
                let hint = "remove line breaks and other control characters";
                Some(("must be ASCII on one line", hint))
            } else if headers.contains_key(&lower) {
                Some(("is set twice, in different case", "keep one of them"))
            } else {
                None
            };
            if let Some((what, hint)) = mistake {
                self.within(path, name, |check| check.error("", what, hint));
            }
            headers.insert(lower, value.trim().to_owned());
        }
        headers
    }

    /// Returns the headers for a receiver of exported data: limited in number, with a warning about
    /// literal credentials.
    pub(super) fn headers_for_receiver(
        &mut self,
        path: &str,
        raw: &BTreeMap<String, String>,
        is_own: fn(&str) -> bool,
    ) -> BTreeMap<String, String> {
        self.at_most(path, raw.len(), MAX_HEADERS, "remove some");
        for name in raw.keys() {
            if is_credential(name) {
                self.within(path, name, |check| check.warn_of_literal(""));
            }
        }
        self.headers(path, raw, is_own)
    }
}

/// Returns whether a header of this name usually carries a credential.
fn is_credential(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    ["auth", "key", "token", "secret"].iter().any(|word| lower.contains(word))
}
