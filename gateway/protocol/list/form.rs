//! Checks whether clients can read an item of a list. Most clients read a merged list as a whole,
//! so a single member of a wrong type would cost them the tools of every server.
//!
//! Checks only members that client libraries read, and repairs only unambiguous faults.

use std::collections::HashSet;

use lockgate_text::json;
use serde_json::{Map, Value};

use crate::scan;
use crate::scan::{Keys, Scanner};
use crate::write::Object;

/// The expected members of the items of a kind of list.
#[derive(Debug)]
pub struct Form {
    /// The display name of an item.
    pub noun: &'static str,
    /// The key member: a non-empty string.
    pub key: &'static str,
    members: &'static [(&'static str, Shape)],
}

pub static TOOL: Form = Form {
    noun: "tool",
    key: "name",
    members: &[
        ("inputSchema", Shape::Input),
        ("title", Shape::Text),
        ("description", Shape::Text),
        ("outputSchema", Shape::Object),
        ("annotations", Shape::Hints),
        ("execution", Shape::Object),
        ("icons", Shape::Icons),
        ("_meta", Shape::Object),
    ],
};

pub static PROMPT: Form = Form {
    noun: "prompt",
    key: "name",
    members: &[
        ("title", Shape::Text),
        ("description", Shape::Text),
        ("arguments", Shape::Arguments),
        ("icons", Shape::Icons),
        ("_meta", Shape::Object),
    ],
};

pub static RESOURCE: Form = Form {
    noun: "resource",
    key: "uri",
    members: &[
        ("name", Shape::Name),
        ("title", Shape::Text),
        ("description", Shape::Text),
        ("mimeType", Shape::Text),
        ("size", Shape::Number),
        ("annotations", Shape::Audience),
        ("icons", Shape::Icons),
        ("_meta", Shape::Object),
    ],
};

pub static TEMPLATE: Form =
    Form { noun: "resource template", key: "uriTemplate", members: RESOURCE.members };

pub static SKILL: Form = Form {
    noun: "skill",
    key: "uri",
    members: &[("resources", Shape::Files), ("_meta", Shape::Object)],
};

/// The type of a member, optional unless noted otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Text,
    /// A required string.
    Name,
    Number,
    Object,
    /// The required schema of a tool's arguments: an object with the `type` `object`.
    Input,
    /// Annotations of a tool: boolean hints.
    Hints,
    /// Annotations of a resource.
    Audience,
    /// A list of objects with a string `src`.
    Icons,
    /// A list of objects with a string `name`.
    Arguments,
    /// The required files of a skill, which is checked as a whole.
    Files,
}

impl Shape {
    fn is_needed(self) -> bool {
        matches!(self, Self::Name | Self::Input | Self::Files)
    }

    fn fits(self, value: &Value) -> bool {
        match self {
            Self::Text | Self::Name => value.is_string(),
            Self::Number => value.is_number(),
            Self::Object => value.is_object(),
            Self::Input => matches!(value, Value::Object(schema) if is_input(schema)),
            Self::Hints => each_member(value, |name, value| match name {
                "title" => value.is_string(),
                name if name.ends_with("Hint") => value.is_boolean(),
                _ => true,
            }),
            Self::Audience => each_member(value, |name, value| match name {
                "audience" => are_strings(value),
                "priority" => value.is_number(),
                "lastModified" => value.is_string(),
                _ => true,
            }),
            Self::Icons => each(value, |icon| matches!(icon.get("src"), Some(Value::String(_)))),
            Self::Arguments => each(value, is_argument),
            Self::Files => value.is_array() || value == "dynamic",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Text | Self::Name => "a string",
            Self::Number => "a number",
            Self::Object => "an object",
            Self::Input => "a schema whose `type` is \"object\"",
            Self::Hints => "an object with boolean hints",
            Self::Audience => "an object with valid `audience`, `priority` and `lastModified`",
            Self::Icons => "a list of objects with a string `src`",
            Self::Arguments => "a list of objects with a string `name`",
            Self::Files => "a list or \"dynamic\"",
        }
    }
}

/// Returns whether `value` is a list of objects that all pass.
fn each(value: &Value, is: impl Fn(&Map<String, Value>) -> bool) -> bool {
    let Value::Array(all) = value else { return false };
    all.iter().all(|one| matches!(one, Value::Object(one) if is(one)))
}

/// Returns whether `value` is an object and all its members pass.
fn each_member(value: &Value, is: impl Fn(&str, &Value) -> bool) -> bool {
    let Value::Object(members) = value else { return false };
    members.iter().all(|(name, value)| is(name, value))
}

fn are_strings(value: &Value) -> bool {
    let Value::Array(all) = value else { return false };
    all.iter().all(Value::is_string)
}

/// Returns whether the member is missing or passes.
fn fits(object: &Map<String, Value>, name: &str, is: fn(&Value) -> bool) -> bool {
    object.get(name).is_none_or(is)
}

fn is_input(schema: &Map<String, Value>) -> bool {
    fits(schema, "type", |kind| kind == "object")
        && fits(schema, "properties", Value::is_object)
        && fits(schema, "required", are_strings)
}

fn is_argument(argument: &Map<String, Value>) -> bool {
    argument.contains_key("name")
        && fits(argument, "name", Value::is_string)
        && fits(argument, "title", Value::is_string)
        && fits(argument, "description", Value::is_string)
        && fits(argument, "required", Value::is_boolean)
}

