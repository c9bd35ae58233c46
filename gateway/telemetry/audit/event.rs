//! What the request path hands to the writer, and how it looks as JSON. Making one copies nothing large; the writer's thread
//! does the rest. Every control character is escaped, and every text has a bound.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use blake3::Hash;

use super::chain::hex;
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
    /// BLAKE3 of their bytes (keyed, with a key), and how many there are.
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

/// A request that was refused before there was anything to decide on: no caller, no session, no message.
#[derive(Clone, Debug)]
pub struct Refused {
    pub why: Rejection,
    /// What is wrong; for the trail alone, so it may say more than the caller is told.
    pub words: Cow<'static, str>,
    /// Issuer and subject, when it is known who asks.
    pub who: Option<(Arc<str>, Arc<str>)>,
    /// `/mcp` is empty, and so is what is not known.
    pub endpoint: String,
}

/// What was decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// By this rule; none for requests that belong to an earlier one. With what a rule on trial would have done.
    Allow(Option<Arc<str>>, Option<Box<Would>>),
    /// By this rule, with these words for the caller. Without a rule it is no request that could be allowed.
    Deny(Option<Arc<str>>, Cow<'static, str>),
}

/// A denial by a rule on trial, which changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Would {
    pub rule: Arc<str>,
    pub reason: Cow<'static, str>,
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
    Refusal {
        at: SystemTime,
        refused: Box<Refused>,
        /// How many before it were only counted.
        more: u64,
    },
    /// The gateway ends.
    Close,
}

/// Arguments on their way to the writer.
pub(super) enum Kept {
    Nothing,
    Text(Box<[u8]>),
    Digest(Hash, usize),
}

impl Kept {
    pub(super) fn of(arguments: Option<&[u8]>, how: Arguments, digest: impl Fn(&[u8]) -> Hash) -> Self {
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
    pub(super) digest: &'a dyn Fn(&[u8]) -> Hash,
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
                    Decision::Allow(rule, would) => {
                        text(out, "decision", "allow");
                        maybe(out, "rule", rule.as_deref());
                        if let Some(would) = would {
                            text(out, "dry_run", &would.rule);
                            text(out, "reason", &would.reason);
                        }
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
            Self::Refusal { at, refused, more } => {
                head(out, "refusal", *at);
                refused.write(out);
                if *more > 0 {
                    number(out, "more", *more);
                }
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

impl Refused {
    fn write(&self, out: &mut Vec<u8>) {
        text(out, "reason", self.why.as_str());
        text(out, "words", &self.words);
        if let Some((issuer, subject)) = &self.who {
            text(out, "issuer", issuer);
            text(out, "who", subject);
        }
        if !self.endpoint.is_empty() {
            text(out, "endpoint", &self.endpoint);
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
        out.extend_from_slice(itoa::Buffer::new().format(bytes).as_bytes());
        key(out, "digest");
        out.push(b'"');
        out.extend_from_slice(&hex(&digest));
        out.push(b'"');
        if let (Self::Text(raw), Arguments::Redacted) = (self, style.arguments) {
            let redacted = (style.redact)(raw);
            cut_text(out, "redacted", &String::from_utf8_lossy(&redacted), MAX_REDACTED);
        }
        out.push(b'}');
    }
}

/// The members that every record has.
pub(super) fn head(out: &mut Vec<u8>, kind: &str, at: SystemTime) {
    key(out, "time");
    out.push(b'"');
    out.extend_from_slice(&time(at));
    out.push(b'"');
    plain(out, "kind", kind);
}

pub(super) fn number(out: &mut Vec<u8>, name: &str, value: u64) {
    key(out, name);
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

pub(super) fn text(out: &mut Vec<u8>, name: &str, value: &str) {
    cut_text(out, name, value, MAX_TEXT);
}

fn maybe(out: &mut Vec<u8>, name: &str, value: Option<&str>) {
    if let Some(value) = value {
        text(out, name, value);
    }
}

fn key(out: &mut Vec<u8>, name: &str) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
}

/// A text of our own, which needs no escapes.
fn plain(out: &mut Vec<u8>, name: &str, value: &str) {
    key(out, name);
    out.push(b'"');
    out.extend_from_slice(value.as_bytes());
    out.push(b'"');
}

fn cut_text(out: &mut Vec<u8>, name: &str, value: &str, most: usize) {
    // Nearly all texts are short and need no escapes. All bytes are looked at, many at once, which is faster than to stop.
    let needs_escape = |b: u8| !matches!(b, b' '..=b'~') || b == b'"' || b == b'\\';
    if value.len() <= most && !value.bytes().fold(false, |found, b| found | needs_escape(b)) {
        return plain(out, name, value);
    }
    key(out, name);
    out.push(b'"');
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
                    out.extend_from_slice(format!("\\u{unit:04x}").as_bytes());
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
pub(super) fn time(at: SystemTime) -> [u8; 27] {
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
    let mut out = *b"0000-00-00T00:00:00.000000Z";
    let micros = u64::from(since.subsec_micros());
    for (at, mut value) in [(3, year), (6, month), (9, day), (12, hour), (15, minute), (18, second), (25, micros)] {
        // From the last digit of the place to the left; zeros stand there already.
        for digit in out.get_mut(..=at).unwrap_or_default().iter_mut().rev() {
            if value == 0 {
                break;
            }
            *digit = b'0' + (value % 10) as u8;
            value /= 10;
        }
    }
    out
}
