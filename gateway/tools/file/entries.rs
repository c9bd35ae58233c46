//! `file/move` moves or renames a file or folder atomically, and replaces existing files only if
//! requested. `file/delete` deletes one: non-empty folders require `recursive`, and are checked
//! completely before anything is deleted. Links are moved and deleted themselves, not their
//! targets. Roots cannot be deleted.

use std::os::fd::OwnedFd;

use rustix::fs::{self, AtFlags, Dir, FileType};
use rustix::io::Errno;
use serde_json::json;

use super::place::{FileCall, FilePlace, Files, join, kind, path_schema, words};
use super::root::{enter, look};
use super::walk::{Next, Walk};
use crate::blocking::CancellationToken;
use crate::tool::{Effect, Output, ToolError, ToolSpec};

/// Maximum number of paths in the result.
const MAX_NAMED_PATHS: usize = 1000;
/// Maximum depth of a deleted folder.
const MAX_DEPTH: usize = 80;

pub(super) fn move_spec(_: &Files) -> ToolSpec {
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

pub(super) fn relocate(call: &FileCall<'_>) -> Result<Output, ToolError> {
    let FileCall { files, arguments, stop } = *call;
    let from = files.find_to_change(arguments.text("from")?)?;
    let to = files.find_to_change(arguments.text("to")?)?;
    let (source, old) = from.parent()?;
    let stat = from.explain(look(&source, old))?;
    if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
        may_change_all(call, &from, &from.path)?;
        may_change_all(call, &from, &to.path)?;
    }
    let Some((new, parents)) = to.names.split_last() else { return Err(to.words(Errno::EXIST)) };
    let (target, _) = to.explain(to.root.make_folder(parents))?;
    let replaced = look(&target, new).is_ok();
    stop.check()?;
    rename(&source, old, &target, new, !arguments.flag("overwrite")).map_err(|errno| {
        let path = &to.path;
        match errno {
            Errno::EXIST => {
                format!("{path} exists already: set `overwrite`, or choose another name").into()
            }
            Errno::INVAL => format!("{} cannot be moved into itself", from.path).into(),
            errno => to.words(errno),
        }
    })?;
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

pub(super) fn delete_spec(_: &Files) -> ToolSpec {
    ToolSpec::new(
        "file/delete",
        "Delete a file or folder",
        "Deletes a file, a link or an empty folder; with `recursive` a folder and everything \
            in it, which cannot be undone. Returns the deleted paths. A root cannot be \
            deleted.",
    )
    .input(json!({
        "path": path_schema("The file or folder"),
        "recursive?": {
            "type": "boolean", "default": false, "description": "Also the contents of the folder",
        },
    }))
    .output(json!({
        "path": "string", "type": "string", "count": "integer",
        "deleted": {"type": "array", "items": {"type": "string"}},
    }))
    .effect(Effect::Writes { destructive: true, idempotent: false })
}

pub(super) fn delete(call: &FileCall<'_>) -> Result<Output, ToolError> {
    let place = call.files.find_to_change(call.arguments.text("path")?)?;
    let (folder, leaf) = place.parent()?;
    let stat = place.explain(look(&folder, leaf))?;
    let mut gone = Gone { paths: Vec::new(), count: 0, stop: call.stop };
    let is_folder = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
    if is_folder && call.arguments.flag("recursive") {
        may_change_all(call, &place, &place.path)?;
        gone.tree(&folder, leaf, &place.path, MAX_DEPTH)?;
    } else {
        let flags = if is_folder { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        let removed = fs::unlinkat(&folder, leaf, flags);
        if let Err(Errno::NOTEMPTY | Errno::EXIST) = removed {
            return Err(ToolError(format!(
                "the folder {} is not empty: set `recursive` to delete its contents too",
                place.path
            )));
        }
        place.explain(removed)?;
        gone.add(&place.path);
    }
    Ok(json!({"path": place.path, "type": kind(&stat), "count": gone.count, "deleted": gone.paths})
        .into())
}

/// Checks that everything in a folder may be changed, as if it were at the path `to`.
fn may_change_all(call: &FileCall<'_>, place: &FilePlace, to: &str) -> Result<(), ToolError> {
    let most = call.files.config.entries;
    let mut walk = Walk::new(call.stop, most);
    walk.run(place, &mut |found| {
        call.files.may_change(&join(to, found.names))?;
        Ok(Next::On)
    })?;
    if walk.partial {
        return Err(ToolError(format!(
            "{} has more than {most} entries, or some that cannot be inspected: nothing was \
                changed; change its parts one by one",
            place.path
        )));
    }
    Ok(())
}

struct Gone<'a> {
    paths: Vec<String>,
    count: usize,
    stop: &'a CancellationToken,
}

impl Gone<'_> {
    fn add(&mut self, path: &str) {
        self.count += 1;
        if self.paths.len() < MAX_NAMED_PATHS {
            self.paths.push(path.to_owned());
        }
    }

    /// Deletes a folder's contents, then the folder. Each folder is opened relative to its parent,
    /// without following links.
    fn tree(
        &mut self,
        holder: &OwnedFd,
        name: &str,
        path: &str,
        depth: usize,
    ) -> Result<(), ToolError> {
        if depth == 0 {
            return Err(ToolError(format!("{path} is too deep to be deleted at once")));
        }
        let folder = self.explain(path, enter(holder, name))?;
        let entries = self.explain(path, Dir::read_from(&folder))?;
        let mut names = Vec::new();
        for entry in entries.flatten() {
            if let Ok(name) = entry.file_name().to_str()
                && !matches!(name, "." | "..")
            {
                names.push(name.to_owned());
            }
        }
        for inner in names {
            self.stop.check().map_err(|error| self.stopped(error))?;
            let below = format!("{path}/{inner}");
            let Ok(stat) = look(&folder, &inner) else { continue };
            if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                self.tree(&folder, &inner, &below, depth - 1)?;
            } else {
                self.explain(&below, fs::unlinkat(&folder, &inner, AtFlags::empty()))?;
                self.add(&below);
            }
        }
        self.explain(path, fs::unlinkat(holder, name, AtFlags::REMOVEDIR))?;
        self.add(path);
        Ok(())
    }

    /// Describes a system error with its path and the number of entries deleted so far.
    fn explain<T>(&self, path: &str, result: Result<T, Errno>) -> Result<T, ToolError> {
        result.map_err(|errno| self.stopped(words(path, errno)))
    }

    fn stopped(&self, ToolError(words): ToolError) -> ToolError {
        ToolError(format!("{words}; {} entries had been deleted", self.count))
    }
}
