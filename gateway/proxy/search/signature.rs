//! A tool in a line: name, arguments with their types, and the first sentence of its description.

use lockgate_protocol::list;
use serde_json::Value;

/// Arguments in a signature; further ones are not shown.
const MAX_ARGUMENTS: usize = 16;
/// Choices of an argument that are shown in place of its type.
const MAX_CHOICES: usize = 6;
/// Bytes of a description.
const MAX_SENTENCE: usize = 160;

/// Appends the line of a tool: `name(query: string, limit?: integer) – Finds things.`
pub(super) fn write_summary(out: &mut String, name: &str, definition: &[u8]) {
    if !out.is_empty() {
        out.push('\n');
    }
    out.push_str(name);
    let schema = list::member(definition, "inputSchema").unwrap_or(b"{}");
    write_arguments(out, &serde_json::from_slice(schema).unwrap_or(Value::Null));
    let description = list::member(definition, "description").unwrap_or(b"\"\"");
    let description: String = serde_json::from_slice(description).unwrap_or_default();
    let sentence = first_sentence(&description, MAX_SENTENCE);
    if !sentence.is_empty() {
        out.push_str(" – ");
        out.push_str(&sentence);
    }
}

fn write_arguments(out: &mut String, schema: &Value) {
    out.push('(');
    let required = schema["required"].as_array();
    let properties = schema["properties"].as_object();
    for (at, (name, property)) in properties.into_iter().flatten().enumerate() {
        if at > 0 {
            out.push_str(", ");
        }
        if at == MAX_ARGUMENTS {
            out.push('…');
            break;
        }
        out.push_str(name);
        if !required.is_some_and(|required| required.iter().any(|other| other == name)) {
            out.push('?');
        }
        out.push_str(": ");
        out.push_str(&describe_type(property));
    }
    out.push(')');
}

fn describe_type(schema: &Value) -> String {
    if let Some(choices) = schema["enum"].as_array()
        && choices.len() <= MAX_CHOICES
    {
        let mut texts = Vec::new();
        for choice in choices {
            texts.push(choice.to_string());
        }
        return texts.join("|");
    }
    match &schema["type"] {
        Value::String(name) if name == "array" => match schema["items"]["type"].as_str() {
            Some(item) => format!("{item}[]"),
            None => "array".into(),
        },
        Value::String(name) => name.clone(),
        Value::Array(names) => {
            let mut texts = Vec::new();
            for name in names {
                texts.push(name.as_str().unwrap_or("any"));
            }
            texts.join("|")
        }
        _ => "any".into(),
    }
}

/// Returns the first sentence of a text on one line, of at most so many bytes.
pub(crate) fn first_sentence(text: &str, most: usize) -> String {
    let line = text.trim().lines().next().unwrap_or("");
    let end = line.find(". ").map_or(line.len(), |at| at + 1);
    let sentence = &line[..end];
    let cut = sentence.floor_char_boundary(most);
    if cut < sentence.len() { format!("{}…", &sentence[..cut]) } else { sentence.to_owned() }
}

#[cfg(test)]
mod tests;
