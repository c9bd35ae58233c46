//! `file/list`: the contents of a folder, paginated. Links are listed as links and never followed.

use serde_json::{Value, json};

use super::place::{Files, describe, entry_schema, kind, path_schema};
use super::walk::{Next, Walk};
use crate::blocking::CancellationToken;
use crate::tool::{Arguments, Output, ToolError, ToolSpec, list_schema};

const MAX_PAGE: u64 = 1000;

pub(super) fn spec(_: &Files) -> ToolSpec {
    ToolSpec::new(
        "file/list",
        "List a folder",
        "Lists the contents of a folder by name; with `recursive` also those of the folders \
            in it. Without `path` it lists the first root and names all of them. Names that \
            begin with a dot are left out unless `hidden`. `next` is the `offset` of the next \
            page, if any; `partial` means that some entries were skipped.",
    )
    .input(
        json!({
            "path": path_schema("The folder"),
            "recursive": {"type": "boolean", "default": false},
            "hidden": {"type": "boolean", "default": false},
            "metadata": {
                "type": "boolean",
                "default": true,
                "description": "Sizes and dates besides path and type",
            },
            "offset": {"type": "integer", "minimum": 0, "default": 0},
            "limit": {"type": "integer", "minimum": 1, "maximum": MAX_PAGE, "default": 200},
        }),
        &[],
    )
    .output(
        json!({
            "path": {"type": "string"},
            "entries": list_schema(entry_schema(), &["path", "type"]),
            "roots": roots_schema(),
            "next": {"type": "integer"},
            "partial": {"type": "boolean"},
        }),
        &["path", "entries", "partial"],
    )
}

fn roots_schema() -> Value {
    let root = json!({"path": {"type": "string"}, "write": {"type": "boolean"}});
    list_schema(root, &["path", "write"])
}

pub(super) fn list(
    files: &Files,
    arguments: &Arguments,
    stop: &CancellationToken,
) -> Result<Output, ToolError> {
    let place = files.find(arguments.maybe_text("path").unwrap_or("."))?;
    let offset = arguments.count("offset")?;
    let limit = arguments.count("limit")?;
    let recursive = arguments.flag("recursive");
    let hidden = arguments.flag("hidden");
    let metadata = arguments.flag("metadata");
    let mut at = 0_usize;
    let mut more = false;
    let mut entries = Vec::new();
    // Whether names were omitted that no rule denies.
    let mut odd = false;
    let mut walk = Walk::new(stop, files.config.limits.entries);
    walk.run(&place, &mut |found| {
        let path = place.below(found.names);
        if !hidden && found.name().starts_with('.') {
            return Ok(Next::Past);
        }
        if !files.is_readable(&path) {
            odd |= files.is_odd(&path);
            return Ok(Next::Past);
        }
        if entries.len() == limit {
            more = true;
            return Ok(Next::End);
        }
        if at >= offset {
            entries.push(if metadata {
                describe(&path, &found.stat)
            } else {
                json!({"path": path, "type": kind(&found.stat)})
            });
        }
        at += 1;
        Ok(if recursive { Next::On } else { Next::Past })
    })?;
    let mut result =
        json!({"path": place.path, "entries": entries, "partial": walk.partial || odd});
    if arguments.maybe_text("path").is_none() {
        let mut roots = Vec::new();
        for root in &files.roots {
            roots.push(json!({"path": root.path, "write": root.write}));
        }
        result["roots"] = roots.into();
    }
    if more {
        result["next"] = at.into();
    }
    Ok(result.into())
}
