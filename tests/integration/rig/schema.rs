//! The published schemas of each revision, from `schemas/`, without their descriptions. Each
//! message to a client must be valid in the client's revision.

use std::collections::HashMap;

use jsonschema::Validator;
use serde_json::{Value, json};

/// The revisions, oldest first, with their schemas.
const PUBLISHED: [(&str, &str); 5] = [
    ("2024-11-05", include_str!("../schemas/2024-11-05.json")),
    ("2025-03-26", include_str!("../schemas/2025-03-26.json")),
    ("2025-06-18", include_str!("../schemas/2025-06-18.json")),
    ("2025-11-25", include_str!("../schemas/2025-11-25.json")),
    ("2026-07-28", include_str!("../schemas/2026-07-28.json")),
];

pub struct Schema {
    revision: &'static str,
    root: Value,
    /// The key of the definitions.
    key: &'static str,
    compiled: HashMap<String, Validator>,
}

impl Schema {
    pub fn of(revision: &str) -> Self {
        let published = PUBLISHED.iter().find(|(name, _)| *name == revision);
        let (revision, text) = published.expect("a known revision");
        let root: Value = serde_json::from_str(text).expect("a schema");
        let key = if root.get("$defs").is_some() { "$defs" } else { "definitions" };
        Self { revision, root, key, compiled: HashMap::new() }
    }

    /// Checks a message to a client: a notification, a question, an error, or the result of a
    /// request with this method.
    ///
    /// # Errors
    /// The validation errors and the message.
    pub fn check(&mut self, method: &str, message: &Value) -> Result<(), String> {
        self.check_as("JSONRPCMessage", message)?;
        let is_request = message.get("id").is_some();
        match (message.get("method").and_then(Value::as_str), message.get("result")) {
            // The tasks extension is not part of the core schema.
            (Some("notifications/tasks"), _) => Ok(()),
            (Some(_), _) if is_request => self.check_as("ServerRequest", message),
            (Some(_), _) => self.check_as("ServerNotification", message),
            (None, Some(result)) => match self.result_of(method, result) {
                Some(name) => self.check_as(name, result),
                None => Ok(()),
            },
            (None, None) => {
                let name = if self.revision < "2025-11-25" {
                    "JSONRPCError"
                } else {
                    "JSONRPCErrorResponse"
                };
                self.check_as(name, message)
            }
        }
    }

    fn result_of(&self, method: &str, result: &Value) -> Option<&'static str> {
        match result.get("resultType").and_then(Value::as_str) {
            Some("input_required") => return Some("InputRequiredResult"),
            Some("task") => return None,
            _ => {}
        }
        Some(match method {
            "initialize" => "InitializeResult",
            "server/discover" => "DiscoverResult",
            "tools/list" => "ListToolsResult",
            "tools/call" => "CallToolResult",
            "prompts/list" => "ListPromptsResult",
            "prompts/get" => "GetPromptResult",
            "resources/list" => "ListResourcesResult",
            "resources/templates/list" => "ListResourceTemplatesResult",
            "resources/read" => "ReadResourceResult",
            "completion/complete" => "CompleteResult",
            _ => return None,
        })
    }

    fn check_as(&mut self, name: &str, value: &Value) -> Result<(), String> {
        if !self.compiled.contains_key(name) {
            let mut schema = self.root.clone();
            schema["$ref"] = json!(format!("#/{}/{name}", self.key));
            // In draft 7, `$ref` hides its sibling keywords except the definitions.
            let validator = jsonschema::validator_for(&schema).expect("a schema that compiles");
            self.compiled.insert(name.to_owned(), validator);
        }
        let errors: Vec<String> = self.compiled[name]
            .iter_errors(value)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        if errors.is_empty() {
            Ok(())
        } else {
            let errors = errors.join("; ");
            Err(format!("{} has no such {name}: {errors:.600} in {value:.600}", self.revision))
        }
    }
}
