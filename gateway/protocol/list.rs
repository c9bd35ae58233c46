//! List results: extracts the items of a server's page, and writes an item for a client of a given
//! revision.

mod form;

use std::borrow::Cow;
use std::sync::LazyLock;

use bytes::Bytes;
use lockgate_text::json;
use memchr::memmem::{self, Finder};
use serde_json::Value;

pub use crate::list::form::root as skill_root;
pub use form::{Form, PROMPT, RESOURCE, SKILL, TEMPLATE, TOOL, member};

use crate::revision::Revision;
use crate::scan::{self, Keys, Member, ScanError, Scanner, Span};
use crate::write::Object;
use crate::{header, uri, write};

#[derive(Clone, Debug)]
pub struct Raw {
    /// The text of its key member (`name`, `uri`, `uriTemplate`).
    pub key: String,
    /// The item as written, except for repairs.
    pub text: Bytes,
}

/// Maximum items of a page with individually described faults.
const MAX_DESCRIBED_FAULTS: usize = 20;
/// Maximum size of an item: its parsed tree takes many times its bytes.
const MAX_ITEM: usize = 1 << 20;
/// Maximum items that are taken from a page.
const MAX_ITEMS: usize = 100_000;

/// Extracts the items of the array at `span` of `text`. Items that clients cannot read are left out
/// and described in the second part.
///
/// # Errors
/// A flaw in the text, such as a duplicate key in an item.
pub fn items(
    text: &Bytes,
    span: Span,
    form: &Form,
    max_depth: usize,
) -> Result<(Vec<Raw>, Vec<String>), ScanError> {
    let array = span.of(text);
    let mut scanner = Scanner::new(array, max_depth)?;
    let mut items = Vec::new();
    let mut nameless = 0_usize;
    let mut unreadable = Omissions::default();
    scanner.array(&mut |s| {
        if items.len() >= MAX_ITEMS {
            s.value()?;
            return Ok(());
        }
        if s.peek() != Some(b'{') {
            nameless += 1;
            s.value()?;
            return Ok(());
        }
        let (item, members) = s.members(Keys::Distinct)?;
        match scan::find_str(&members, array, form.key) {
            Some(name) if !name.is_empty() && item.of(array).len() > MAX_ITEM => {
                let name = short(&name);
                unreadable.add(format!("{} {name}: it is longer than {MAX_ITEM} bytes", form.noun));
            }
            Some(name) if !name.is_empty() => match form.check(item.of(array)) {
                Ok(repaired) => {
                    let start = span.range().start;
                    let whole = start + item.range().start..start + item.range().end;
                    let text = repaired.map_or_else(|| text.slice(whole), Bytes::from);
                    items.push(Raw { text, key: name.into_owned() });
                }
                Err(words) => unreadable.add(format!("{} {}: {words}", form.noun, short(&name))),
            },
            _ => nameless += 1,
        }
        Ok(())
    })?;
    let Omissions { mut messages, more } = unreadable;
    if more > 0 {
        messages.push(format!("{more} more {}s that clients cannot read", form.noun));
    }
    if nameless > 0 {
        messages.push(format!("{nameless} without `{}`, which {}s must have", form.key, form.noun));
    }
    Ok((items, messages))
}

/// Descriptions of omitted items: the first [`MAX_DESCRIBED_FAULTS`], and a count of the rest.
#[derive(Default)]
pub struct Omissions {
    pub messages: Vec<String>,
    pub more: usize,
}

impl Omissions {
    pub fn add(&mut self, message: String) {
        if self.messages.len() < MAX_DESCRIBED_FAULTS {
            self.messages.push(message);
        } else {
            self.more += 1;
        }
    }
}

fn text_or_empty<'a>(members: &[Member], raw: &'a [u8], name: &str) -> Cow<'a, str> {
    scan::find_str(members, raw, name).unwrap_or(Cow::Borrowed(""))
}

/// Returns a key for display: quoted, and its first 80 characters.
pub fn short(key: &str) -> String {
    let quoted = write::quoted(&String::from_iter(key.chars().take(80)));
    String::from_utf8(quoted).unwrap_or_default()
}

