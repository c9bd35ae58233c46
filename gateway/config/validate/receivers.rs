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
use lockgate_telemetry::audit::{self, OutputKind, SyslogSettings, WebhookSettings};
use url::Url;

use super::{Check, is_local, parse_open_url};
use crate::raw::Approvals;

/// Ports of syslog over TLS (RFC 5425) and over plain TCP (RFC 6587).
const TLS_PORT: u16 = 6514;
const TCP_PORT: u16 = 601;
/// Headers of a signed request, besides those of HTTP framing.
const OWN_HEADERS: [&str; 5] =
    ["content-encoding", "user-agent", "webhook-id", "webhook-signature", "webhook-timestamp"];

impl Check<'_> {
    pub fn audit(&mut self, raw: &audit::Config) -> Option<audit::Config> {
        self.long_secret("audit.key", raw.key.as_deref());
        let output = self.audit_output(raw);
        let forward = self.audit_forward(raw);
        Some(audit::Config { output: output?, forward, ..raw.clone() })
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

    /// Checks the receivers. Records are forwarded from the file, which keeps them until then.
    fn audit_forward(&mut self, raw: &audit::Config) -> audit::Forward {
        let is_file = raw.file.is_some() && !matches!(raw.kind, Some(OutputKind::Off));
        let given = [("syslog", raw.syslog.is_some()), ("webhook", raw.webhook.is_some())];
        for (name, is_given) in given {
            if is_given && !is_file && !self.is_damaged("audit.file") {
                let what = "requires `audit.file`: undelivered records are kept there";
                self.error(&format!("audit.{name}"), what, "such as file: audit.jsonl");
            }
        }
        let webhook = raw.webhook.as_ref().and_then(|raw| self.audit_webhook(raw));
        let syslog = raw.syslog.as_ref().and_then(|raw| self.syslog(raw));
        audit::Forward { syslog, webhook }
    }

    fn audit_webhook(&mut self, raw: &WebhookSettings) -> Option<audit::Webhook> {
        let path = "audit.webhook";
        let url = raw.url.as_deref().unwrap_or("");
        let url = self.open_url("audit.webhook.url", url, "https://siem.example.com/lockgate");
        let secret = self.webhook_secret("audit.webhook.secret", raw.secret.as_deref());
        let headers =
            self.headers_for_receiver("audit.webhook.headers", &raw.headers, is_own_header);
        let url = url?;
        let is_tls = url.scheme() == "https";
        let client = self.client_files(path, &raw.client_cert, &raw.client_key, is_tls);
        if is_open(&url) {
            let what = "records cross the network unencrypted";
            self.warning("audit.webhook.url", what, "use https://");
        }
        Some(audit::Webhook { url, secret: secret?, headers, client })
    }

    fn syslog(&mut self, raw: &SyslogSettings) -> Option<audit::Syslog> {
        let path = "audit.syslog.address";
        let Some(address) = parse_address(raw.address.as_deref().unwrap_or("")) else {
            let what = "must be tls:// or tcp:// with a host and a port alone";
            self.absent(path, what, "such as tls://logs.example.com:6514");
            return None;
        };
        if is_open(&address) {
            self.warning(path, "records cross the network unencrypted", "use tls://");
        }
        let is_tls = address.scheme() == "https";
        let client = self.client_files("audit.syslog", &raw.client_cert, &raw.client_key, is_tls);
        Some(audit::Syslog { address, facility: raw.facility, client })
    }

    /// Checks a receiver's client certificate: both files or neither.
    fn client_files(
        &mut self,
        receiver: &str,
        cert: &Option<PathBuf>,
        key: &Option<PathBuf>,
        is_tls: bool,
    ) -> Option<audit::ClientFiles> {
        let missing = match (cert, key) {
            (None, Some(_)) => Some("client_cert"),
            (Some(_), None) => Some("client_key"),
            _ => None,
        };
        if let Some(missing) = missing {
            let what = "is required: `client_cert` and `client_key` go together";
            self.absent(&format!("{receiver}.{missing}"), what, "set it to a PEM file");
        }
        let files = ClientCertificate { cert: cert.clone()?, key: key.clone()? };
        if !is_tls {
            let what = "is not used without TLS";
            let hint = "use tls:// or https://, or remove it";
            self.error(&format!("{receiver}.client_cert"), what, hint);
        }
        if let Err(error) = files.check() {
            let wrong = match &error {
                CertificateError::Key(_) => "client_key",
                _ => "client_cert",
            };
            let hint = "use PEM files: a certificate with its chain, and its key";
            self.error(&format!("{receiver}.{wrong}"), error.to_string(), hint);
        }
        Some(audit::ClientFiles { cert: files.cert, key: files.key })
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

/// Parses a syslog address into the form used by connections: `https` means TLS.
fn parse_address(text: &str) -> Option<Url> {
    let (scheme, port, rest) = match text.split_once("://")? {
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
    if !is_plain || !is_alone || url.port_or_known_default() == Some(0) {
        return None;
    }
    Some(url)
}

// `approvals`: the webhook must be complete. The checks of address and secret apply to every
// webhook.

/// The prefix of Standard Webhooks secrets.
const PREFIX: &str = "whsec_";
/// The permitted length of such a secret in bytes.
const BYTES: std::ops::RangeInclusive<usize> = 24..=64;

impl Check<'_> {
    pub fn webhook(
        &mut self,
        raw: &Approvals,
        public_url: Option<&str>,
    ) -> Option<lockgate_admin::Webhook> {
        let raw = raw.webhook.as_ref()?;
        let url = raw.url.as_deref().unwrap_or("");
        let url =
            self.open_url("approvals.webhook.url", url, "https://hooks.example.com/approvals");
        let secret = self.webhook_secret("approvals.webhook.secret", raw.secret.as_deref());
        if public_url.is_none() {
            let hint = "messages link to the gateway: set the address that approvers use";
            self.absent("http.public_url", "is required for `approvals.webhook`", hint);
        }
        // An invalid URL is reported elsewhere.
        let link_base = Url::parse(public_url?).ok()?;
        Some(lockgate_admin::Webhook { url: url?, secret: secret?, link_base })
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
    fn webhook_secret(&mut self, path: &str, text: Option<&str>) -> Option<Vec<u8>> {
        let hint = "generate one with `echo whsec_$(openssl rand -base64 32)`";
        let Some(text) = text else {
            self.absent(path, "is required: messages are signed with it", hint);
            return None;
        };
        let bytes = parse_secret(text);
        if bytes.is_none() {
            self.error(path, "must be `whsec_` and 24 to 64 bytes in base64", hint);
        } else {
            self.long_secret(path, Some(text));
        }
        bytes
    }
}

fn parse_secret(text: &str) -> Option<Vec<u8>> {
    let bytes = STANDARD.decode(text.strip_prefix(PREFIX)?).ok()?;
    BYTES.contains(&bytes.len()).then_some(bytes)
}

// `telemetry`: attributes and addresses of exported signals.

/// Maximum bytes of the service's name, and of an attribute's value.
const MAX_TEXT: usize = 256;
const MAX_ATTRIBUTES: usize = 32;

impl Check<'_> {
    pub(super) fn export(&mut self, raw: &Export) -> Export {
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
        Export { headers: self.collector_headers(raw), ..raw.clone() }
    }

    fn collector_headers(&mut self, raw: &Export) -> BTreeMap<String, String> {
        let path = "telemetry.headers";
        let headers = self.headers_for_receiver(path, &raw.headers, is_framing);
        for (key, address) in [("otlp", &raw.otlp), ("otlp_logs", &raw.otlp_logs)] {
            if !raw.headers.is_empty()
                && let Ok(url) = Url::parse(address.as_deref().unwrap_or(""))
                && url.scheme() == "http"
                && !is_local(&url)
            {
                let what = "cross the network unencrypted";
                let hint = format!("use https:// for telemetry.{key}");
                self.warning(path, what, hint);
                break;
            }
        }
        headers
    }

    /// Checks the address of a collector for traces or logs.
    pub(super) fn collector(
        &mut self,
        key: &str,
        address: Option<&str>,
        signal: &str,
    ) -> Option<Url> {
        let address = address?;
        let example = format!("http://127.0.0.1:4318/v1/{signal}");
        self.open_url(&format!("telemetry.{key}"), address, &example)
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

#[cfg(test)]
mod tests;
