//! `audit`: the trail's default output, the required file, and the receivers of records. Opens
//! nothing.

use std::path::{Path, PathBuf};

use lockgate_egress::{CertificateError, ClientCertificate};
use lockgate_telemetry::audit;
use url::Url;

use super::headers::is_framing;
use super::{Check, is_local};
use crate::raw::audit::{Audit, Output, Syslog, Webhook};
use crate::raw::leaf::Text;
use crate::raw::text_or;

/// Ports of syslog over TLS (RFC 5425) and over plain TCP (RFC 6587).
const TLS_PORT: u16 = 6514;
const TCP_PORT: u16 = 601;
/// Headers of a signed request, besides those of HTTP framing.
const OWN_HEADERS: [&str; 5] =
    ["content-encoding", "user-agent", "webhook-id", "webhook-signature", "webhook-timestamp"];

impl Check<'_> {
    pub fn audit(&mut self, raw: &Audit) -> Option<audit::Config> {
        let key = self.long_secret(&["audit", "key"], raw.key.as_ref());
        let output = self.audit_output(raw);
        let forward = self.audit_forward(raw);
        let output = output?;
        Some(audit::Config {
            output,
            key,
            on_full: raw.on_full,
            queue: raw.queue.size(),
            rotate_bytes: raw.rotate_size.get(),
            rotate_age: raw.rotate_age.duration(),
            keep: raw.keep.size(),
            anchor: raw.anchor.duration(),
            forward,
            arguments: raw.arguments,
        })
    }

    fn audit_output(&mut self, raw: &Audit) -> Option<audit::Output> {
        match (raw.output, &raw.file) {
            (Some(Output::Off), _) => None,
            (None, None) if !self.production => None,
            (Some(Output::Stdout) | None, None) => Some(audit::Output::Stdout),
            (Some(Output::File) | None, Some(file)) => {
                if let Some(folder) = Path::new(&file.0).parent()
                    && !folder.as_os_str().is_empty()
                    && !folder.is_dir()
                {
                    let hint = "create it; the gateway creates the file but not its folder";
                    self.error(&["audit", "file"], "its folder does not exist", hint);
                }
                Some(audit::Output::File(Path::new(&file.0).to_path_buf()))
            }
            (Some(Output::Stdout), Some(_)) => {
                self.error(
                    &["audit", "file"],
                    "is not used with `output: stdout`",
                    "remove one of them",
                );
                None
            }
            (Some(Output::File), None) => {
                self.error(
                    &["audit", "output"],
                    "`file` requires `audit.file`",
                    "such as file: audit.jsonl",
                );
                None
            }
        }
    }

    /// Checks the receivers. Records are forwarded from the file, which keeps them until then.
    fn audit_forward(&mut self, raw: &Audit) -> audit::Forward {
        let is_file = raw.file.is_some() && !matches!(raw.output, Some(Output::Off));
        let given = [("syslog", raw.syslog.is_some()), ("webhook", raw.webhook.is_some())];
        for (name, is_given) in given {
            if is_given && !is_file && !self.layers.damaged(&["audit", "file"]) {
                let what = "requires `audit.file`: undelivered records are kept there";
                self.error(&["audit", name], what, "such as file: audit.jsonl");
            }
        }
        let webhook = raw.webhook.as_ref().and_then(|raw| self.audit_webhook(raw));
        let syslog = raw.syslog.as_ref().and_then(|raw| self.syslog(raw));
        audit::Forward { syslog, webhook }
    }

    fn audit_webhook(&mut self, raw: &Webhook) -> Option<audit::Webhook> {
        let path = ["audit", "webhook"];
        let url = self.webhook_url(&path, raw.url.as_ref(), "https://siem.example.com/lockgate");
        let secret = self.webhook_secret(&path, raw.secret.as_ref());
        let path = ["audit", "webhook", "headers"];
        let headers = self.headers_for_receiver(&path, &raw.headers, is_own_header);
        let url = url?;
        let is_tls = url.scheme() == "https";
        let client = self.client_files("webhook", &raw.client_cert, &raw.client_key, is_tls);
        if is_open(&url) {
            let what = "records cross the network unencrypted";
            self.warning(&["audit", "webhook", "url"], what, "use https://");
        }
        Some(audit::Webhook { url, secret: secret?, headers, client })
    }

    fn syslog(&mut self, raw: &Syslog) -> Option<audit::Syslog> {
        let path = ["audit", "syslog", "address"];
        let Some(address) = parse_address(text_or(&raw.address, "")) else {
            if !self.layers.damaged(&path) {
                let what = "must be tls:// or tcp:// with a host and a port alone";
                self.error(&path, what, "such as tls://logs.example.com:6514");
            }
            return None;
        };
        if is_open(&address) {
            self.warning(&path, "records cross the network unencrypted", "use tls://");
        }
        let is_tls = address.scheme() == "https";
        let client = self.client_files("syslog", &raw.client_cert, &raw.client_key, is_tls);
        Some(audit::Syslog { address, facility: raw.facility, client })
    }

    /// Checks a receiver's client certificate: both files or neither.
    fn client_files(
        &mut self,
        receiver: &str,
        cert: &Option<Text>,
        key: &Option<Text>,
        is_tls: bool,
    ) -> Option<audit::ClientFiles> {
        let files = match (cert, key) {
            (Some(cert), Some(key)) => {
                ClientCertificate { cert: PathBuf::from(&cert.0), key: PathBuf::from(&key.0) }
            }
            (None, None) => return None,
            (None, Some(_)) => return self.missing_client_file(receiver, "client_cert"),
            (Some(_), None) => return self.missing_client_file(receiver, "client_key"),
        };
        if !is_tls {
            let what = "is not used without TLS";
            let hint = "use tls:// or https://, or remove it";
            self.error(&["audit", receiver, "client_cert"], what, hint);
        }
        if let Err(error) = files.check() {
            let wrong = match &error {
                CertificateError::Key(_) => "client_key",
                _ => "client_cert",
            };
            let hint = "use PEM files: a certificate with its chain, and its key";
            self.error(&["audit", receiver, wrong], error.to_string(), hint);
        }
        Some(audit::ClientFiles { cert: files.cert, key: files.key })
    }

    fn missing_client_file<T>(&mut self, receiver: &str, name: &str) -> Option<T> {
        let path = ["audit", receiver, name];
        if !self.layers.damaged(&path) {
            let what = "is required: `client_cert` and `client_key` go together";
            self.error(&path, what, "set it to a PEM file");
        }
        None
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

#[cfg(test)]
mod tests;
