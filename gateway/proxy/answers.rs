//! Checks clients' answers to servers' questions (elicitation, sampling, roots) against the
//! questions. Answers without a question and unknown members are dropped; an invalid answer is
//! refused and never reaches the server. Pages: basic/patterns/mrtr.mdx, client/elicitation.mdx,
//! client/sampling.mdx, client/roots.mdx (2026-07-28).

use std::borrow::Cow;
use std::collections::BTreeMap;

use lockgate_protocol::list;
use lockgate_protocol::method::Method;
use lockgate_protocol::scan::{self, Keys, Members, ScanError, Scanner, Span};
use lockgate_protocol::write::Object;
use lockgate_text::json;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Maximum number of questions per round.
pub(crate) const MAX_QUESTIONS: usize = 32;
/// Limit on the serialised questions in a sealed state, in bytes.
const MAX_SEALED: usize = 12 * 1024;

/// The part of a question that its answer is checked against.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Question {
    Plain(PlainQuestion),
    Form(Form),
}

/// A question without parameters that its answer depends on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PlainQuestion {
    /// An elicitation by URL: its answer has no content.
    Url,
    Sample,
    Roots,
}

/// The questions of a round, by the server's own keys. Request states contain their JSON.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Questions(BTreeMap<String, Question>);

impl Question {
    /// Returns the question of a request, or `None` for methods that clients cannot be asked.
    pub fn of(method: Method, params: &Value) -> Option<Self> {
        match method {
            Method::Sample => Some(Self::Plain(PlainQuestion::Sample)),
            Method::Roots => Some(Self::Plain(PlainQuestion::Roots)),
            Method::Elicit if params["mode"] == "url" => Some(Self::Plain(PlainQuestion::Url)),
            Method::Elicit => Some(Self::Form(Form::of(params.get("requestedSchema")))),
            _ => None,
        }
    }

    /// Validates an answer and returns it with only its known members, copied verbatim.
    ///
    /// # Errors
    /// Describes the flaw.
    pub fn take(&self, raw: &[u8]) -> Result<Vec<u8>, String> {
        let answer = Answer::read(raw)?;
        let mut out = Vec::with_capacity(raw.len());
        let mut object = Object::open(&mut out);
        match self {
            Self::Plain(PlainQuestion::Sample) => take_sampled(&answer, &mut object)?,
            Self::Plain(PlainQuestion::Roots) => take_roots(&answer, &mut object)?,
            Self::Form(_) | Self::Plain(PlainQuestion::Url) => {
                self.take_elicited(&answer, &mut object)?
            }
        }
        object.close();
        Ok(out)
    }

    fn take_elicited(&self, answer: &Answer<'_>, object: &mut Object<'_>) -> Result<(), String> {
        let action = answer.text("action")?;
        if !matches!(&*action, "accept" | "decline" | "cancel") {
            return Err("`action` must be accept, decline or cancel".into());
        }
        object.string("action", &action);
        let Self::Form(form) = self else { return Ok(()) };
        if action != "accept" {
            return Ok(());
        }
        let Some(raw) = answer.member("content") else { return form.check(&Map::new()) };
        let Ok(Value::Object(content)) = json::from_slice(raw) else {
            return Err("`content` must be an object".into());
        };
        form.check(&content)?;
        let scanned = Answer::read(raw)?;
        let mut known = Object::open(object.key("content"));
        for member in &scanned.members {
            if form.names(&member.name(raw)) {
                known.copy(member.key.of(raw), member.value.of(raw));
            }
        }
        known.close();
        Ok(())
    }
}

impl Questions {
    /// Parses an `inputRequests`. Returns `None` if it is not an object, is too long for a sealed
    /// state, or has a method that clients cannot be asked.
    pub(crate) fn of(requests: &[u8]) -> Option<Self> {
        let Ok(Value::Object(all)) = json::from_slice(requests) else { return None };
        let mut questions = BTreeMap::new();
        for (key, request) in all {
            let method = Method::parse(request["method"].as_str().unwrap_or(""));
            questions.insert(key, Question::of(method, &request["params"])?);
        }
        let questions = Self(questions);
        if serde_json::to_vec(&questions).ok()?.len() > MAX_SEALED { None } else { Some(questions) }
    }

    /// Validates an `inputResponses` and keeps the answers to these questions. Missing answers are
    /// left to the server to reject.
    ///
    /// # Errors
    /// Describes the first flaw.
    pub(crate) fn take(&self, raw: &[u8]) -> Result<Vec<u8>, String> {
        take_each(raw, |key| self.0.get(key).cloned())
    }
}

/// Reads a question of a server: its method and the JSON text of its parameters.
pub(crate) fn read_question(question: &Value) -> (Method, String) {
    let method = Method::parse(question["method"].as_str().unwrap_or(""));
    (method, question.get("params").map_or_else(|| "{}".into(), Value::to_string))
}

/// Filters the answers to questions of a task, which only its server remembers: answers that fit no
/// kind of question are dropped.
///
/// # Errors
/// The answers are not a JSON object.
pub(crate) fn take_unremembered(raw: &[u8]) -> Result<Vec<u8>, String> {
    let all = Answer::read(raw)?;
    take_each(raw, |key| {
        let answer = all.member(key)?;
        let question = guess_question(answer)?;
        question.take(answer).ok()?;
        Some(question)
    })
}

