//! Records of the audit trail as syslog messages: RFC 5424, with the length before each message
//! (RFC 6587, as RFC 5425 requires under TLS). The message text is the record's line, unchanged.

use std::io::Write as _;

use lockgate_telemetry::audit::Facility;
use lockgate_text::json;
use serde::Deserialize;

/// Maximum bytes of a host name (RFC 5424, section 6).
const MAX_HOST: usize = 255;

/// The common fields of all messages of a process.
#[derive(Clone, Debug)]
pub(super) struct Sender {
    facility: Facility,
    host: String,
    process: u32,
}

// Severities of RFC 5424.
const WARNING: u8 = 4;
const NOTICE: u8 = 5;
const INFO: u8 = 6;

/// The members of a record that its message header contains.
#[derive(Deserialize)]
struct Head<'a> {
    time: &'a str,
    kind: &'a str,
    decision: Option<&'a str>,
}

impl Sender {
    /// Creates the sender for this process and host.
    pub(super) fn new(facility: Facility) -> Self {
        Self::named(facility, &host(), std::process::id())
    }

    fn named(facility: Facility, host: &str, process: u32) -> Self {
        let mut host: String = host.chars().filter(char::is_ascii_graphic).collect();
        host.truncate(MAX_HOST);
        if host.is_empty() {
            host.push('-');
        }
        Self { facility, host, process }
    }

    /// Appends the messages of some records.
    pub(super) fn write(&self, out: &mut Vec<u8>, lines: &[u8]) {
        for line in lines.split(|byte| *byte == b'\n') {
            if line.is_empty() {
                continue;
            }
            let head = self.write_head(line);
            // Writing to memory cannot fail.
            let _ = write!(out, "{} {head}", head.len() + line.len());
            out.extend_from_slice(line);
        }
    }

    fn write_head(&self, line: &[u8]) -> String {
        let head = json::from_slice::<Head<'_>>(line).ok();
        let head = head.unwrap_or(Head { time: "-", kind: "-", decision: None });
        let severity = match (head.kind, head.decision) {
            ("decision", Some("deny")) | ("refusal" | "gap", _) => WARNING,
            ("open" | "rotate" | "close" | "approval" | "change", _) => NOTICE,
            _ => INFO,
        };
        let priority = self.facility as u8 * 8 + severity;
        let Self { host, process, .. } = self;
        format!("<{priority}>1 {} {host} lockgate {process} {} - ", head.time, head.kind)
    }
}

/// Returns the host name, or an empty string if unknown.
#[allow(clippy::disallowed_methods, reason = "the kernel's file with the name of the host")]
fn host() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default()
}

#[cfg(test)]
mod tests;
