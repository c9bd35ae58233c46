//! What the request path hands to the writer, and how it looks as JSON. Making one copies nothing large; the writer's thread
//! does the rest. Every control character is escaped, and every text has a bound.

use std::borrow::Cow;
use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::digest::{SHA256, digest};

use crate::counters::{Outcome, Rejection};
use crate::log::is_dangerous;

/// Longest text of a record, in bytes; the rest is cut.
pub const MAX_TEXT: usize = 512;
/// Longest redacted arguments, in bytes.
const MAX_REDACTED: usize = 4096;
/// Arguments up to this size wait for the writer's thread; larger ones become their digest at once.
const MAX_HELD: usize = 16 * 1024;

/// What is kept of a call's arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arguments {
    /// SHA-256 (with a key, HMAC) of their bytes, and how many there are.
    Digest,
    /// Their text without what looks like a secret, up to 4 KiB, and the digest.
    Redacted,
    /// Nothing.
    Omitted,
}

/// Who asked for what.
#[derive(Clone, Debug)]
pub struct Asked {
    pub issuer: Arc<str>,
    pub subject: Arc<str>,
    pub organisation: Option<Arc<str>>,
    /// The software that acts for the subject, as its credential names it.
    pub agent: Option<Arc<str>>,
    pub method: &'static str,
    /// `/mcp` is empty.
    pub endpoint: String,
    /// The server that the request is for, as far as it is known.
    pub server: Option<String>,
    /// The name or URI that the client used; at least its beginning.
    pub name: Option<String>,
    pub trace: Option<u128>,
}

/// What was decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// By this rule; none for requests that belong to an earlier one.
    Allow(Option<Arc<str>>),
    /// By this rule, with these words for the caller. Without a rule it is no request that could be allowed.
    Deny(Option<Arc<str>>, Cow<'static, str>),
}

/// One message to the writer.
pub(super) enum Event {
    Decision {
        call: u64,
        at: SystemTime,
        asked: Box<Asked>,
        arguments: Kept,
        decision: Decision,
    },
    Outcome {
        call: u64,
        at: SystemTime,
        outcome: Outcome,
        duration: Duration,
    },
    /// A request that did not become one: no caller, no session.
    Refusal {
        at: SystemTime,
        why: Rejection,
        words: Cow<'static, str>,
    },
    /// The gateway ends.
    Close,
}

/// Arguments on their way to the writer.
pub(super) enum Kept {
    Nothing,
    Text(Box<[u8]>),
    Digest([u8; 32], usize),
}

impl Kept {
    pub(super) fn of(arguments: Option<&[u8]>, how: Arguments, digest: impl Fn(&[u8]) -> [u8; 32]) -> Self {
        match arguments {
            None => Self::Nothing,
            Some(_) if how == Arguments::Omitted => Self::Nothing,
            // A copy, so that a small argument does not keep a large message alive.
            Some(text) if text.len() <= MAX_HELD => Self::Text(text.into()),
            Some(text) => Self::Digest(digest(text), text.len()),
        }
    }
}

/// What writing an event needs to know.
pub(super) struct Style<'a> {
    pub(super) arguments: Arguments,
    pub(super) digest: &'a dyn Fn(&[u8]) -> [u8; 32],
    pub(super) redact: &'a dyn Fn(&[u8]) -> Vec<u8>,
}

impl Event {
    /// Writes the event's members, each after a comma.
    pub(super) fn write(&self, out: &mut Vec<u8>, style: &Style<'_>) {
        match self {
            Self::Decision { call, at, asked, arguments, decision } => {
                head(out, "decision", *at);
                number(out, "call", *call);
                match decision {
                    Decision::Allow(rule) => {
                        text(out, "decision", "allow");
                        maybe(out, "rule", rule.as_deref());
                    }
                    Decision::Deny(rule, words) => {
                        text(out, "decision", "deny");
                        maybe(out, "rule", rule.as_deref());
                        text(out, "reason", words);
                    }
                }
                asked.write(out);
                arguments.write(out, style);
            }
            Self::Outcome { call, at, outcome, duration } => {
                head(out, "outcome", *at);
                number(out, "call", *call);
                text(out, "outcome", outcome.as_str());
                number(out, "duration_us", u64::try_from(duration.as_micros()).unwrap_or(u64::MAX));
            }
            Self::Refusal { at, why, words } => {
                head(out, "refusal", *at);
                text(out, "reason", why.as_str());
                text(out, "words", words);
            }
            Self::Close => {}
        }
    }
}

