//! Results of calls: of tools, prompts, resources and completions, within their size limit.

use std::time::Duration;

use lockgate_protocol::code;
use lockgate_protocol::key::Key;
use lockgate_protocol::method::Method;
use lockgate_upstream::Call;
use serde_json::{Map, Value, json};

use super::{PayloadError, Server};
use crate::provider::CompletionTarget;
use crate::registry::{CallOutcome, DEFAULT_ORGANISATION, RegisteredTool};
use crate::tool::{Arguments, Client, Effect, MAX_TIMEOUT, Output, STRICT, ToolError, ToolSpec};

/// Maximum number of values of a completion.
const MAX_VALUES: usize = 100;

impl Server {
    pub(super) async fn answer_call(&self, call: &Call<'_>) -> Result<Value, PayloadError> {
        match call.method() {
            Method::ToolsCall => Ok(self.call_tool(call).await?),
            Method::PromptsGet => Ok(self.get_prompt(call)?),
            Method::ResourcesRead => self.read_resource(call).await,
            Method::Complete => Ok(self.complete_argument(call)?),
            other => {
                let words = format!("method not found: {}", other.as_str());
                Err(PayloadError { code: code::METHOD_NOT_FOUND, words })
            }
        }
    }

    async fn call_tool(&self, call: &Call<'_>) -> Result<Value, String> {
        let Some(entry) = self.by_name.get(call.target) else {
            return Err(format!("unknown tool: {}", call.target));
        };
        let arguments = read_object(call, Key::Arguments)?;
        let client = Client { channel: call.channel.clone(), caller_view: call.caller_view };
        let mut run = entry.begin(client.organisation().unwrap_or(DEFAULT_ORGANISATION));
        let limit = call.timeout.unwrap_or(entry.spec.timeout).min(MAX_TIMEOUT);
        let result = match entry.input.check(arguments.into()) {
            Ok(arguments) => run_tool(entry, Arguments(arguments), client, limit).await,
            Err(words) => Err(ToolError(words)),
        };
        match result {
            Ok(result) => {
                run.ended = CallOutcome::Success;
                Ok(result)
            }
            Err(error) => {
                run.ended = CallOutcome::Failure;
                Ok(json!({"content": [{"type": "text", "text": error.0}], "isError": true}))
            }
        }
    }

    fn get_prompt(&self, call: &Call<'_>) -> Result<Value, String> {
        let Some(provider) = &self.provider else {
            return Err(format!("unknown prompt: {}", call.target));
        };
        let arguments = read_object(call, Key::Arguments)?;
        provider.prompt(call.target, &arguments)
    }

    async fn read_resource(&self, call: &Call<'_>) -> Result<Value, PayloadError> {
        let read = match &self.provider {
            Some(provider) => provider.read(call.target).await,
            None => Ok(None),
        };
        match read {
            Ok(Some(contents)) => Ok(contents.result()),
            Ok(None) => Err("resource not found".to_owned().into()),
            Err(words) => Err(PayloadError { code: code::INTERNAL, words }),
        }
    }

    fn complete_argument(&self, call: &Call<'_>) -> Result<Value, String> {
        let reference = read_object(call, Key::Ref)?;
        let argument = read_object(call, Key::Argument)?;
        let target = match text_of(&reference, "type") {
            "ref/prompt" => CompletionTarget::Prompt(call.target),
            "ref/resource" => CompletionTarget::Resource(call.target),
            _ => return Err("`params.ref` must be a ref/prompt or a ref/resource".into()),
        };
        let name = text_of(&argument, "name");
        let provider = self.provider.as_ref();
        let mut values = provider.map(|all| all.values(target, name)).unwrap_or_default();
        let typed = text_of(&argument, "value").to_lowercase();
        values.retain(|value| value.to_lowercase().starts_with(&typed));
        let total = values.len();
        values.truncate(MAX_VALUES);
        Ok(json!({"completion": {"values": values, "total": total, "hasMore": total > MAX_VALUES}}))
    }
}

async fn run_tool(
    entry: &RegisteredTool,
    arguments: Arguments,
    client: Client<'_>,
    limit: Duration,
) -> Result<Value, ToolError> {
    match tokio::time::timeout(limit, entry.tool.start(arguments, client)).await {
        Ok(output) => build_result(output?, entry.spec.cap),
        Err(_) => Err(timeout_error(&entry.spec, limit)),
    }
}

fn timeout_error(spec: &ToolSpec, limit: Duration) -> ToolError {
    let done = match spec.effect {
        Effect::Reads => "",
        Effect::Writes { .. } => " It may have changed something: check before you call it again.",
    };
    let name = &spec.name;
    ToolError(format!(
        "`{name}` did not end within {} s, its time limit, and was stopped. Request less at once, \
            such as a narrower scope or fewer results, or try again later.{done}",
        limit.as_secs_f64()
    ))
}

/// Reads an object from `params`, with the policy's replacements. Empty if absent.
fn read_object(call: &Call<'_>, key: Key) -> Result<Map<String, Value>, String> {
    let Some(text) = call.param(key) else { return Ok(Map::new()) };
    match STRICT.read(text) {
        Ok(Value::Object(all)) => Ok(all),
        Ok(_) => Err(format!("`params.{key}` must be an object")),
        Err(words) => Err(format!("`params.{key}`: {words}")),
    }
}

/// Returns a string member; empty if absent or of another type.
fn text_of<'a>(object: &'a Map<String, Value>, name: &str) -> &'a str {
    match object.get(name) {
        Some(Value::String(text)) => text,
        _ => "",
    }
}

/// Builds the result of `tools/call`, within its size limit.
fn build_result(output: Output, cap: usize) -> Result<Value, ToolError> {
    let text = output.text.unwrap_or_else(|| output.structured.to_string());
    let result = json!({
        "content": [{"type": "text", "text": text}],
        "structuredContent": output.structured,
        "isError": false,
    });
    let size = result.to_string().len();
    if size > cap {
        return Err(ToolError(format!(
            "the result has {size} bytes and at most {cap} are possible; request less"
        )));
    }
    Ok(result)
}
