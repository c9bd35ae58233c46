//! Checks of a skill's entry (SEP-2640): the rules that hold without reading a file of the skill.

use std::collections::HashSet;

use serde_json::{Map, Value};

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

#[cfg(test)]
mod tests;
