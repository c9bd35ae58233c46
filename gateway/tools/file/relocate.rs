//! `file/move`: moves or renames a file or folder atomically. Replaces existing files only if
//! requested, and follows no links.

use std::os::fd::OwnedFd;

use rustix::fs::{self, FileType};
use rustix::io::Errno;
use serde_json::json;

use super::delete::may_change_all;
use super::place::{Files, kind, path_schema};
use super::root::look;
use crate::blocking::CancellationToken;
use crate::tool::{Arguments, Effect, Output, ToolError, ToolSpec};

pub(super) fn spec(_: &Files) -> ToolSpec {
    ToolSpec::new(
        "file/move",
        "Move or rename",
        "Moves or renames a file or folder within the writable folders, and creates the \
            target's folders. Fails if the target exists, unless `overwrite` (files only).",
    )
    .input(json!({
        "from": path_schema("The file or folder"), "to": path_schema("Its new path, with its name"),
        "overwrite?": false,
    }))
    .output(json!({"from": "string", "to": "string", "type": "string", "replaced": "boolean"}))
    .effect(Effect::Writes { destructive: true, idempotent: false })
}

pub(super) fn relocate(
    files: &Files,
    arguments: &Arguments,
    stop: &CancellationToken,
) -> Result<Output, ToolError> {
    let from = files.find_to_change(arguments.text("from")?)?;
    let to = files.find_to_change(arguments.text("to")?)?;
    let (source, old) = from.parent()?;
    let stat = from.explain(look(&source, old))?;
    if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
        may_change_all(files, &from, &from.path, stop)?;
        may_change_all(files, &from, &to.path, stop)?;
    }
    let Some((new, parents)) = to.names.split_last() else { return Err(to.words(Errno::EXIST)) };
    let (target, _) = to.explain(to.root.make_folder(parents))?;
    let replaced = look(&target, new).is_ok();
    stop.check()?;
    match rename(&source, old, &target, new, !arguments.flag("overwrite")) {
        Ok(()) => {}
        Err(Errno::EXIST) => {
            return Err(ToolError(format!(
                "{} exists already: set `overwrite`, or choose another name",
                to.path
            )));
        }
        Err(Errno::INVAL) => {
            return Err(ToolError(format!("{} cannot be moved into itself", from.path)));
        }
        Err(errno) => return Err(to.words(errno)),
    }
    Ok(json!({"from": from.path, "to": to.path, "type": kind(&stat), "replaced": replaced}).into())
}

/// Renames atomically. `exclusive` fails if the new name exists.
pub(super) fn rename(
    from: &OwnedFd,
    old: &str,
    to: &OwnedFd,
    new: &str,
    exclusive: bool,
) -> Result<(), Errno> {
    #[cfg(any(target_os = "linux", target_vendor = "apple"))]
    if exclusive {
        match fs::renameat_with(from, old, to, new, fs::RenameFlags::NOREPLACE) {
            // Not supported by every file system; the fallback is not atomic.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {}
            other => return other,
        }
    }
    if exclusive && look(to, new).is_ok() {
        return Err(Errno::EXIST);
    }
    fs::renameat(from, old, to, new)
}
