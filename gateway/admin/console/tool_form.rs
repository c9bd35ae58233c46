//! A form made from the JSON Schema of a tool's arguments, and the arguments that it says. What the
//! schema describes beyond plain fields is written as JSON; whether arguments are good is for the
//! gateway and the server to say.

use serde_json::{Map, Number, Value};

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
            let texts: Vec<&str> = values.iter().filter_map(Value::as_str).collect();
            if !texts.is_empty() && texts.len() == values.len() {
                return Self::Choice(texts.into_iter().map(str::to_owned).collect());
            }
        }
        match schema.get("type").and_then(Value::as_str) {
            Some("string") => Self::Text,
            Some("integer" | "number") => Self::Number,
            Some("boolean") => Self::Choice(vec!["true".into(), "false".into()]),
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
                let number: Result<Number, _> = serde_json::from_str(text.trim());
                let number = number.map_err(|_| "This must be a number.".to_owned())?;
                Ok(Some(Value::Number(number)))
            }
            FieldKind::Json => {
                let value = serde_json::from_str(text);
                value.map(Some).map_err(|error| format!("This must be JSON: {error}."))
            }
        }
    }
}

/// The form of a schema, with what was typed.
pub(crate) fn make_fields(schema: &Value, typed: &Fields) -> Vec<ToolField> {
    let Some(Value::Object(properties)) = schema.get("properties") else { return Vec::new() };
    let mut fields = Vec::new();
    for (name, property) in properties.iter().take(MAX_FIELDS) {
        let description = property.get("description").and_then(Value::as_str);
        let mut field = ToolField {
            kind: FieldKind::of(property),
            description: show_text(description.unwrap_or_default()),
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
    let required = schema.get("required").and_then(Value::as_array);
    required.is_some_and(|required| required.iter().any(|given| given == name))
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
        let property = schema.get("properties").and_then(|all| all.get(&field.name));
        let is_flag = property.and_then(|property| property.get("type"))
            == Some(&Value::String("boolean".into()));
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
    is_good.then_some(Value::Object(arguments))
}

#[cfg(test)]
mod tests;
