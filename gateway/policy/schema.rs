//! Checks the arguments of a call against the `inputSchema` of its tool, as declared by the server.
//! A schema that could cost more than its length suggests (because it refers to itself, or to the
//! same part repeatedly) is refused, because servers are not trusted with the gateway's time.

use std::collections::HashMap;

use jsonschema::{Draft, PatternOptions, Validator};
use lockgate_text::json;
use lockgate_text::json::Reader;
use serde_json::Value;

use crate::names::{find_near, is_listed};
use crate::{Refusal, no};

/// Maximum number of parts of a schema, each counted once per reference.
const MAX_PARTS: usize = 10_000;
/// Maximum number of patterns in a schema.
const MAX_PATTERNS: usize = 64;
/// Maximum compiled size of a pattern, in bytes.
const MAX_PATTERN_SIZE: usize = 256 * 1024;
/// Maximum nesting of references.
const MAX_REFERENCES: usize = 32;
/// Maximum nesting of arguments.
const MAX_DEPTH: usize = 128;

/// The compiled `inputSchema` of a tool.
#[derive(Debug)]
pub struct InputSchema(Validator);

impl InputSchema {
    /// Compiles the JSON text of a schema.
    ///
    /// # Errors
    /// Returns why the schema cannot be used.
    pub fn compile(schema: &[u8]) -> Result<Self, String> {
        let Ok(schema) = json::from_slice::<Value>(schema) else {
            return Err("it is not JSON".to_owned());
        };
        let draft = schema.get("$schema").and_then(Value::as_str).unwrap_or("");
        if draft.contains("draft-03") || draft.contains("draft-04") {
            return Err("it uses a draft in which `id` changes the meaning of references".into());
        }
        let mut count =
            Count { root: &schema, open: Vec::new(), known: HashMap::new(), patterns: 0 };
        count.parts(&schema)?;
        let options = jsonschema::options()
            .offline()
            .with_pattern_options(PatternOptions::regex().size_limit(MAX_PATTERN_SIZE));
        options.build(&schema).map(Self).map_err(|error| short(&error.to_string()))
    }

    /// Checks the JSON text of a call's arguments.
    ///
    /// # Errors
    /// Returns the first mistake, with its position as a JSON Pointer.
    pub fn check(&self, arguments: &[u8]) -> Result<(), Refusal> {
        let arguments = Reader::exact(MAX_DEPTH)
            .read(arguments)
            .map_err(|words| Refusal(format!("the arguments cannot be read: {words}")))?;
        let Err(error) = self.0.validate(&arguments) else { return Ok(()) };
        let at = error.instance_path().to_string();
        let at = if at.is_empty() { "/".to_owned() } else { short(&at) };
        // Masked, because policies may have set values that the caller must not see.
        let words = short(&error.masked().to_string());
        no(format!("the arguments do not match the tool's inputSchema at {at}: {words}"))
    }
}

struct Count<'a> {
    root: &'a Value,
    /// The references being followed.
    open: Vec<&'a str>,
    /// The number of parts behind each reference.
    known: HashMap<&'a str, usize>,
    patterns: usize,
}

impl<'a> Count<'a> {
    fn parts(&mut self, schema: &'a Value) -> Result<usize, String> {
        let mut parts = 1;
        match schema {
            Value::Object(members) => {
                for (name, value) in members {
                    self.count_patterns(name, value)?;
                    parts += match (name.as_str(), value) {
                        ("$ref", Value::String(target)) => self.referred(target)?,
                        ("$dynamicRef" | "$recursiveRef", _) => {
                            return Err(format!("it has `{name}`"));
                        }
                        ("$id", _) if !std::ptr::eq(schema, self.root) => {
                            return Err("a part of it has an `$id`".to_owned());
                        }
                        _ => self.parts(value)?,
                    };
                }
            }
            Value::Array(values) => {
                for value in values {
                    parts += self.parts(value)?;
                }
            }
            _ => {}
        }
        if parts > MAX_PARTS {
            return Err(format!("it has more than {MAX_PARTS} parts, including referenced parts"));
        }
        Ok(parts)
    }

