//! JSON members with a protocol meaning that redaction patterns must not break: kinds of blocks,
//! roles, tokens. The structure of results, messages and questions is followed only that far. All
//! other members are the server's data and are redacted under any name.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lockgate_policy::response::Response;
use lockgate_protocol::scan::{self, Keys, ScanError, Scanner};
use lockgate_protocol::strings::{self, StringRole};
use lockgate_protocol::write::{self, Object};
use lockgate_upstream::AnswerKind;

/// Maximum nesting that is followed; deeper members have no protocol meaning.
const MAX_NESTING: usize = 16;

/// The protocol type of an object. An array has the type of its items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// A result; below, a task result and a result that asks questions.
    Result,
    Task,
    Asking,
    /// A JSON-RPC message to the client, or a question without its id.
    Message,
    Params,
    /// Questions by key.
    Questions,
    /// A message of a prompt or for sampling.
    Turn,
    Block,
    /// The contents of a resource, or an icon.
    Resource,
    /// A JSON Schema; below, schemas by name.
    Schema,
    Schemas,
    /// The server's own data.
    Free,
}

/// The protocol meaning of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    /// An opaque token, returned unchanged to its issuer. Never redacted.
    Token,
    /// A protocol keyword. Only known secrets are redacted, patterns do not apply.
    Word,
    /// Text, or an object with its own members.
    Text,
}

impl Form {
    pub(super) fn of(kind: AnswerKind) -> Self {
        match kind {
            AnswerKind::InputRequired => Self::Asking,
            AnswerKind::Task => Self::Task,
            AnswerKind::Complete | AnswerKind::Error => Self::Result,
        }
    }

    fn meaning(self, name: &str) -> Meaning {
        match (self, name) {
            (Self::Asking, "requestState")
            | (Self::Task, "taskId")
            | (Self::Params, "progressToken") => Meaning::Token,
            (Self::Task, "status")
            | (Self::Message, "jsonrpc" | "method")
            | (Self::Params, "level" | "mode" | "elicitationId")
            | (Self::Turn, "role")
            | (Self::Block, "type" | "mimeType" | "id" | "toolUseId")
            | (Self::Resource, "mimeType")
            | (Self::Schema, "type") => Meaning::Word,
            _ => Meaning::Text,
        }
    }

    /// Returns the form of a member's value.
    fn inner(self, name: &str) -> Self {
        match (self, name) {
            (Self::Result | Self::Task, "result") => Self::Result,
            (Self::Result, "contents") | (Self::Block, "resource" | "icons") => Self::Resource,
            (Self::Result | Self::Turn | Self::Block, "content") => Self::Block,
            (Self::Result | Self::Params, "messages") => Self::Turn,
            (Self::Task | Self::Asking, "inputRequests") => Self::Questions,
            (Self::Questions, _) => Self::Message,
            (Self::Message, "params") => Self::Params,
            (Self::Params, "requestedSchema") | (Self::Schemas, _) => Self::Schema,
            (Self::Schema, "items" | "anyOf" | "oneOf" | "allOf") => Self::Schema,
            (Self::Schema, "properties") => Self::Schemas,
            _ => Self::Free,
        }
    }
}

/// Redacts a member of an object of this form. Returns `None` if nothing changes.
pub(super) fn member(rule: &Response, form: Form, name: &str, value: &[u8]) -> Option<Vec<u8>> {
    if rule.redacts() { inside(rule, form, name, value, 0) } else { None }
}

/// Redacts an object of this form, or an array of them, in the member `of`.
pub(super) fn text(rule: &Response, form: Form, of: &str, value: &[u8]) -> Option<Vec<u8>> {
    if rule.redacts() { whole(rule, form, of, value, 0) } else { None }
}

fn inside(rule: &Response, form: Form, name: &str, value: &[u8], depth: usize) -> Option<Vec<u8>> {
    match (form.meaning(name), scan::as_str(value)) {
        (Meaning::Token, Some(_)) => None,
        (Meaning::Word, Some(word)) => Some(write::quoted(&rule.redact_key(&word)?)),
        _ => whole(rule, form.inner(name), name, value, depth + 1),
    }
}

fn whole(rule: &Response, form: Form, of: &str, value: &[u8], depth: usize) -> Option<Vec<u8>> {
    let followed = form != Form::Free && depth <= MAX_NESTING;
    let changed = match value.first() {
        Some(b'[') if followed => array(rule, form, of, value, depth),
        Some(b'{') if followed => object(rule, form, value, depth),
        _ => Ok(texts(rule, of, value)),
    };
    match changed {
        Ok(changed) => changed,
        // With a duplicate key readers disagree about the value, so no member has a protocol
        // meaning.
        Err(_) => texts(rule, of, value),
    }
}

fn array(
    rule: &Response,
    form: Form,
    of: &str,
    raw: &[u8],
    depth: usize,
) -> Result<Option<Vec<u8>>, ScanError> {
    let mut out = Vec::with_capacity(raw.len());
    let mut is_changed = false;
    write::items(&mut out, raw, &mut |out, item| {
        let change = whole(rule, form, of, item, depth + 1);
        is_changed |= change.is_some();
        out.extend_from_slice(change.as_deref().unwrap_or(item));
        Ok(())
    })?;
    Ok(is_changed.then_some(out))
}

fn object(
    rule: &Response,
    form: Form,
    raw: &[u8],
    depth: usize,
) -> Result<Option<Vec<u8>>, ScanError> {
    let (_, members) = Scanner::new(raw, scan::MAX_DEPTH)?.members(Keys::Distinct)?;
    let mut changes = Vec::with_capacity(members.len());
    for member in &members {
        let name = member.name(raw);
        let value = inside(rule, form, &name, member.value.of(raw), depth);
        changes.push((rule.redact_key(&name), value));
    }
    if changes.iter().all(|(key, value)| key.is_none() && value.is_none()) {
        return Ok(None);
    }
    let mut out = Vec::with_capacity(raw.len());
    let mut object = Object::open(&mut out);
    for (member, (key, value)) in members.iter().zip(&changes) {
        let value = value.as_deref().unwrap_or(member.value.of(raw));
        match key {
            Some(key) => object.key(key).extend_from_slice(value),
            None => object.copy(member.key.of(raw), value),
        }
    }
    object.close();
    Ok(Some(out))
}

/// Members of blocks that may contain base64 text.
const ENCODED: [&str; 2] = ["blob", "data"];

/// Redacts the strings of a JSON text of any form in the member `of`. Returns `None` if nothing
/// changes.
pub(crate) fn texts(rule: &Response, of: &str, text: &[u8]) -> Option<Vec<u8>> {
    if !rule.redacts() {
        return None;
    }
    strings::rewrite(text, &mut |place, text| match place {
        StringRole::Key => rule.redact_key(text),
        StringRole::Value("") => redact_member(rule, of, text),
        StringRole::Value(key) => redact_member(rule, key, text),
    })
}

fn redact_member(rule: &Response, key: &str, text: &str) -> Option<String> {
    let redacted = rule.redact_member(key, text);
    if redacted.is_none() && ENCODED.contains(&key) { decoded(rule, text) } else { redacted }
}

/// Redacts base64 text, such as a file sent as a blob.
fn decoded(rule: &Response, text: &str) -> Option<String> {
    let plain = String::from_utf8(STANDARD.decode(text).ok()?).ok()?;
    Some(STANDARD.encode(rule.redact(&plain)?))
}
