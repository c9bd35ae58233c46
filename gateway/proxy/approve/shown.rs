//! A call's arguments as its approvers see them: as sent, but without secrets and text that
//! policies remove from responses. Long strings are cut, and invisible characters escaped.

use std::borrow::Cow;
use std::sync::OnceLock;

use lockgate_policy::response::{Response, Spec};
use lockgate_protocol::scan::{self, Keys, ScanError, Scanner};
use lockgate_protocol::write;
use lockgate_text::unseen::is_unseen;

use crate::response::scrub::form::texts;

/// Longest string that is shown uncut, in characters.
const MAX_STRING: usize = 1000;
/// Maximum size of the shown arguments, in bytes.
const MAX_SHOWN: usize = 16 * 1024;

/// Shown when removing secrets leaves invalid JSON, because two members get the same name. An empty
/// text would look like a call without arguments.
const HIDDEN: &str = "(not shown: several member names look like secrets)";

/// Renders arguments for approvers; `rule` is the policies' response filter.
pub(super) fn show_arguments(raw: &[u8], rule: Option<&Response>) -> String {
    let clean =
        Response::all(secrets().into_iter().chain(rule)).and_then(|rule| texts(&rule, "", raw));
    let mut text = Vec::with_capacity(raw.len());
    if write_shown(clean.as_deref().unwrap_or(raw), &mut text).is_err() {
        return HIDDEN.to_owned();
    }
    let mut shown = show_text(&String::from_utf8_lossy(&text));
    if shown.len() > MAX_SHOWN {
        let all = shown.len();
        shown.truncate(shown.floor_char_boundary(MAX_SHOWN));
        shown.push_str(&format!("… (truncated: {all} bytes in total)"));
    }
    shown
}

/// Escapes invisible characters.
pub(super) fn show_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_unseen(c) { out.push_str(&format!("\\u{{{:x}}}", u32::from(c))) } else { out.push(c) }
    }
    out
}

/// Returns the filter for secrets, which applies regardless of policies.
fn secrets() -> Option<&'static Response> {
    static SECRETS: OnceLock<Option<Response>> = OnceLock::new();
    let compiled =
        SECRETS.get_or_init(|| Response::compile(&Spec { secrets: true, ..Spec::default() }).ok());
    compiled.as_ref()
}

/// Writes the JSON on one line, with strings decoded and cut. Numbers are copied verbatim: parsing
/// could round a number that the server receives in full.
fn write_shown(raw: &[u8], out: &mut Vec<u8>) -> Result<(), ScanError> {
    let mut scanner = Scanner::new(raw, scan::MAX_DEPTH)?;
    match scanner.peek() {
        Some(b'{') => {
            let (_, members) = scanner.members(Keys::Distinct)?;
            out.push(b'{');
            for (at, member) in members.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                write::string(out, &member.name(raw));
                out.push(b':');
                write_shown(member.value.of(raw), out)?;
            }
            out.push(b'}');
        }
        Some(b'[') => {
            let mut items = Vec::new();
            scanner.array(&mut |inner| {
                items.push(inner.value()?);
                Ok(())
            })?;
            out.push(b'[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                write_shown(item.of(raw), out)?;
            }
            out.push(b']');
        }
        _ => {
            let scalar = scanner.value()?.of(raw);
            match scan::as_str(scalar) {
                Some(text) => write::string(out, &cut(&text)),
                None => out.extend_from_slice(scalar),
            }
        }
    }
    Ok(())
}

fn cut(text: &str) -> Cow<'_, str> {
    let Some((end, _)) = text.char_indices().nth(MAX_STRING) else { return text.into() };
    let (begin, rest) = text.split_at(end);
    format!("{begin}… ({} more characters)", rest.chars().count()).into()
}

#[cfg(test)]
mod tests;
