//! The contents of records, and their JSON form. Control characters are escaped, and every text is
//! bounded.

use std::borrow::Cow;
use std::io::Write as _;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lockgate_text::date;
use lockgate_text::unseen::is_unseen;

use super::chain::Hex;
use crate::labels::{Outcome, Rejection};
use crate::request;

/// Maximum bytes of a text in a record; longer texts are truncated.
pub const MAX_TEXT: usize = 512;
/// Maximum bytes of redacted arguments.
const MAX_REDACTED: usize = 4096;
/// Maximum bytes of arguments to redact; of larger arguments only the digest is kept.
pub(super) const MAX_HELD: usize = 16 * 1024;

lockgate_text::settings! {
    /// The recorded form of a call's arguments: their BLAKE3 digest (keyed, with a key) and their
    /// length; also their text without probable secrets, up to 4 KiB; or nothing.
    #[derive(Default)]
    #[serde(rename_all = "lowercase")]
    pub enum Arguments { #[default] Digest, Redacted, Omitted }
}

/// The caller and target of a request.
#[derive(Clone, Debug)]
pub struct Asked<'a> {
    pub issuer: &'a str,
    pub subject: &'a str,
    pub organisation: Option<&'a str>,
    /// The display name of the caller's key.
    pub key: Option<&'a str>,
    /// The software acting for the subject, as named by its credential.
    pub agent: Option<&'a str>,
    pub method: &'static str,
    /// Empty for `/mcp`.
    pub endpoint: Cow<'a, str>,
    /// The server that the request is for, if known.
    pub server: Option<&'a str>,
    /// The name or URI that the client used.
    pub name: Option<Cow<'a, str>>,
    pub trace: Option<u128>,
    /// The transport, if not MCP.
    pub transport: Option<&'static str>,
}

/// A request rejected before a decision was possible: no caller, no session, or no message.
#[derive(Clone, Copy, Debug)]
pub struct Refused<'a> {
    pub why: Rejection,
    /// The detailed reason. Only the trail contains it, so it may reveal more than the response.
    pub words: &'a str,
    /// Issuer and subject, if authenticated.
    pub who: Option<(&'a str, &'a str)>,
    /// The display name of the caller's key.
    pub key: Option<&'a str>,
    /// Empty for `/mcp` or if unknown.
    pub endpoint: &'a str,
    /// The fault of a token.
    pub token: Option<RefusedToken<'a>>,
}

/// The fault of a token, and its unverified claims about itself.
#[derive(Clone, Copy, Debug)]
pub struct RefusedToken<'a> {
    pub fault: &'static str,
    pub claim: Option<&'static str>,
    pub issuer: Option<&'a str>,
    pub kid: Option<&'a str>,
}

/// A step in the approval of a call by a person.
#[derive(Clone, Copy, Debug)]
pub struct Approval<'a> {
    /// `asked`, `counted`, `approved`, `denied`, `expired` or `gone`.
    pub state: &'static str,
    /// The policies that require approval.
    pub rule: &'a str,
    pub issuer: &'a str,
    pub subject: &'a str,
    /// The display name of the caller's key.
    pub key: Option<&'a str>,
    /// The caller's organisation, if its credential names one.
    pub organisation: Option<&'a str>,
    /// The approvers, as `issuer|subject`; empty if none has decided.
    pub by: &'a str,
    /// The approvers by the names of their keys, or their subjects.
    pub by_name: &'a str,
    pub server: &'a str,
    /// The listed name of the tool.
    pub name: &'a str,
    /// The digest of the call.
    pub digest: &'a str,
}

/// The decision on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision<'a> {
    /// Allowed by this rule; `None` for requests that belong to an earlier request. With the denial
    /// of a dry-run rule, if any.
    Allow(Option<&'a str>, Option<&'a DryRunDenial>),
    /// Denied by this rule, with this reason for the caller. `None` if no rule could allow the
    /// request.
    Deny(Option<&'a str>, &'a str),
}

