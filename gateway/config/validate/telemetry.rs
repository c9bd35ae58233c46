//! `telemetry`: what goes to the collector beside the spans themselves. Values of headers are not
//! quoted in any message.

use std::collections::BTreeMap;

use lockgate_telemetry::Export;

use super::{Check, is_local, server};
use crate::raw;
use crate::raw::leaf::Text;

/// Longest name of the service, and longest value of an attribute, in bytes.
const MAX_TEXT: usize = 256;
/// Most attributes and headers.
const MOST: usize = 32;

impl Check<'_> {
    pub(super) fn export(&mut self, raw: &raw::Telemetry) -> Export {
        let service_name = match &raw.service_name {
            Some(name) if name.0.is_empty() => {
                self.error(&["telemetry", "service_name"], "is empty", "such as lockgate-eu");
                String::new()
            }
            Some(name) => name.0.clone(),
            None => Export::default().service_name,
        };
        self.short(&["telemetry", "service_name"], raw.service_name.as_ref(), MAX_TEXT);
        for (name, value) in &raw.resource {
            self.short(&["telemetry", "resource", name], Some(value), MAX_TEXT);
            if name == "service.name" {
                let hint = "write it as telemetry.service_name";
                self.error(&["telemetry", "resource", name], "is a key of its own", hint);
            }
        }
        for (key, map) in [("resource", &raw.resource), ("headers", &raw.headers)] {
            if map.len() > MOST {
                let what = format!("must have at most {MOST} members");
                self.error(&["telemetry", key], what, "take some out");
            }
        }
        Export {
            headers: self.collector_headers(raw),
            service_name,
            resource: plain(&raw.resource),
            sampled: u16::try_from(raw.samples_per_thousand.size()).unwrap_or(1000),
        }
    }

    fn collector_headers(&mut self, raw: &raw::Telemetry) -> BTreeMap<String, String> {
        for (name, value) in &raw.headers {
            let path = ["telemetry", "headers", name.as_str()];
            let value = &value.0;
            if !server::is_token(name) {
                self.error(&path, "is no name of a header", "use letters, digits and -");
            } else if name.eq_ignore_ascii_case("content-type") {
                self.error(&path, "the gateway sets this header itself", "take it out");
            } else if !value.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
                self.error(&path, "must be ASCII on one line", "take other characters out");
            } else if is_credential(name) && self.is_literal(&path) {
                let hint = "refer to it: ${VAR} or file:PATH";
                self.warning(&path, "is written into the file itself", hint);
            }
        }
        let url = raw.otlp.as_ref().and_then(|text| url::Url::parse(&text.0).ok());
        let is_open = url.is_some_and(|url| url.scheme() == "http" && !is_local(&url));
        if is_open && !raw.headers.is_empty() {
            let what = "cross the network unencrypted";
            self.warning(&["telemetry", "headers"], what, "use https:// for telemetry.otlp");
        }
        plain(&raw.headers)
    }
}

/// Whether a header of this name usually carries a credential.
fn is_credential(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    ["auth", "key", "token", "secret"].iter().any(|word| lower.contains(word))
}

fn plain(map: &BTreeMap<String, Text>) -> BTreeMap<String, String> {
    map.iter().map(|(name, value)| (name.clone(), value.0.clone())).collect()
}