impl Form {
    /// Checks whether clients can read this item. `Ok(Some(_))` is the repaired item: without
    /// optional members that are null, and with the missing `type` of the arguments' schema.
    ///
    /// # Errors
    /// A description of the fault.
    pub(super) fn check(&self, item: &[u8]) -> Result<Option<Vec<u8>>, String> {
        let Ok(Value::Object(value)) = json::from_slice(item) else {
            return Err("is not an object".into());
        };
        let mut repair = false;
        for &(name, shape) in self.members {
            match value.get(name) {
                None | Some(Value::Null) if shape.is_needed() => {
                    return Err(format!("has no `{name}`"));
                }
                None => {}
                Some(Value::Null) => repair = true,
                Some(member) if !shape.fits(member) => {
                    return Err(format!("`{name}` must be {}", shape.words()));
                }
                Some(member) => repair |= shape == Shape::Input && member.get("type").is_none(),
            }
        }
        if self.noun == SKILL.noun {
            check(&value)?;
        }
        Ok(if repair { self.repaired(item) } else { None })
    }

    fn shape(&self, name: &str) -> Option<Shape> {
        self.members.iter().find(|(known, _)| *known == name).map(|(_, shape)| *shape)
    }

    fn repaired(&self, item: &[u8]) -> Option<Vec<u8>> {
        let (_, members) =
            Scanner::new(item, scan::MAX_DEPTH).ok()?.members(Keys::Distinct).ok()?;
        let mut out = Vec::with_capacity(item.len() + 20);
        let mut object = Object::open(&mut out);
        for member in &members {
            let name = member.name(item);
            let value = member.value.of(item);
            match self.shape(&name) {
                Some(_) if value == b"null" => {}
                Some(Shape::Input) if self::member(value, "type").is_none() => {
                    let rest = value.get(1..).unwrap_or(&[]).trim_ascii_start();
                    let comma = if rest.starts_with(b"}") { "" } else { "," };
                    object.raw(&name, &[b"{\"type\":\"object\"", comma.as_bytes(), rest].concat());
                }
                _ => object.copy(member.key.of(item), value),
            }
        }
        object.close();
        Some(out)
    }
}

/// Returns a member of a scanned item as JSON text.
pub fn member<'a>(item: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let (_, members) = Scanner::new(item, scan::MAX_DEPTH).ok()?.members(Keys::Distinct).ok()?;
    Some(scan::find(&members, item, name)?.of(item))
}

#[cfg(test)]
mod tests;

/// Limits of a skill that every host must support (SEP-2640, "Limits").
pub const MAX_FILES: usize = 512;
pub const MAX_BYTES: u64 = 16 << 20;

/// Returns the root of a skill, with a final `/`, by the URI of its `SKILL.md`.
pub fn root(uri: &str) -> Option<&str> {
    let root = uri.strip_suffix("SKILL.md")?;
    (root.ends_with('/') && !uri.contains(['?', '#'])).then_some(root)
}

/// Checks an entry of `skills/list` or `skills/get`.
///
/// # Errors
/// A description of the fault.
pub(super) fn check(entry: &Map<String, Value>) -> Result<(), String> {
    let uri = entry.get("uri").and_then(Value::as_str).unwrap_or("");
    let Some(root) = root(uri) else { return Err("its `uri` does not end in /SKILL.md".into()) };
    let frontmatter = entry.get("frontmatter").unwrap_or(&Value::Null);
    if !is_text(&frontmatter["name"]) || !is_text(&frontmatter["description"]) {
        return Err("`frontmatter` needs a `name` and a `description`".into());
    }
    if root.trim_end_matches('/').rsplit('/').next() != frontmatter["name"].as_str() {
        return Err("its folder is not named as the `name` of its `frontmatter`".into());
    }
    match entry.get("resources") {
        Some(Value::Array(files)) => check_files(files, uri, root),
        Some(Value::String(dynamic)) if dynamic == "dynamic" => Ok(()),
        _ => Err("`resources` must be a list or \"dynamic\"".into()),
    }
}

fn check_files(files: &[Value], uri: &str, root: &str) -> Result<(), String> {
    if files.len() > MAX_FILES {
        return Err(format!("it has {} files, more than {MAX_FILES}", files.len()));
    }
    let mut names = HashSet::with_capacity(files.len());
    let mut bytes = 0_u64;
    for file in files {
        let name = file["uri"].as_str().unwrap_or("");
        if !name.starts_with(root) || !names.insert(name) {
            return Err("each of its `resources` must be a file below it, once".into());
        }
        if !is_digest(file["digest"].as_str().unwrap_or("")) {
            return Err("a `digest` is not sha256: and 64 hexadecimal digits".into());
        }
        let Some(size) = file["size"].as_u64() else { return Err("a file has no `size`".into()) };
        bytes = bytes.saturating_add(size);
    }
    if !names.contains(uri) {
        return Err("its `resources` lack its SKILL.md".into());
    }
    if bytes > MAX_BYTES {
        return Err(format!("its files have {bytes} bytes, more than {MAX_BYTES}"));
    }
    Ok(())
}

fn is_text(value: &Value) -> bool {
    matches!(value, Value::String(text) if !text.is_empty())
}

fn is_digest(text: &str) -> bool {
    let Some(hex) = text.strip_prefix("sha256:") else { return false };
    hex.len() == 64 && hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}
