//! `telemetry`: attributes and addresses of exported signals.

use std::collections::BTreeMap;

use lockgate_telemetry::Export;

use super::headers::is_framing;
use super::{Check, is_local, parse_open_url};
use crate::raw;
use crate::raw::leaf::Text;
use crate::raw::{text_or, texts_of};

/// Maximum bytes of the service's name, and of an attribute's value.
const MAX_TEXT: usize = 256;
const MAX_HEADERS: usize = 32;

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
                let hint = "use telemetry.service_name";
                self.error(&["telemetry", "resource", name], "has a key of its own", hint);
            }
        }
        if raw.resource.len() > MAX_HEADERS {
            let what = format!("must have at most {MAX_HEADERS} members");
            self.error(&["telemetry", "resource"], what, "remove some");
        }
        Export {
            headers: self.collector_headers(raw),
            service_name,
            resource: texts_of(&raw.resource),
            sampled: u16::try_from(raw.samples_per_thousand.size()).unwrap_or(1000),
        }
    }

    fn collector_headers(&mut self, raw: &raw::Telemetry) -> BTreeMap<String, String> {
        let path = ["telemetry", "headers"];
        let headers = self.headers_for_receiver(&path, &raw.headers, is_framing);
        for (key, address) in [("otlp", &raw.otlp), ("otlp_logs", &raw.otlp_logs)] {
            if !raw.headers.is_empty()
                && let Ok(url) = url::Url::parse(text_or(address, ""))
                && url.scheme() == "http"
                && !is_local(&url)
            {
                let what = "cross the network unencrypted";
                let hint = format!("use https:// for telemetry.{key}");
                self.warning(&path, what, hint);
                break;
            }
        }
        headers
    }

    /// Checks the address of a collector for traces or logs.
    pub(super) fn collector(
        &mut self,
        key: &str,
        address: &Option<Text>,
        signal: &str,
    ) -> Option<url::Url> {
        let Some(Text(address)) = address else { return None };
        let url = parse_open_url(address);
        if url.is_none() {
            let what = "must be an http:// or https:// address without user and password";
            let hint = format!("such as http://127.0.0.1:4318/v1/{signal}");
            self.error(&["telemetry", key], what, hint);
        }
        url
    }
}
