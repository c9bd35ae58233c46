//! `system/resources` and `system/read_resource`: resources for clients that only support tools.
//! Lists the same items as the caller's own `resources/list`; a read is authorised like the
//! caller's own `resources/read`.

use lockgate_upstream::ListKind;
use serde_json::{Value, json};

use super::caller_view;
use crate::tool::{Arguments, Client, Output, STRICT, Tool, ToolError, ToolSpec};

/// Maximum number of items per page.
const MAX_PAGE: u64 = 200;

pub(super) struct List;

impl Tool for List {
    fn spec(&self) -> ToolSpec {
        ToolSpec::new(
            "system/resources",
            "Resources",
            "Lists the resources and resource templates of all servers that you can see, with the \
                URI for `system/read_resource`. `next` is the `offset` of the next page, if any.",
        )
        .input(
            json!({
                "server": {
                    "type": "string",
                    "maxLength": 64,
                    "description": "Only those of this server",
                },
                "offset": {"type": "integer", "minimum": 0, "default": 0},
                "limit": {"type": "integer", "minimum": 1, "maximum": MAX_PAGE, "default": 50},
            }),
            &[],
        )
        .output(
            json!({
                "count": {"type": "integer"},
                "resources": {"type": "array", "items": {"type": "object"}},
                "next": {"type": "integer"},
            }),
            &["count", "resources"],
        )
        .tags(&["system"])
    }

    async fn run(&self, arguments: Arguments, client: Client<'_>) -> Result<Output, ToolError> {
        let caller_view = caller_view(&client)?;
        let server = arguments.maybe_text("server");
        let offset = arguments.count("offset")?;
        let limit = arguments.count("limit")?;
        let mut all = Vec::new();
        for kind in [ListKind::Resources, ListKind::Templates] {
            for seen in caller_view.items(kind) {
                match server {
                    Some(server) if *seen.slug != *server => {}
                    _ => all.push((kind, seen)),
                }
            }
        }
        let mut page = Vec::new();
        for (kind, seen) in all.iter().skip(offset).take(limit) {
            let Ok(mut item) = serde_json::from_slice::<Value>(&seen.text) else { continue };
            let mut entry = json!({"server": &*seen.slug, kind.key(): &*seen.exposed});
            for key in ["name", "title", "description", "mimeType", "size"] {
                if let Some(value) = item.get_mut(key) {
                    entry[key] = value.take();
                }
            }
            page.push(entry);
        }
        let end = offset.saturating_add(limit);
        let mut result = json!({"count": all.len(), "resources": page});
        if end < all.len() {
            result["next"] = end.into();
        }
        Ok(result.into())
    }
}

pub(super) struct Read;

impl Tool for Read {
    fn spec(&self) -> ToolSpec {
        ToolSpec::new(
            "system/read_resource",
            "Read a resource",
            "Reads one resource by a URI from `system/resources`, or one made from a template \
                there. Returns its contents: `text`, or `blob` in base64.",
        )
        .input(json!({"uri": {"type": "string", "minLength": 1, "maxLength": 4096}}), &["uri"])
        .output(json!({"contents": {"type": "array", "items": {"type": "object"}}}), &["contents"])
        .tags(&["system"])
        .asks_servers()
    }

    async fn run(&self, arguments: Arguments, client: Client<'_>) -> Result<Output, ToolError> {
        let result = caller_view(&client)?.read(arguments.text("uri")?).await?;
        let Ok(mut result) = STRICT.read(&result) else {
            return Err(ToolError::new("the server's answer cannot be read"));
        };
        match result.get_mut("contents") {
            Some(contents) => Ok(json!({"contents": contents.take()}).into()),
            None => Err(ToolError::new("the server requires input before it answers")),
        }
    }
}
