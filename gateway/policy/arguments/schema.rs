//! An argument held against a JSON Schema (2020-12). References to other documents are mistakes: nothing is fetched.

use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::Value;

use crate::Refusal;

const MAX_BYTES: usize = 64 * 1024;
const MAX_WORDS: usize = 300;

pub(crate) fn compile(schema: &Value) -> Result<Validator, String> {
    if schema.to_string().len() > MAX_BYTES {
        return Err(format!("is longer than {MAX_BYTES} bytes"));
    }
    let options = jsonschema::options()
        .with_draft(Draft::Draft202012)
        .offline()
        .should_validate_formats(true)
        .with_pattern_options(PatternOptions::regex().size_limit(1 << 20));
    options.build(schema).map_err(|error| format!("is no schema: {}", short(&error.to_string())))
}

pub(crate) fn check(schema: &Validator, value: &Value) -> Result<(), Refusal> {
    schema.validate(value).map_err(|error| {
        let at = error.instance_path().to_string();
        let at = if at.is_empty() { String::new() } else { format!(" at {at}") };
        Refusal(format!("does not fit the schema{at}: {}", short(&error.to_string())))
    })
}

fn short(words: &str) -> String {
    words.chars().take(MAX_WORDS).collect()
}