    fn count_patterns(&mut self, name: &str, value: &Value) -> Result<(), String> {
        self.patterns += match (name, value) {
            ("pattern", Value::String(_)) => 1,
            ("patternProperties", Value::Object(members)) => members.len(),
            _ => 0,
        };
        if self.patterns > MAX_PATTERNS {
            return Err(format!("it has more than {MAX_PATTERNS} patterns"));
        }
        Ok(())
    }

    fn referred(&mut self, target: &'a str) -> Result<usize, String> {
        // Implementations differ on the meaning of a reference with escapes.
        if target.contains('%') {
            return Err(format!("`{}` has an escape", short(target)));
        }
        if let Some(parts) = self.known.get(target) {
            return Ok(*parts);
        }
        if self.open.contains(&target) || self.open.len() >= MAX_REFERENCES {
            return Err("it refers to itself, or its references are nested too deeply".to_owned());
        }
        let found = target.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
        let Some(found) = found else {
            return Err(format!("`{}` is not a part of it", short(target)));
        };
        self.open.push(target);
        let parts = self.parts(found)?;
        self.open.pop();
        self.known.insert(target, parts);
        Ok(parts)
    }
}

// Checks of a single argument against the schema (2020-12) of a policy. References to other
// documents are mistakes, because nothing is fetched.

const MAX_BYTES: usize = 64 * 1024;
/// Maximum length of an error message, in characters.
const MAX_WORDS: usize = 300;
/// Keywords of 2020-12 by the form of their value: a schema, a list of schemas, or schemas by name.
const ONE: &str = "additionalProperties contains contentSchema else if items not propertyNames \
    then unevaluatedItems unevaluatedProperties";
const LIST: &str = "allOf anyOf oneOf prefixItems";
const NAMED: &str = "$defs definitions dependentSchemas patternProperties properties";
/// All other keywords.
const PLAIN: &str = "$anchor $comment $dynamicAnchor $dynamicRef $id $ref $schema const \
    contentEncoding contentMediaType default dependentRequired deprecated description enum \
    examples exclusiveMaximum exclusiveMinimum format maxContains maxItems maxLength maxProperties \
    maximum minContains minItems minLength minProperties minimum multipleOf pattern readOnly \
    required title type uniqueItems writeOnly";

pub(crate) fn compile(schema: &Value) -> Result<Validator, String> {
    if schema.to_string().len() > MAX_BYTES {
        return Err(format!("is longer than {MAX_BYTES} bytes"));
    }
    known(schema)?;
    let options = jsonschema::options()
        .with_draft(Draft::Draft202012)
        .offline()
        .should_validate_formats(true)
        .should_ignore_unknown_formats(false)
        .with_pattern_options(PatternOptions::regex().size_limit(1 << 20));
    options
        .build(schema)
        .map_err(|error| format!("is not a valid schema: {}", short(&error.to_string())))
}

/// Checks that all keywords exist: a misspelled keyword would allow everything it should refuse.
fn known(schema: &Value) -> Result<(), String> {
    let Value::Object(members) = schema else { return Ok(()) };
    for (name, value) in members {
        match value {
            schema if is_listed(ONE, name) => known(schema)?,
            Value::Array(schemas) if is_listed(LIST, name) => schemas.iter().try_for_each(known)?,
            Value::Object(schemas) if is_listed(NAMED, name) => {
                schemas.values().try_for_each(known)?;
            }
            _ if [LIST, NAMED, PLAIN].iter().any(|list| is_listed(list, name)) => {}
            _ => return Err(unknown(name)),
        }
    }
    Ok(())
}

fn unknown(name: &str) -> String {
    let all = [ONE, LIST, NAMED, PLAIN].join(" ");
    let hint = match find_near(name, &Vec::from_iter(all.split(' '))) {
        Some(near) => format!("; did you mean `{near}`?"),
        None => String::new(),
    };
    format!("has the keyword `{}`, which JSON Schema 2020-12 does not have{hint}", short(name))
}

pub(crate) fn check(schema: &Validator, value: &Value) -> Result<(), Refusal> {
    let Err(error) = schema.validate(value) else { return Ok(()) };
    let at = error.instance_path().to_string();
    let at = if at.is_empty() { String::new() } else { format!(" at {at}") };
    no(format!("does not match the schema{at}: {}", short(&error.to_string())))
}

pub(crate) fn short(words: &str) -> String {
    words.chars().take(MAX_WORDS).collect()
}

#[cfg(test)]
mod tests;
