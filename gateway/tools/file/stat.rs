//! `file/stat`: the attributes of a file or folder. Links are not followed.

use lockgate_text::date;
use serde_json::json;

use super::place::{Files, describe, path_schema};
use super::root::look;
use crate::blocking::CancellationToken;
use crate::tool::{Arguments, Output, ToolError, ToolSpec};

pub(super) fn spec(_: &Files) -> ToolSpec {
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

#[allow(
    clippy::unnecessary_cast,
    trivial_numeric_casts,
    reason = "the fields have other types on other systems"
)]
pub(super) fn stat(
    files: &Files,
    arguments: &Arguments,
    _: &CancellationToken,
) -> Result<Output, ToolError> {
    let path = arguments.text("path")?;
    let place = files.find(path)?;
    let stat = if place.names.is_empty() {
        let root = place.explain(place.root.folder(&[]))?;
        place.explain(rustix::fs::fstat(root))?
    } else {
        let (folder, leaf) = place.parent()?;
        place.explain(look(&folder, leaf))?
    };
    let mut entry = describe(&place.path, &stat);
    entry["accessed"] = date::of_seconds(stat.st_atime as i64).into();
    entry["changed"] = date::of_seconds(stat.st_ctime as i64).into();
    entry["mode"] = format!("{:04o}", stat.st_mode & 0o7777).into();
    entry["links"] = (stat.st_nlink as u64).into();
    entry["writable"] = files.find_to_change(path).is_ok().into();
    Ok(entry.into())
}
