//! The prompts of the conformance suite, and a prompt that can be added and removed.

use std::sync::atomic::Ordering;

use rmcp::{
    ErrorData,
    model::{
        ContentBlock, GetPromptResponse, GetPromptResult, JsonObject, Prompt, PromptArgument,
        PromptMessage, ResourceContents, Role,
    },
};
use serde_json::json;

use crate::{
    call::{Asked, Call},
    resources::PIXEL,
    shared::Shared,
};

const WITH_ARGUMENTS: &str = "test_prompt_with_arguments";
const WITH_RESOURCE: &str = "test_prompt_with_embedded_resource";
const EXTRA: &str = "test_extra_prompt";

pub(crate) fn list(shared: &Shared) -> Vec<Prompt> {
    let argument = |name: &str, description: &str| {
        PromptArgument::new(name).with_description(description).with_required(true)
    };
    let mut prompts = vec![
        Prompt::new("test_simple_prompt", Some("A prompt without arguments"), None),
        Prompt::new(
            WITH_ARGUMENTS,
            Some("A prompt that repeats its two arguments"),
            Some(vec![argument("arg1", "First argument"), argument("arg2", "Second argument")]),
        ),
        Prompt::new(
            WITH_RESOURCE,
            Some("A prompt that embeds a resource"),
            Some(vec![argument("resourceUri", "URI of the resource to embed")]),
        ),
        Prompt::new("test_prompt_with_image", Some("A prompt with an image"), None),
        Prompt::new(
            "test_input_required_result_prompt",
            Some("A prompt that asks the user for context first"),
            None,
        ),
    ];
    if shared.extra_prompt.load(Ordering::SeqCst) {
        prompts.push(Prompt::new(EXTRA, Some("A prompt that comes and goes"), None));
    }
    prompts
}

pub(crate) fn is_known(name: &str) -> bool {
    [WITH_ARGUMENTS, WITH_RESOURCE].contains(&name)
}

pub(crate) async fn get(
    call: &Call,
    name: &str,
    arguments: &JsonObject,
) -> Result<GetPromptResponse, ErrorData> {
    let argument = |key: &str| {
        arguments
            .get(key)
            .and_then(|value| value.as_str())
            .ok_or_else(|| ErrorData::invalid_params(format!("missing argument: {key}"), None))
    };
    let messages = match name {
        "test_simple_prompt" => vec![text("This is a simple prompt for testing.")],
        WITH_ARGUMENTS => {
            vec![text(&format!(
                "Prompt with arguments: arg1='{}', arg2='{}'",
                argument("arg1")?,
                argument("arg2")?
            ))]
        }
        WITH_RESOURCE => {
            let resource = ResourceContents::text(
                "Embedded resource content for testing.",
                argument("resourceUri")?,
            )
            .with_mime_type("text/plain");
            vec![
                PromptMessage::new(Role::User, ContentBlock::resource(resource)),
                text("Please process the embedded resource above."),
            ]
        }
        "test_prompt_with_image" => vec![
            PromptMessage::new(Role::User, ContentBlock::image(PIXEL, "image/png")),
            text("Please analyze the image above."),
        ],
        "test_input_required_result_prompt" => return with_context(call).await,
        EXTRA if call.shared.extra_prompt.load(Ordering::SeqCst) => vec![text("Here today.")],
        _ => {
            return Err(ErrorData::invalid_params(format!("unknown prompt: {name}"), None));
        }
    };
    Ok(GetPromptResult::new(messages).into())
}

async fn with_context(call: &Call) -> Result<GetPromptResponse, ErrorData> {
    let question = json!({"method": "elicitation/create", "params": {
        "message": "What context should the prompt use?",
        "requestedSchema": {
            "type": "object",
            "properties": {"context": {"type": "string"}},
            "required": ["context"]
        }
    }});
    match call.ask(&[("user_context", question)], None).await? {
        Asked::Pending(pending) => Ok(pending.into()),
        Asked::Answered(answers) => {
            let context = answers.field("user_context", "context");
            Ok(GetPromptResult::new(vec![text(&format!("Use this context: {context}"))]).into())
        }
    }
}

fn text(text: &str) -> PromptMessage {
    PromptMessage::new_text(Role::User, text)
}
