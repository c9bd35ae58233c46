//! Arguments of prompts: strings in the protocol, validated against their declaration and
//! normalised.

use super::config::{Argument, ArgumentKind};
use crate::tool::first_chars;

/// Validates a value and returns its normalised form.
pub(super) fn read(argument: &Argument, given: &str) -> Result<String, String> {
    let Argument { max_chars, multiline, min, max, .. } = argument;
    let read = match argument.kind {
        ArgumentKind::Text => {
            let count = given.chars().count();
            if count > *max_chars {
                return Err(format!(
                    "the argument `{}` must have at most {max_chars} characters, received {count}",
                    argument.name
                ));
            }
            if !multiline && given.contains(is_break) {
                return Err(format!("the argument `{}` must be a single line", argument.name));
            }
            if given.contains(|c: char| c.is_control() && !matches!(c, '\n' | '\r' | '\t')) {
                return Err(format!(
                    "the argument `{}` must not have control characters",
                    argument.name
                ));
            }
            Some(given.to_owned())
        }
        ArgumentKind::Integer => match given.trim().parse::<i64>() {
            Ok(number)
                if number >= min.unwrap_or(i64::MIN) && number <= max.unwrap_or(i64::MAX) =>
            {
                Some(number.to_string())
            }
            _ => None,
        },
        ArgumentKind::Number => match given.trim().parse::<f64>() {
            Ok(number) if number.is_finite() => Some(number.to_string()),
            _ => None,
        },
        ArgumentKind::Boolean => match given.trim() {
            "true" => Some("true".into()),
            "false" => Some("false".into()),
            _ => None,
        },
        ArgumentKind::Choice => argument.values.iter().find(|value| *value == given).cloned(),
    };
    if let Some(read) = read {
        return Ok(read);
    }
    let expected = kind(argument);
    let shown = first_chars(given, 60);
    Err(format!("the argument `{}` must be {expected}, received {shown:?}", argument.name))
}

/// Returns the permitted values; empty if any value is.
pub(super) fn values(argument: &Argument) -> Vec<String> {
    match argument.kind {
        ArgumentKind::Choice => argument.values.clone(),
        ArgumentKind::Boolean => vec!["true".into(), "false".into()],
        _ => Vec::new(),
    }
}

fn kind(argument: &Argument) -> String {
    let values = &argument.values;
    match argument.kind {
        ArgumentKind::Text => "text".into(),
        ArgumentKind::Integer => match (argument.min, argument.max) {
            (Some(min), Some(max)) => format!("a whole number from {min} to {max}"),
            (Some(min), None) => format!("a whole number of at least {min}"),
            (None, Some(max)) => format!("a whole number of at most {max}"),
            (None, None) => "a whole number".into(),
        },
        ArgumentKind::Number => "a number".into(),
        ArgumentKind::Boolean => "true or false".into(),
        ArgumentKind::Choice => {
            let shown = values[..values.len().min(20)].join(", ");
            let more = if values.len() > 20 { ", …" } else { "" };
            format!("one of {shown}{more}")
        }
    }
}

/// Describes an argument for clients: its description, type and default.
pub(super) fn described(argument: &Argument) -> String {
    let mut parts = Vec::new();
    if let Some(words) = &argument.description
        && !words.is_empty()
    {
        parts.push(words.clone());
    }
    if argument.kind != ArgumentKind::Text {
        parts.push(format!("({})", kind(argument)));
    }
    if let Some(default) = &argument.default {
        parts.push(format!("(default: {default})"));
    }
    parts.join(" ")
}

// Text with placeholders: `{{name}}`, `{{name|json}}` (as a JSON string) and `{{name|quote}}`
// (each line prefixed with `> `). Inserted values are never scanned for further placeholders.
// `{{{{` is an escaped `{{`.

/// Maximum number of placeholders per text.
const MAX_PLACEHOLDERS: usize = 200;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Words(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Plain(String),
    Gap { name: String, form: Form },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Plain,
    Json,
    Quote,
}

impl Words {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("{{") {
            plain.push_str(before);
            if let Some(after) = after.strip_prefix("{{") {
                plain.push_str("{{");
                rest = after;
                continue;
            }
            let Some((inside, after)) = after.split_once("}}") else {
                return Err("a `{{` is not closed; write {{{{ for the two characters".into());
            };
            let (name, form) = inside.split_once('|').unwrap_or((inside, ""));
            let form = match form.trim() {
                "" => Form::Plain,
                "json" => Form::Json,
                "quote" => Form::Quote,
                _ => return Err("a placeholder has an unknown form; use json or quote".into()),
            };
            pieces.push(Piece::Plain(std::mem::take(&mut plain)));
            pieces.push(Piece::Gap { name: name.trim().to_owned(), form });
            if pieces.len() > 2 * MAX_PLACEHOLDERS {
                return Err(format!("there are more than {MAX_PLACEHOLDERS} placeholders"));
            }
            rest = after;
        }
        plain.push_str(rest);
        pieces.push(Piece::Plain(plain));
        Ok(Self(pieces))
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Gap { name, .. } => Some(name.as_str()),
            Piece::Plain(_) => None,
        })
    }

    /// Fills every placeholder. Missing values are empty.
    pub(super) fn fill<'v>(&self, value: impl Fn(&str) -> Option<&'v str>) -> String {
        let mut out = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Plain(text) => out.push_str(text),
                Piece::Gap { name, form } => {
                    let value = value(name).unwrap_or("");
                    match form {
                        Form::Plain => out.push_str(value),
                        Form::Json => out.push_str(&serde_json::Value::from(value).to_string()),
                        Form::Quote => out.push_str(&quoted(value)),
                    }
                }
            }
        }
        out
    }
}

fn quoted(value: &str) -> String {
    let value = value.replace("\r\n", "\n");
    // A trailing line break does not start another line.
    let whole = value.strip_suffix(is_break).unwrap_or(&value);
    if value.is_empty() {
        return value;
    }
    let lines: Vec<_> = whole.split(is_break).map(|line| format!("> {line}")).collect();
    lines.join("\n")
}

/// Returns whether a reader may interpret the character as a line break.
pub(super) fn is_break(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{2028}' | '\u{2029}' | '\u{85}' | '\u{b}' | '\u{c}')
}
