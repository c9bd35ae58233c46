//! The resources and the template of the conformance suite, all held in memory.

use std::sync::atomic::Ordering;

use rmcp::{
    ErrorData,
    model::{Resource, ResourceContents, ResourceTemplate},
};
use serde_json::json;

use crate::shared::Shared;

/// A PNG image of a single red pixel.
pub(crate) const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";
pub(crate) const TEMPLATE: &str = "test://template/{id}/data";
pub(crate) const WATCHED: &str = "test://watched-resource";
const EXTRA: &str = "test://extra-resource";

const TEXTS: [(&str, &str, &str, &str, &str); 5] = [
    (
        "test://static-text",
        "static-text",
        "A text that never changes",
        "text/plain",
        "This is the content of the static text resource.",
    ),
    (
        WATCHED,
        "watched-resource",
        "A text to subscribe to",
        "text/plain",
        "This is the content of the watched resource.",
    ),
    (
        "test://embedded-resource",
        "embedded-resource",
        "The resource that a tool embeds",
        "text/plain",
        "This is an embedded resource content.",
    ),
    (
        "test://mixed-content-resource",
        "mixed-content-resource",
        "The resource in a mixed tool result",
        "application/json",
        r#"{"test":"data","value":123}"#,
    ),
    (
        "test://example-resource",
        "example-resource",
        "The resource that a prompt embeds",
        "text/plain",
        "Embedded resource content for testing.",
    ),
];

pub(crate) fn list(shared: &Shared) -> Vec<Resource> {
    let mut resources: Vec<Resource> = TEXTS
        .iter()
        .map(|(uri, name, description, media_type, _)| {
            Resource::new(*uri, *name).with_description(*description).with_mime_type(*media_type)
        })
        .collect();
    resources.push(
        Resource::new("test://static-binary", "static-binary")
            .with_description("A picture that never changes")
            .with_mime_type("image/png"),
    );
    if shared.extra_resource.load(Ordering::SeqCst) {
        resources.push(
            Resource::new(EXTRA, "extra-resource").with_description("A text that comes and goes"),
        );
    }
    resources
}

pub(crate) fn templates() -> Vec<ResourceTemplate> {
    vec![
        ResourceTemplate::new(TEMPLATE, "template")
            .with_description("Data for an id")
            .with_mime_type("application/json"),
    ]
}

pub(crate) fn read(shared: &Shared, uri: &str) -> Result<ResourceContents, ErrorData> {
    if let Some((_, _, _, media_type, text)) = TEXTS.iter().find(|text| text.0 == uri) {
        return Ok(ResourceContents::text(*text, uri).with_mime_type(*media_type));
    }
    if uri == "test://static-binary" {
        return Ok(ResourceContents::blob(PIXEL, uri).with_mime_type("image/png"));
    }
    if uri == EXTRA && shared.extra_resource.load(Ordering::SeqCst) {
        return Ok(ResourceContents::text("Here today.", uri));
    }
    let id = uri
        .strip_prefix("test://template/")
        .and_then(|rest| rest.strip_suffix("/data"))
        .filter(|id| !id.is_empty() && !id.contains('/'));
    match id {
        Some(id) => {
            let data =
                json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")});
            Ok(ResourceContents::text(data.to_string(), uri).with_mime_type("application/json"))
        }
        None => {
            Err(ErrorData::resource_not_found("Resource not found", Some(json!({ "uri": uri }))))
        }
    }
}
