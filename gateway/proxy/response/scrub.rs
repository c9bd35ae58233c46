//! Redaction of results, messages and errors by policy: secrets in every string, however escaped,
//! and links with forbidden schemes. Runs only with a policy rule; unaffected text stays identical
//! byte for byte.

pub(crate) mod form;

use lockgate_policy::response::Response;
use lockgate_protocol::scan::{self, Keys, ScanError, Scanner};
use lockgate_protocol::write::{self, Object};
use lockgate_text::json;
use lockgate_upstream::AnswerKind;

use crate::rescue::RequestError;
use form::{Form, texts};

/// Members that contain content blocks: of task results, of prompt messages, and of results
/// themselves.
const NESTING: [&str; 3] = ["content", "messages", "result"];
const MAX_NESTING: usize = 4;
/// Replaces a link that is not part of an array.
const NO_LINK: &[u8] =
    br#"{"type":"text","text":"[link removed: policy does not allow its scheme]"}"#;

/// Redacts a member of a result. Returns `None` if nothing changes.
pub(crate) fn member(
    rule: &Response,
    kind: AnswerKind,
    name: &str,
    value: &[u8],
) -> Option<Vec<u8>> {
    let pruned = links(rule, value);
    form::member(rule, Form::of(kind), name, pruned.as_deref().unwrap_or(value)).or(pruned)
}

/// Redacts a notification to the client.
pub(crate) fn message(rule: &Response, text: &[u8]) -> Option<Vec<u8>> {
    form::text(rule, Form::Message, "", text)
}

/// Redacts the parameters of a question to the client.
pub(crate) fn question(rule: &Response, params: &[u8]) -> Option<Vec<u8>> {
    form::text(rule, Form::Params, "", params)
}

/// Redacts a server's error.
pub(crate) fn problem(rule: &Response, problem: &mut RequestError) {
    if let Some(clean) = rule.redact(&problem.message) {
        problem.message = clean.into();
    }
    if let Some(data) = &problem.data
        && let Some(clean) = texts(rule, "", data.to_string().as_bytes())
    {
        problem.data = json::from_slice(&clean).ok();
    }
}

fn links(rule: &Response, value: &[u8]) -> Option<Vec<u8>> {
    // The type may be written with escapes.
    if !rule.judges_links() || !(has(value, b"resource_link") || has(value, b"\\u")) {
        return None;
    }
    let mut pruning = Pruning { rule, changed: false };
    let mut out = Vec::with_capacity(value.len());
    pruning.value(&mut out, value, 0).ok()?;
    if pruning.changed { Some(out) } else { None }
}

fn has(text: &[u8], part: &[u8]) -> bool {
    memchr::memmem::find(text, part).is_some()
}

struct Pruning<'a> {
    rule: &'a Response,
    changed: bool,
}

impl Pruning<'_> {
    fn value(&mut self, out: &mut Vec<u8>, raw: &[u8], depth: usize) -> Result<(), ScanError> {
        match raw.first() {
            Some(b'[') if depth <= MAX_NESTING => self.array(out, raw, depth),
            Some(b'{') if depth <= MAX_NESTING => self.object(out, raw, depth),
            _ => {
                out.extend_from_slice(raw);
                Ok(())
            }
        }
    }

    fn array(&mut self, out: &mut Vec<u8>, raw: &[u8], depth: usize) -> Result<(), ScanError> {
        write::items(out, raw, &mut |out, item| {
            if self.is_forbidden(item)? {
                self.changed = true;
                return Ok(());
            }
            self.value(out, item, depth + 1)
        })
    }

    fn object(&mut self, out: &mut Vec<u8>, raw: &[u8], depth: usize) -> Result<(), ScanError> {
        if self.is_forbidden(raw)? {
            self.changed = true;
            out.extend_from_slice(NO_LINK);
            return Ok(());
        }
        let (_, members) = Scanner::new(raw, scan::MAX_DEPTH)?.members(Keys::Distinct)?;
        let mut object = Object::open(out);
        for member in &members {
            let value = member.value.of(raw);
            match &*member.name(raw) {
                name if NESTING.contains(&name) => {
                    self.value(object.key(name), value, depth + 1)?
                }
                _ => object.copy(member.key.of(raw), value),
            }
        }
        object.close();
        Ok(())
    }

    /// Returns whether this is a link with a forbidden scheme.
    fn is_forbidden(&self, raw: &[u8]) -> Result<bool, ScanError> {
        if raw.first() != Some(&b'{') {
            return Ok(false);
        }
        let (_, members) = Scanner::new(raw, scan::MAX_DEPTH)?.members(Keys::Distinct)?;
        if scan::find_str(&members, raw, "type").as_deref() != Some("resource_link") {
            return Ok(false);
        }
        let uri = scan::find_str(&members, raw, "uri");
        Ok(!self.rule.allows_link(uri.as_deref().unwrap_or("")))
    }
}

#[cfg(test)]
mod tests;