/// Infers the kind of question from the members of an answer.
fn guess_question(answer: &[u8]) -> Option<Question> {
    let answer = Answer::read(answer).ok()?;
    Some(if answer.member("role").is_some() {
        Question::Plain(PlainQuestion::Sample)
    } else if answer.member("roots").is_some() {
        Question::Plain(PlainQuestion::Roots)
    } else {
        Question::Form(Form::any())
    })
}

fn take_each(raw: &[u8], question: impl Fn(&str) -> Option<Question>) -> Result<Vec<u8>, String> {
    let all = Answer::read(raw).map_err(|words| format!("`params.inputResponses`: {words}"))?;
    let mut out = Vec::with_capacity(raw.len());
    let mut object = Object::open(&mut out);
    for member in &all.members {
        let key = member.name(raw);
        let Some(question) = question(&key) else { continue };
        let answer = question.take(member.value.of(raw));
        let answer =
            answer.map_err(|words| format!("the answer {}: {words}", list::short(&key)))?;
        object.copy(member.key.of(raw), &answer);
    }
    object.close();
    Ok(out)
}

fn take_sampled(answer: &Answer<'_>, object: &mut Object<'_>) -> Result<(), String> {
    let role = answer.text("role")?;
    if !matches!(&*role, "user" | "assistant") {
        return Err("`role` must be user or assistant".into());
    }
    let content = answer.require("content")?;
    let is_content = match json::from_slice(content) {
        Ok(Value::Array(blocks)) => blocks.iter().all(is_block),
        Ok(block) => is_block(&block),
        Err(_) => false,
    };
    if !is_content {
        return Err("`content` must be a content block, or an array of them".into());
    }
    object.string("role", &role);
    object.raw("content", content);
    object.string("model", &answer.text("model")?);
    if answer.member("stopReason").is_some() {
        object.string("stopReason", &answer.text("stopReason")?);
    }
    Ok(())
}

fn is_block(block: &Value) -> bool {
    block["type"].is_string()
}

fn take_roots(answer: &Answer<'_>, object: &mut Object<'_>) -> Result<(), String> {
    let roots = answer.require("roots")?;
    let Ok(Value::Array(roots)) = json::from_slice(roots) else {
        return Err("`roots` must be an array".into());
    };
    let mut known = Vec::with_capacity(roots.len());
    for root in roots {
        let uri = root["uri"].as_str().filter(|uri| uri.starts_with("file://"));
        let uri = uri.ok_or("a root must have a `uri` that begins with file://")?;
        let mut new = Map::new();
        new.insert("uri".into(), uri.into());
        match root.get("name") {
            None => {}
            Some(Value::String(name)) => drop(new.insert("name".into(), name.as_str().into())),
            Some(_) => return Err("the `name` of a root must be a string".into()),
        }
        known.push(Value::Object(new));
    }
    object.raw("roots", Value::Array(known).to_string().as_bytes());
    Ok(())
}

struct Answer<'a> {
    raw: &'a [u8],
    members: Members,
}

impl<'a> Answer<'a> {
    fn read(raw: &'a [u8]) -> Result<Self, String> {
        if !raw.starts_with(b"{") {
            return Err("must be an object".into());
        }
        let (_, members) = scan_members(raw).map_err(|flaw| flaw.to_string())?;
        Ok(Self { raw, members })
    }

    fn member(&self, name: &str) -> Option<&'a [u8]> {
        Some(scan::find(&self.members, self.raw, name)?.of(self.raw))
    }

    fn require(&self, name: &str) -> Result<&'a [u8], String> {
        self.member(name).ok_or_else(|| format!("`{name}` is missing"))
    }

    fn text(&self, name: &str) -> Result<Cow<'a, str>, String> {
        if let Some(raw) = self.member(name)
            && let Some(text) = scan::as_str(raw)
        {
            return Ok(text);
        }
        Err(format!("`{name}` must be a string"))
    }
}

fn scan_members(raw: &[u8]) -> Result<(Span, Members), ScanError> {
    Scanner::new(raw, scan::MAX_DEPTH)?.members(Keys::Distinct)
}

#[cfg(test)]
mod tests;

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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Form {
    /// `None` if the schema is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    fields: Option<Map<String, Value>>,
    #[serde(default)]
    required: Vec<String>,
}

impl Form {
    fn of(schema: Option<&Value>) -> Self {
        let Some(schema) = schema else { return Self::any() };
        let Some(properties) = schema["properties"].as_object() else { return Self::any() };
        let mut fields = Map::new();
        fields.extend(properties.into_iter().map(|(name, field)| (name.clone(), field_of(field))));
        let required = schema["required"].as_array().into_iter().flatten();
        let required = required.filter_map(|name| Some(name.as_str()?.to_owned())).collect();
        Self { fields: Some(fields), required }
    }

    /// Returns a form of unknown schema, which accepts any flat content.
    fn any() -> Self {
        Self { fields: None, required: Vec::new() }
    }

    /// Returns whether the form has a field of this name. Other members are left out of an answer.
    fn names(&self, name: &str) -> bool {
        self.fields.as_ref().is_none_or(|fields| fields.contains_key(name))
    }

    fn check(&self, content: &Map<String, Value>) -> Result<(), String> {
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
    let constants = choices.iter().map(|choice| choice.get("const").cloned());
    constants.collect()
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
    schema["enum"].as_array().is_none_or(|choices| choices.contains(value))
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