/// Maximum nesting of blocks that hold URIs: message, content, resource.
const MAX_BLOCKS: usize = 3;

/// The presentation of an item to a client.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    /// The key member and its exposed value.
    pub key: (&'a str, &'a str),
    /// The slug, when names and URIs are namespaced.
    pub slug: Option<&'a str>,
    pub revision: Revision,
}

/// Writes an item for a client. Unknown members are copied byte for byte; changed are only values
/// that the revision's validators would reject, hop-scoped annotations and namespaced URIs.
///
/// # Errors
/// A flaw in the text; items from [`items`] have none.
pub fn show(out: &mut Vec<u8>, item: &[u8], shown: &Shown<'_>) -> Result<(), ScanError> {
    let (_, members) = Scanner::new(item, scan::MAX_DEPTH)?.members(Keys::Distinct)?;
    let mut object = Object::open(out);
    for member in &members {
        let value = member.value.of(item);
        match &*member.name(item) {
            key if key == shown.key.0 => object.string(key, shown.key.1),
            "execution" if shown.revision != Revision::V2025_11_25 => {}
            "outputSchema" if !takes_output_schema(shown.revision, value) => {}
            "inputSchema" if shown.revision < Revision::V2026_07_28 => {
                object.raw("inputSchema", &header::strip(value))
            }
            "_meta" => show_meta(&mut object, value, shown),
            "resources" if shown.slug.is_some() && shown.key.0 == SKILL.key => {
                let files = adapt_content(value, shown.slug, shown.revision);
                object.raw("resources", files.as_deref().unwrap_or(value));
            }
            _ => object.copy(member.key.of(item), value),
        }
    }
    object.close();
    Ok(())
}

/// Returns a tool without its `x-mcp-header` annotations.
pub fn without_annotations(tool: &[u8]) -> Option<Vec<u8>> {
    let schema = member(tool, "inputSchema").unwrap_or(b"{}");
    with_member(tool, "inputSchema", &header::strip(schema))
}

/// Returns an item with another value (JSON text) of a member, which is added if missing.
pub fn with_member(item: &[u8], name: &str, value: &[u8]) -> Option<Vec<u8>> {
    let (_, members) = Scanner::new(item, scan::MAX_DEPTH).ok()?.members(Keys::Distinct).ok()?;
    let mut out = Vec::with_capacity(item.len() + value.len());
    let mut object = Object::open(&mut out);
    for member in &members {
        let old = member.value.of(item);
        object.copy(member.key.of(item), if member.is(item, name) { value } else { old });
    }
    if !members.iter().any(|member| member.is(item, name)) {
        object.raw(name, value);
    }
    object.close();
    Some(out)
}

/// Writes `_meta`, in which tools refer to their views (MCP Apps) by URI. These URIs must lead back
/// through the gateway.
fn show_meta(object: &mut Object<'_>, raw: &[u8], shown: &Shown<'_>) {
    let Some(slug) = shown.slug else { return object.raw("_meta", raw) };
    if memmem::find(raw, b"resourceUri").is_none() {
        return object.raw("_meta", raw);
    }
    let Ok(mut meta) = json::from_slice::<Value>(raw) else {
        return object.raw("_meta", raw);
    };
    if let Some(Value::String(text)) = meta.get_mut("ui/resourceUri") {
        *text = uri::expose(slug, text).into_owned();
    }
    if let Some(ui) = meta.get_mut("ui")
        && let Some(Value::String(text)) = ui.get_mut("resourceUri")
    {
        *text = uri::expose(slug, text).into_owned();
    }
    object.raw("_meta", meta.to_string().as_bytes());
}

/// Returns whether the revision accepts this output schema; before 2026-07-28, only objects.
fn takes_output_schema(revision: Revision, schema: &[u8]) -> bool {
    match revision {
        Revision::V2024_11_05 | Revision::V2025_03_26 => false,
        Revision::V2025_06_18 | Revision::V2025_11_25 => {
            member(schema, "type") == Some(b"\"object\"")
        }
        Revision::V2026_07_28 => true,
    }
}

