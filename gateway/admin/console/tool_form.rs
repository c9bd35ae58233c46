//! A form made from the JSON Schema of a tool's arguments, and the arguments that it says. What the
//! schema describes beyond plain fields is written as JSON; whether arguments are good is for the
//! gateway and the server to say.

use serde_json::{Map, Value};

use super::fields::Fields;
use super::shown::show_text;

/// Fields of one form: what a schema has beyond that is written as JSON below them.
const MAX_FIELDS: usize = 100;

/// One argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ToolField {
    pub(crate) name: String,
    pub(crate) kind: FieldKind,
    pub(crate) description: String,
    pub(crate) is_required: bool,
    /// What was typed, or what the schema has as default.
    pub(crate) value: String,
    pub(crate) mistake: String,
}

/// How an argument is typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FieldKind {
    Text,
    Number,
    /// One of a few values; a flag has `true` and `false`.
    Choice(Vec<String>),
    /// Anything else, as JSON.
    Json,
}

impl FieldKind {
    fn of(schema: &Value) -> Self {
        if let Some(Value::Array(values)) = schema.get("enum") {
            let mut texts = Vec::with_capacity(values.len());
            for value in values {
                if let Value::String(text) = value {
                    texts.push(text.clone());
                }
            }
            if !texts.is_empty() && texts.len() == values.len() {
                return Self::Choice(texts);
            }
        }
        match text(schema, "type") {
            "string" => Self::Text,
            "integer" | "number" => Self::Number,
            "boolean" => Self::Choice(vec!["true".into(), "false".into()]),
            _ => Self::Json,
        }
    }
}

impl ToolField {
    /// What the name of its input is.
    pub(crate) fn input(&self) -> String {
        format!("arg.{}", self.name)
    }

    /// The value that was typed; `None` where nothing was.
    fn read(&self, is_flag: bool) -> Result<Option<Value>, String> {
        let text = self.value.as_str();
        if text.is_empty() && !(self.is_required && self.kind == FieldKind::Text) {
            return Ok(None);
        }
        match &self.kind {
            FieldKind::Choice(_) if is_flag => Ok(Some(Value::Bool(text == "true"))),
            FieldKind::Text | FieldKind::Choice(_) => Ok(Some(text.into())),
            FieldKind::Number => {
                let Ok(number) = serde_json::from_str(text.trim()) else {
                    return Err("This must be a number.".into());
                };
                Ok(Some(Value::Number(number)))
            }
            FieldKind::Json => match serde_json::from_str(text) {
                Ok(value) => Ok(Some(value)),
                Err(error) => Err(format!("This must be JSON: {error}.")),
            },
        }
    }
}

/// The form of a schema, with what was typed.
pub(crate) fn make_fields(schema: &Value, typed: &Fields) -> Vec<ToolField> {
    let Some(Value::Object(properties)) = schema.get("properties") else { return Vec::new() };
    let mut fields = Vec::new();
    for (name, property) in properties.iter().take(MAX_FIELDS) {
        let mut field = ToolField {
            kind: FieldKind::of(property),
            description: show_text(text(property, "description")),
            is_required: is_required(schema, name),
            value: write_default(property.get("default")),
            mistake: String::new(),
            name: name.clone(),
        };
        if typed.has(&field.input()) {
            typed.get_exact(&field.input()).clone_into(&mut field.value);
        }
        fields.push(field);
    }
    fields
}

fn is_required(schema: &Value, name: &str) -> bool {
    let Some(Value::Array(required)) = schema.get("required") else { return false };
    required.iter().any(|given| given == name)
}

/// A member of a schema, empty where it is no text.
fn text<'a>(schema: &'a Value, name: &str) -> &'a str {
    match schema.get(name) {
        Some(Value::String(text)) => text,
        _ => "",
    }
}

/// The type of an argument, if its schema says one.
fn type_of<'a>(schema: &'a Value, argument: &str) -> Option<&'a Value> {
    schema.get("properties")?.get(argument)?.get("type")
}

fn write_default(default: Option<&Value>) -> String {
    match default {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// The arguments that a form says; `None` where a field is not what it must be, which then says so.
pub(crate) fn read_arguments(schema: &Value, fields: &mut [ToolField]) -> Option<Value> {
    let mut arguments = Map::new();
    let mut is_good = true;
    for field in fields {
        let is_flag = matches!(
            type_of(schema, &field.name), Some(Value::String(kind)) if kind == "boolean"
        );
        match field.read(is_flag) {
            Ok(Some(value)) => {
                arguments.insert(field.name.clone(), value);
            }
            Ok(None) => {}
            Err(mistake) => {
                field.mistake = mistake;
                is_good = false;
            }
        }
    }
    if is_good { Some(Value::Object(arguments)) } else { None }
}

#[cfg(test)]
mod tests;
