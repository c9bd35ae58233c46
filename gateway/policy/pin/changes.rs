//! Readable differences between two definitions. The output is bounded and free of terminal control
//! characters.

use serde_json::Value;

use super::text::shown;

const MAX_LINES: usize = 50;
/// Length limit of a quoted value, in characters.
const MAX_QUOTED_CHARS: usize = 400;

/// Returns one line for each difference.
pub fn changes(old: &Value, new: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    walk("", old, new, &mut lines);
    if lines.len() > MAX_LINES {
        let more = lines.len() - MAX_LINES;
        lines.truncate(MAX_LINES);
        lines.push(format!("… and {more} more"));
    }
    lines
}

fn walk(at: &str, old: &Value, new: &Value, lines: &mut Vec<String>) {
    if old == new || lines.len() > MAX_LINES * 4 {
        return;
    }
    if let (Value::Object(before), Value::Object(after)) = (old, new) {
        for (name, value) in before {
            match after.get(name) {
                Some(now) => walk(&below(at, name), value, now, lines),
                None => lines.push(format!("{}: removed, was {}", below(at, name), quoted(value))),
            }
        }
        for (name, value) in after {
            if !before.contains_key(name) {
                lines.push(format!("{}: added, {}", below(at, name), quoted(value)));
            }
        }
        return;
    }
    lines.push(format!("{at}: was {}, is {}", quoted(old), quoted(new)));
}

fn below(at: &str, name: &str) -> String {
    let name = shown(name, MAX_QUOTED_CHARS);
    if at.is_empty() { name } else { format!("{at}/{name}") }
}

fn quoted(value: &Value) -> String {
    match value {
        Value::String(text) => format!("\"{}\"", shown(text, MAX_QUOTED_CHARS)),
        other => shown(&other.to_string(), MAX_QUOTED_CHARS),
    }
}