/// A denial by a dry-run rule, without effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DryRunDenial {
    pub rule: Arc<str>,
    pub reason: Cow<'static, str>,
}

/// Formats a member name with its separators as a literal, copied in a single step.
macro_rules! name {
    ($name:literal) => {
        concat!(",\"", $name, "\":")
    };
}
pub(super) use name;

/// Writes the members of a decision, each after a comma, except the arguments.
pub(super) fn decision(out: &mut Vec<u8>, call: u64, asked: &Asked<'_>, decision: Decision<'_>) {
    plain(out, name!("kind"), "decision");
    number(out, name!("call"), call);
    match decision {
        Decision::Allow(rule, would) => {
            plain(out, name!("decision"), "allow");
            maybe(out, name!("rule"), rule);
            if let Some(would) = would {
                text(out, name!("dry_run"), &would.rule);
                text(out, name!("reason"), &would.reason);
            }
        }
        Decision::Deny(rule, words) => {
            plain(out, name!("decision"), "deny");
            maybe(out, name!("rule"), rule);
            text(out, name!("reason"), words);
        }
    }
    text(out, name!("issuer"), asked.issuer);
    text(out, name!("who"), asked.subject);
    maybe(out, name!("key"), asked.key);
    client(out);
    maybe(out, name!("organisation"), asked.organisation);
    maybe(out, name!("agent"), asked.agent);
    plain(out, name!("method"), asked.method);
    if !asked.endpoint.is_empty() {
        text(out, name!("endpoint"), &asked.endpoint);
    }
    maybe(out, name!("server"), asked.server);
    maybe(out, name!("name"), asked.name.as_deref());
    if let Some(trace) = asked.trace {
        plain(out, name!("trace"), &format!("{trace:032x}"));
    }
    if let Some(transport) = asked.transport {
        plain(out, name!("transport"), transport);
    }
}

/// Writes the arguments member; `redacted` is their text.
pub(super) fn arguments(out: &mut Vec<u8>, bytes: usize, digest: &Hex, redacted: Option<&[u8]>) {
    number(out, concat!(name!("arguments"), "{\"bytes\":"), bytes as u64);
    plain(out, name!("digest"), digest.as_str());
    if let Some(redacted) = redacted {
        escaped(out, name!("redacted"), &String::from_utf8_lossy(redacted), MAX_REDACTED);
    }
    out.push(b'}');
}

pub(super) fn outcome(out: &mut Vec<u8>, call: u64, outcome: Outcome, duration: Duration) {
    plain(out, name!("kind"), "outcome");
    number(out, name!("call"), call);
    plain(out, name!("outcome"), outcome.as_str());
    number(out, name!("duration_us"), u64::try_from(duration.as_micros()).unwrap_or(u64::MAX));
}

/// Writes the members of a refusal; `more` refusals before it were only counted.
pub(super) fn refusal(out: &mut Vec<u8>, refused: Refused<'_>, more: u64) {
    plain(out, name!("kind"), "refusal");
    plain(out, name!("reason"), refused.why.as_str());
    text(out, name!("words"), refused.words);
    if let Some((issuer, subject)) = refused.who {
        text(out, name!("issuer"), issuer);
        text(out, name!("who"), subject);
    }
    maybe(out, name!("key"), refused.key);
    if let Some(token) = refused.token {
        plain(out, name!("fault"), token.fault);
        maybe(out, name!("claim"), token.claim);
        maybe(out, name!("token_issuer"), token.issuer);
        maybe(out, name!("kid"), token.kid);
    }
    client(out);
    if !refused.endpoint.is_empty() {
        text(out, name!("endpoint"), refused.endpoint);
    }
    if more > 0 {
        number(out, name!("more"), more);
    }
}

