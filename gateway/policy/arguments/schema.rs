//! Checks an argument against a JSON Schema (2020-12). References to other documents are mistakes,
//! because nothing is fetched.

use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::Value;

use crate::names::{find_near, is_listed};
use crate::{Refusal, no};

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
