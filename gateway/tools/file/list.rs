//! `file/list`: the contents of a folder, paginated. `file/stat`: the attributes of a file or
//! folder. Links are shown as links and never followed.

use lockgate_text::date;
use serde_json::json;

use super::place::{FileCall, Files, describe, kind, path_schema};
use super::root::look;
use super::walk::{Next, visit_readable};
use crate::tool::{Output, ToolError, ToolSpec, list_schema};

const MAX_PAGE: u64 = 1000;

pub(super) fn list_spec(_: &Files) -> ToolSpec {
    ToolSpec::new(
        "file/list",
        "List a folder",
        "Lists the contents of a folder by name; with `recursive` also those of the folders \
            in it. Without `path` it lists the first root and names all of them. Names that \
            begin with a dot are left out unless `hidden`. `next` is the `offset` of the next \
            page, if any; `partial` means that some entries were skipped.",
    )
    .input(json!({
        "path?": path_schema("The folder"), "recursive?": false,
        "hidden?": false,
        "metadata?": {
            "type": "boolean", "default": true,
            "description": "Sizes and dates besides path and type",
        },
        "offset?": {"type": "integer", "minimum": 0, "default": 0},
        "limit?": {"type": "integer", "minimum": 1, "maximum": MAX_PAGE, "default": 200},
    }))
    .output(json!({
        "path": "string",
        "entries": list_schema(json!({
            "path": "string", "type": "string", "size?": "integer", "modified?": "string",
            "mimeType?": "string",
        })),
        "roots?": list_schema(json!({"path": "string", "write": "boolean"})),
        "next?": "integer", "partial": "boolean",
    }))
}

pub(super) fn list(call: &FileCall<'_>) -> Result<Output, ToolError> {
    let FileCall { files, arguments, .. } = *call;
    let place = files.find(arguments.maybe_text("path").unwrap_or("."))?;
    let offset = arguments.count("offset")?;
    let limit = arguments.count("limit")?;
    let recursive = arguments.flag("recursive");
    let metadata = arguments.flag("metadata");
    let mut at = 0_usize;
    let mut more = false;
    let mut entries = Vec::new();
    let partial = visit_readable(call, &place, &mut |found, path| {
        if entries.len() == limit {
            more = true;
            return Ok(Next::End);
        }
        if at >= offset {
            entries.push(if metadata {
                describe(path, &found.stat)
            } else {
                json!({"path": path, "type": kind(&found.stat)})
            });
        }
        at += 1;
        Ok(if recursive { Next::On } else { Next::Past })
    })?;
    let mut result = json!({"path": place.path, "entries": entries, "partial": partial});
    if arguments.maybe_text("path").is_none() {
        let roots = files.roots.iter();
        result["roots"] =
            roots.map(|root| json!({"path": root.path, "write": root.write})).collect();
    }
    if more {
        result["next"] = at.into();
    }
    Ok(result.into())
}

pub(super) fn stat_spec(_: &Files) -> ToolSpec {
    ToolSpec::new(
        "file/stat",
        "Describe a file",
        "Returns the type (`file`, `folder`, `symlink`, `other`), size in bytes, dates (UTC), \
            permissions and number of names of a file or folder, and whether it can be \
            changed here.",
    )
    .input(json!({"path": path_schema("The file or folder")}))
    .output(json!({
        "path": "string", "type": "string", "mimeType?": "string", "size": "integer",
        "modified": "string", "accessed": "string", "changed": "string", "mode": "string",
        "links": "integer", "writable": "boolean",
    }))
}

pub(super) fn stat(call: &FileCall<'_>) -> Result<Output, ToolError> {
    let path = call.arguments.text("path")?;
    let place = call.files.find(path)?;
    let stat = if place.names.is_empty() {
        let root = place.explain(place.root.folder(&[]))?;
        place.explain(rustix::fs::fstat(root))?
    } else {
        let (folder, leaf) = place.parent()?;
        place.explain(look(&folder, leaf))?
    };
    let mut entry = describe(&place.path, &stat);
    entry["accessed"] = date::of_seconds(stat.st_atime).into();
    entry["changed"] = date::of_seconds(stat.st_ctime).into();
    entry["mode"] = format!("{:04o}", stat.st_mode & 0o7777).into();
    entry["links"] = stat.st_nlink.into();
    entry["writable"] = call.files.find_to_change(path).is_ok().into();
    Ok(entry.into())
}