pub(super) fn approval(out: &mut Vec<u8>, about: &Approval<'_>) {
    plain(out, name!("kind"), "approval");
    plain(out, name!("state"), about.state);
    text(out, name!("rule"), about.rule);
    text(out, name!("issuer"), about.issuer);
    text(out, name!("who"), about.subject);
    maybe(out, name!("key"), about.key);
    maybe(out, name!("organisation"), about.organisation);
    if !about.by.is_empty() {
        text(out, name!("by"), about.by);
        text(out, name!("by_name"), about.by_name);
    }
    text(out, name!("server"), about.server);
    text(out, name!("name"), about.name);
    plain(out, name!("digest"), about.digest);
}

pub(super) fn number(out: &mut Vec<u8>, name: &str, value: u64) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Writes the address of the current request's client, if the request arrived over HTTP.
pub(super) fn client(out: &mut Vec<u8>) {
    if let Some(arrival) = request::arrival() {
        out.extend_from_slice(name!("client").as_bytes());
        out.push(b'"');
        match arrival.address {
            // Written on the path of a call: a formatter takes a thousand instructions.
            IpAddr::V4(address) => {
                let [first, rest @ ..] = address.octets();
                out.extend_from_slice(itoa::Buffer::new().format(first).as_bytes());
                for octet in rest {
                    out.push(b'.');
                    out.extend_from_slice(itoa::Buffer::new().format(octet).as_bytes());
                }
            }
            // Writing to memory cannot fail, and addresses need no escapes.
            IpAddr::V6(address) => drop(write!(out, "{address}")),
        }
        out.push(b'"');
    }
}

#[inline]
pub(super) fn text(out: &mut Vec<u8>, name: &str, value: &str) {
    // Nearly all texts are short and need no escapes. A vectorised check of all bytes is faster
    // than an early exit.
    if value.len() <= MAX_TEXT && !value.bytes().fold(false, |found, b| found | needs_escape(b)) {
        plain(out, name, value);
    } else {
        escaped(out, name, value, MAX_TEXT);
    }
}

#[inline]
pub(super) fn maybe(out: &mut Vec<u8>, name: &str, value: Option<&str>) {
    if let Some(value) = value {
        text(out, name, value);
    }
}

const fn needs_escape(b: u8) -> bool {
    !matches!(b, b' '..=b'~') || b == b'"' || b == b'\\'
}

/// Writes a constant text, which needs no escapes.
#[inline]
pub(super) fn plain(out: &mut Vec<u8>, name: &str, value: &str) {
    out.extend_from_slice(name.as_bytes());
    out.push(b'"');
    out.extend_from_slice(value.as_bytes());
    out.push(b'"');
}

/// Writes any text, truncated to `most` bytes.
pub(super) fn escaped(out: &mut Vec<u8>, name: &str, value: &str, most: usize) {
    out.extend_from_slice(name.as_bytes());
    out.push(b'"');
    let end = value.floor_char_boundary(most);
    for c in value.get(..end).unwrap_or("").chars() {
        match c {
            '"' | '\\' => {
                out.push(b'\\');
                out.push(c as u8);
            }
            c if is_unseen(c) => {
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

/// A formatter that caches the last second, which the next record usually shares.
#[derive(Default)]
pub(super) struct Clock {
    second: Option<i64>,
    text: String,
}

impl Clock {
    /// Writes a time as `2026-07-28T12:34:56.123456Z`, the first member after those of the chain.
    pub(super) fn write(&mut self, out: &mut Vec<u8>, at: SystemTime) {
        let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
        let second = i64::try_from(since.as_secs()).unwrap_or(0);
        if self.second.replace(second) != Some(second) {
            self.text = date::of_seconds(second);
        }
        // Six digits behind a 1.
        let mut micros = itoa::Buffer::new();
        let micros = micros.format(1_000_000 + since.subsec_micros());
        for part in [name!("time"), "\"", self.text.trim_end_matches('Z'), "."] {
            out.extend_from_slice(part.as_bytes());
        }
        out.extend_from_slice(micros.as_bytes().get(1..).unwrap_or_default());
        out.extend_from_slice(b"Z\"");
    }
}