impl Asked {
    fn write(&self, out: &mut Vec<u8>) {
        text(out, "issuer", &self.issuer);
        text(out, "who", &self.subject);
        maybe(out, "organisation", self.organisation.as_deref());
        maybe(out, "agent", self.agent.as_deref());
        text(out, "method", self.method);
        if !self.endpoint.is_empty() {
            text(out, "endpoint", &self.endpoint);
        }
        maybe(out, "server", self.server.as_deref());
        maybe(out, "name", self.name.as_deref());
        if let Some(trace) = self.trace {
            text(out, "trace", &format!("{trace:032x}"));
        }
    }
}

impl Kept {
    fn write(&self, out: &mut Vec<u8>, style: &Style<'_>) {
        let (digest, bytes) = match self {
            Self::Nothing => return,
            Self::Text(text) => ((style.digest)(text), text.len()),
            Self::Digest(digest, bytes) => (*digest, *bytes),
        };
        out.extend_from_slice(b",\"arguments\":{\"bytes\":");
        let _ = write!(out, "{bytes}");
        text(out, "digest", &hex(&digest));
        if let (Self::Text(raw), Arguments::Redacted) = (self, style.arguments) {
            let redacted = (style.redact)(raw);
            cut_text(out, "redacted", &String::from_utf8_lossy(&redacted), MAX_REDACTED);
        }
        out.push(b'}');
    }
}

/// SHA-256.
pub(super) fn sha256(bytes: &[u8]) -> [u8; 32] {
    digest(&SHA256, bytes).as_ref().try_into().unwrap_or_default()
}

pub(super) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes.iter().flat_map(|b| [DIGITS[usize::from(b >> 4)], DIGITS[usize::from(b & 15)]]).map(char::from).collect()
}

/// The members that every record has.
pub(super) fn head(out: &mut Vec<u8>, kind: &str, at: SystemTime) {
    text(out, "time", &time(at));
    text(out, "kind", kind);
}

pub(super) fn number(out: &mut Vec<u8>, key: &str, value: u64) {
    let _ = write!(out, ",\"{key}\":{value}");
}

pub(super) fn text(out: &mut Vec<u8>, key: &str, value: &str) {
    cut_text(out, key, value, MAX_TEXT);
}

fn maybe(out: &mut Vec<u8>, key: &str, value: Option<&str>) {
    if let Some(value) = value {
        text(out, key, value);
    }
}

fn cut_text(out: &mut Vec<u8>, key: &str, value: &str, most: usize) {
    let _ = write!(out, ",\"{key}\":\"");
    let mut end = value.len().min(most);
    while !value.is_char_boundary(end) {
        end -= 1;
    }
    for c in value.get(..end).unwrap_or_default().chars() {
        match c {
            '"' | '\\' => {
                out.push(b'\\');
                out.push(c as u8);
            }
            c if is_dangerous(c) || is_unseen(c) => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
            c => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    if end < value.len() {
        out.extend_from_slice("…".as_bytes());
    }
    out.push(b'"');
}

/// Characters that take no room, so that two records that differ look different.
fn is_unseen(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{2064}' | '\u{feff}' | '\u{e0000}'..='\u{e0fff}')
}

/// `2026-07-28T12:34:56.123456Z`
pub(super) fn time(at: SystemTime) -> String {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, seconds) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    // Days to a date of the Gregorian calendar, in years that begin in March.
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let day_of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:06}Z", since.subsec_micros())
}