/// Rewrites the `content`, `contents` or `messages` of a result with namespaced URIs and, for older
/// revisions, with their content types. Returns `None` if nothing has to change.
pub fn adapt_content(raw: &[u8], slug: Option<&str>, revision: Revision) -> Option<Vec<u8>> {
    if !may_adapt(raw, slug.is_some(), revision) {
        return None;
    }
    let mut out = Vec::with_capacity(raw.len() + 64);
    let mut writer = Adapt { slug, revision, changed: false };
    writer.value(&mut out, raw, 0).ok()?;
    if writer.changed { Some(out) } else { None }
}

/// Returns whether [`adapt_content`] has to make a copy to find out.
pub fn may_adapt(raw: &[u8], namespaced: bool, revision: Revision) -> bool {
    let uris = namespaced && (URI.find(raw).is_some() || has_escape(raw));
    let is_old = revision < Revision::V2025_06_18;
    uris || is_old && (has(raw, b"resource_link") || has(raw, b"audio"))
}

static URI: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"uri\""));

/// Returns whether a key may be spelt with `\u`.
fn has_escape(raw: &[u8]) -> bool {
    memchr::memchr(b'\\', raw).is_some() && has(raw, b"\\u")
}

fn has(raw: &[u8], needle: &[u8]) -> bool {
    memmem::find(raw, needle).is_some()
}

/// A copier of JSON text that changes only certain values and keeps every other byte.
struct Adapt<'a> {
    slug: Option<&'a str>,
    revision: Revision,
    changed: bool,
}

impl Adapt<'_> {
    fn value(&mut self, out: &mut Vec<u8>, raw: &[u8], depth: usize) -> Result<(), ScanError> {
        match raw.first() {
            Some(b'[') => write::items(out, raw, &mut |out, item| self.value(out, item, depth)),
            Some(b'{') if depth <= MAX_BLOCKS => self.block(out, raw, depth),
            _ => {
                out.extend_from_slice(raw);
                Ok(())
            }
        }
    }

    /// Copies a content block, a prompt message or a resource: only these hold URIs.
    fn block(&mut self, out: &mut Vec<u8>, raw: &[u8], depth: usize) -> Result<(), ScanError> {
        let (_, members) = Scanner::new(raw, scan::MAX_DEPTH)?.members(Keys::Distinct)?;
        let kind = scan::find_str(&members, raw, "type");
        let link = kind.as_deref() == Some("resource_link");
        let mut uri = None;
        if let Some(slug) = self.slug
            && (link || kind.is_none())
            && let Some(own) = scan::find_str(&members, raw, "uri")
        {
            uri = Some(uri::expose(slug, &own).into_owned());
        }
        let audio = kind.as_deref() == Some("audio");
        let too_new = link && self.revision < Revision::V2025_06_18
            || audio && self.revision < Revision::V2025_03_26;
        if too_new {
            self.changed = true;
            let words = if link {
                let name = text_or_empty(&members, raw, "name");
                let own = text_or_empty(&members, raw, "uri");
                format!("{name} {}", uri.as_deref().unwrap_or(&own))
            } else {
                format!("[audio, {}]", text_or_empty(&members, raw, "mimeType"))
            };
            let mut object = Object::open(out);
            object.string("type", "text");
            object.string("text", words.trim());
            object.close();
            return Ok(());
        }
        let mut object = Object::open(out);
        for member in &members {
            let value = member.value.of(raw);
            match (&*member.name(raw), &uri) {
                ("uri", Some(uri)) => {
                    self.changed = true;
                    object.string("uri", uri);
                }
                (name @ ("resource" | "content"), _) => {
                    self.value(object.key(name), value, depth + 1)?
                }
                _ => object.copy(member.key.of(raw), value),
            }
        }
        object.close();
        Ok(())
    }
}

#[cfg(test)]
mod tests;
