//! Where the protocol gives members a meaning that a pattern must not break: kinds of blocks,
//! roles, tokens. It follows the structure of results, messages and questions that far; everywhere
//! else a member is a server's own, whatever it is called, and is read.

use lockgate_policy::response::Response;
use lockgate_protocol::scan::{self, Keys, ScanError, Scanner};
use lockgate_protocol::write::{self, Object};
use lockgate_upstream::AnswerKind;

use super::texts::texts;

/// Deepest nesting that is followed; below it nothing steers.
const MAX_NESTING: usize = 16;

/// What an object is to the protocol; an array is what its items are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// A result, and the members of one that is a task or that asks something.
    Result,
    Task,
    Asking,
    /// A JSON-RPC message to the client, and a question without its id.
    Message,
    Params,
    /// Questions by their keys.
    Questions,
    /// A message of a prompt or for a model.
    Turn,
    /// A block of content.
    Block,
    /// The contents of a resource, and an icon.
    Resource,
    /// A JSON Schema, and schemas by their names.
    Schema,
    Schemas,
    /// The server's own.
    Free,
}

/// What a member is to the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    /// A token that comes back to whoever made it.
    Token,
    /// One of a few words. Known secrets are none of them.
    Word,
    /// Text, or something with members of its own.
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

    /// The form of what a member holds.
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

/// A member of such an object without what must not come back; `None` when it may stay.
pub(super) fn member(rule: &Response, form: Form, name: &str, value: &[u8]) -> Option<Vec<u8>> {
    if rule.redacts() { inside(rule, form, name, value, 0) } else { None }
}

/// The same for an object, or an array of them; `of` is the member that it belongs to.
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
        // What has a name twice means one thing to one reader and another to the next: nothing
        // steers there.
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
    let mut items = Vec::new();
    Scanner::new(raw, scan::MAX_DEPTH)?.array(&mut |scanner| {
        items.push(scanner.value()?);
        Ok(())
    })?;
    let mut changes = Vec::with_capacity(items.len());
    for item in &items {
        changes.push(whole(rule, form, of, item.of(raw), depth + 1));
    }
    if changes.iter().all(Option::is_none) {
        return Ok(None);
    }
    let mut out = vec![b'['];
    for (item, change) in items.iter().zip(&changes) {
        if out.len() > 1 {
            out.push(b',');
        }
        out.extend_from_slice(change.as_deref().unwrap_or(item.of(raw)));
    }
    out.push(b']');
    Ok(Some(out))
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
