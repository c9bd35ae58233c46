//! Tools that return each kind of content immediately.

use std::sync::Arc;

use rmcp::model::{CallToolResult, ContentBlock, Resource, ResourceContents, Tool};
use serde_json::json;

use super::{Answer, plain, text};
use crate::resources::PIXEL;

/// A WAV file without samples.
const SILENCE: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA=";

pub(super) fn list() -> Vec<Tool> {
    vec![
        plain("test_simple_text", "Answers with a text"),
        plain("test_image_content", "Answers with an image"),
        plain("test_audio_content", "Answers with a sound"),
        plain("test_embedded_resource", "Answers with a resource"),
        plain("test_multiple_content_types", "Answers with a text, an image and a resource"),
        plain("test_error_handling", "Always fails"),
        structured(),
        plain("test_resource_link", "Answers with a link to a resource"),
    ]
}

pub(super) fn call(name: &str) -> Option<Answer> {
    let image = || ContentBlock::image(PIXEL, "image/png");
    let content = match name {
        "test_simple_text" => return Some(text("This is a simple text response for testing.")),
        "test_image_content" => vec![image()],
        "test_audio_content" => vec![ContentBlock::audio(SILENCE, "audio/wav")],
        "test_embedded_resource" => {
            vec![resource(
                "test://embedded-resource",
                "text/plain",
                "This is an embedded resource content.",
            )]
        }
        "test_multiple_content_types" => vec![
            ContentBlock::text("Multiple content types test:"),
            image(),
            resource(
                "test://mixed-content-resource",
                "application/json",
                r#"{"test":"data","value":123}"#,
            ),
        ],
        "test_structured_content" => {
            return Some(Ok(CallToolResult::structured(json!({"answer": 42})).into()));
        }
        "test_resource_link" => {
            let link = Resource::new("test://static-text", "static-text");
            vec![ContentBlock::resource_link(link)]
        }
        "test_error_handling" => {
            let words = "This tool intentionally returns an error for testing";
            return Some(Ok(CallToolResult::error(vec![ContentBlock::text(words)]).into()));
        }
        _ => return None,
    };
    Some(Ok(CallToolResult::success(content).into()))
}

fn structured() -> Tool {
    let schema = json!({"type": "object", "properties": {"answer": {"type": "integer"}},
        "required": ["answer"]});
    let schema = schema.as_object().cloned().unwrap_or_default();
    plain("test_structured_content", "Answers with structured content")
        .with_raw_output_schema(Arc::new(schema))
}

fn resource(uri: &str, media_type: &str, text: &str) -> ContentBlock {
    ContentBlock::resource(ResourceContents::text(text, uri).with_mime_type(media_type))
}
