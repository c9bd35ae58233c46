//! Arguments of prompts: strings in the protocol, validated against their declaration and
//! normalised.

use super::config::{Argument, ArgumentKind};
use super::words::is_break;
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
