//! `telemetry`: what goes to the collector beside the spans themselves.

use std::collections::BTreeMap;

use lockgate_telemetry::Export;

use super::headers::is_framing;
use super::{Check, is_local};
use crate::raw;
use crate::raw::leaf::Text;

/// Longest name of the service, and longest value of an attribute, in bytes.
const MAX_TEXT: usize = 256;
/// Most attributes.
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
        if raw.resource.len() > MOST {
            let what = format!("must have at most {MOST} members");
            self.error(&["telemetry", "resource"], what, "take some out");
        }
        Export {
            headers: self.collector_headers(raw),
            service_name,
            resource: plain(&raw.resource),
            sampled: u16::try_from(raw.samples_per_thousand.size()).unwrap_or(1000),
        }
    }

    fn collector_headers(&mut self, raw: &raw::Telemetry) -> BTreeMap<String, String> {
        let path = ["telemetry", "headers"];
        let headers = self.headers_for_receiver(&path, &raw.headers, is_framing);
        let url = raw.otlp.as_ref().and_then(|text| url::Url::parse(&text.0).ok());
        let is_open = url.is_some_and(|url| url.scheme() == "http" && !is_local(&url));
        if is_open && !raw.headers.is_empty() {
            let what = "cross the network unencrypted";
            self.warning(&path, what, "use https:// for telemetry.otlp");
        }
        headers
    }
}

fn plain(map: &BTreeMap<String, Text>) -> BTreeMap<String, String> {
    map.iter().map(|(name, value)| (name.clone(), value.0.clone())).collect()
}
