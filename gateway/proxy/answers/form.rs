//! The fields of an elicitation: types, choices and bounds, without titles and descriptions. A form
//! is flat, so checking an answer never recurses into client input. Schema:
//! `PrimitiveSchemaDefinition` (2026-07-28).

use lockgate_protocol::list;
use serde_json::{Map, Value};

/// Keywords that decide whether a value fits. `enum` also holds the constants of titled choices.
const KEYWORDS: [&str; 9] = [
    "type",
    "enum",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "minItems",
    "maxItems",
    "items",
];

/// The fields of an elicitation that its answer is checked against.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Form {
    /// `None` if the schema is unknown.
    fields: Option<Map<String, Value>>,
    required: Vec<String>,
}

impl Form {
    pub(super) fn of(schema: Option<&Value>) -> Self {
        let Some(schema) = schema else { return Self::any() };
        let Some(properties) = schema["properties"].as_object() else { return Self::any() };
        let mut fields = Map::new();
        fields.extend(properties.into_iter().map(|(name, field)| (name.clone(), field_of(field))));
        let required = schema["required"].as_array().map_or(Vec::new(), |list| texts_of(list));
        Self { fields: Some(fields), required }
    }

    /// Returns a form of unknown schema, which accepts any flat content.
    pub(super) fn any() -> Self {
        Self { fields: None, required: Vec::new() }
    }

    pub(super) fn sealed(&self) -> Value {
        let mut all = Map::new();
        if let Some(fields) = &self.fields {
            all.insert("fields".into(), Value::Object(fields.clone()));
            all.insert("required".into(), self.required.clone().into());
        }
        Value::Object(all)
    }

    pub(super) fn unsealed(value: Value) -> Option<Self> {
        let Value::Object(mut all) = value else { return None };
        let Some(Value::Object(fields)) = all.remove("fields") else { return Some(Self::any()) };
        let required = texts_of(all.remove("required")?.as_array()?);
        Some(Self { fields: Some(fields), required })
    }

    /// Returns whether the form has a field of this name. Other members are left out of an answer.
    pub(super) fn names(&self, name: &str) -> bool {
        self.fields.as_ref().is_none_or(|fields| fields.contains_key(name))
    }

    pub(super) fn check(&self, content: &Map<String, Value>) -> Result<(), String> {
        for (name, value) in content.iter().filter(|(name, _)| self.names(name)) {
            let field = self.fields.as_ref().and_then(|fields| fields.get(name));
            if !field.map_or_else(|| is_flat(value), |field| fits(field, value)) {
                let name = list::short(name);
                return Err(format!("`content` has a value of {name} that does not fit the form"));
            }
        }
        for name in &self.required {
            if !content.contains_key(name) {
                return Err(format!("`content` has no {}", list::short(name)));
            }
        }
        Ok(())
    }
}

fn texts_of(list: &[Value]) -> Vec<String> {
    let mut texts = Vec::with_capacity(list.len());
    for text in list {
        if let Some(text) = text.as_str() {
            texts.push(text.to_owned());
        }
    }
    texts
}

/// Keeps the keywords of a field that decide whether a value fits.
fn field_of(schema: &Value) -> Value {
    let mut field = Map::new();
    for keyword in KEYWORDS {
        match (keyword, schema.get(keyword)) {
            ("items", Some(items)) => drop(field.insert("items".into(), field_of_item(items))),
            (_, Some(value)) => drop(field.insert(keyword.into(), value.clone())),
            _ => {}
        }
    }
    if let Some(constants) = constants(schema) {
        field.insert("enum".into(), constants);
    }
    Value::Object(field)
}

/// Keeps the choices of a multi-select field.
fn field_of_item(schema: &Value) -> Value {
    let mut item = Map::new();
    for keyword in ["type", "enum"] {
        if let Some(value) = schema.get(keyword) {
            item.insert(keyword.into(), value.clone());
        }
    }
    if let Some(constants) = constants(schema) {
        item.insert("enum".into(), constants);
    }
    Value::Object(item)
}

/// Returns the constants of titled choices: `oneOf` or `anyOf` with a `const` each.
fn constants(schema: &Value) -> Option<Value> {
    let choices = schema.get("oneOf").or(schema.get("anyOf"))?.as_array()?;
    let mut constants = Vec::with_capacity(choices.len());
    for choice in choices {
        constants.push(choice.get("const")?.clone());
    }
    Some(Value::Array(constants))
}

fn is_flat(value: &Value) -> bool {
    match value {
        Value::Array(all) => all.iter().all(|one| !one.is_array() && !one.is_object()),
        Value::Object(_) => false,
        _ => true,
    }
}

fn fits(field: &Value, value: &Value) -> bool {
    if !is_choice(field, value) {
        return false;
    }
    match (field["type"].as_str(), value) {
        (Some("string"), Value::String(text)) => {
            is_within(field, "minLength", "maxLength", count(text))
        }
        (Some("boolean"), Value::Bool(_)) => true,
        (Some(kind @ ("number" | "integer")), Value::Number(number)) => {
            let Some(number) = number.as_f64() else { return false };
            (kind == "number" || number.fract() == 0.0)
                && is_within(field, "minimum", "maximum", number)
        }
        (Some("array"), Value::Array(all)) => fits_all(field, all),
        (Some("string" | "boolean" | "number" | "integer" | "array"), _) => false,
        _ => is_flat(value),
    }
}

fn fits_all(field: &Value, all: &[Value]) -> bool {
    let item = field.get("items").unwrap_or(&Value::Null);
    #[allow(clippy::cast_precision_loss, reason = "a length that is compared with a bound")]
    let within = is_within(field, "minItems", "maxItems", all.len() as f64);
    within && all.iter().all(|one| fits_item(item, one))
}

fn fits_item(item: &Value, one: &Value) -> bool {
    let is_text = item["type"] == "string";
    (one.is_string() || !is_text) && is_flat(one) && !one.is_array() && is_choice(item, one)
}

/// Returns whether a value is among the choices, if there are any.
fn is_choice(schema: &Value, value: &Value) -> bool {
    match schema.get("enum") {
        Some(Value::Array(choices)) => choices.contains(value),
        _ => true,
    }
}

/// Counts characters as JSON Schema does: code points.
#[allow(clippy::cast_precision_loss, reason = "a length that is compared with a bound")]
fn count(text: &str) -> f64 {
    text.chars().count() as f64
}

fn is_within(field: &Value, least: &str, most: &str, number: f64) -> bool {
    let is_less = matches!(field[least].as_f64(), Some(least) if number < least);
    let is_more = matches!(field[most].as_f64(), Some(most) if number > most);
    !is_less && !is_more
}
