//! `file/write`: writes a whole file atomically. The new content is written to a temporary file,
//! which then takes the file's name. Readers never see partial content, and hard links of the old
//! file do not change.

use std::os::fd::OwnedFd;

use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use serde_json::json;

use super::place::{FileCall, FilePlace, Files, describe, path_schema};
use super::read::Encoding;
use super::root::look;
use crate::tool::{Effect, Output, ToolError, ToolSpec};

/// Maximum number of restarts of an append while others create and remove the file.
const MAX_ATTEMPTS: usize = 8;

pub(super) fn spec(files: &Files) -> ToolSpec {
    let limit = files.config.write_size;
    ToolSpec::new(
        "file/write",
        "Write a file",
        format!(
            "Writes a file of at most {limit} bytes and creates the folders it is in. `mode`: \
                `replace` (the default) writes the whole file in one step, `create` fails if \
                it exists already, `append` adds to its end. Returns its size and whether it \
                is new.",
        ),
    )
    .input(json!({
        "path": path_schema("The file"),
        "content": {"type": "string", "description": "The content, in `encoding`"},
        "encoding?": Encoding::schema(),
        "mode?": {"type": "string", "enum": ["replace", "create", "append"], "default": "replace"},
    }))
    .output(json!({
        "path": "string", "type": "string", "mimeType?": "string", "size": "integer",
        "modified": "string", "written": "integer", "created": "boolean", "foldersMade": "integer",
    }))
    .effect(Effect::Writes { destructive: true, idempotent: false })
}

pub(super) fn write(call: &FileCall<'_>) -> Result<Output, ToolError> {
    let FileCall { files, arguments, stop } = *call;
    let place = files.find_to_change(arguments.text("path")?)?;
    let encoding = Encoding::of(arguments)?;
    let bytes = encoding.decode(arguments.text("content")?.to_owned())?;
    let limit = files.config.write_size;
    if bytes.len() > limit {
        return Err(ToolError(format!(
            "`content` has {} bytes and at most {limit} are written at once",
            bytes.len()
        )));
    }
    let Some((leaf, parents)) = place.names.split_last() else {
        return Err(place.words(Errno::ISDIR));
    };
    let (folder, made) = place.explain(place.root.make_folder(parents))?;
    let mode = arguments.text("mode")?;
    let mut attempts = 0;
    let old = loop {
        let old = match look(&folder, leaf) {
            Ok(stat) => Some(stat),
            Err(Errno::NOENT) => None,
            Err(errno) => return Err(place.words(errno)),
        };
        if let Some(stat) = &old {
            is_replaceable(&place, stat, mode)?;
        }
        stop.check()?;
        if let ("append", Some(_)) = (mode, &old) {
            append(&place, &folder, leaf, &bytes)?;
            break old;
        }
        match replace(&folder, leaf, &bytes, old.as_ref(), mode != "replace") {
            // Another process has created the file, so append to it.
            Err(Errno::EXIST) if mode == "append" && attempts < MAX_ATTEMPTS => attempts += 1,
            Err(errno) => return Err(place.words(errno)),
            Ok(()) => break old,
        }
    };
    let stat = place.explain(look(&folder, leaf))?;
    let mut entry = describe(&place.path, &stat);
    entry["written"] = bytes.len().into();
    entry["created"] = old.is_none().into();
    entry["foldersMade"] = made.into();
    Ok(entry.into())
}

fn is_replaceable(place: &FilePlace, stat: &Stat, mode: &str) -> Result<(), ToolError> {
    match FileType::from_raw_mode(stat.st_mode) {
        _ if mode == "create" => Err(place.words(Errno::EXIST)),
        FileType::RegularFile => Ok(()),
        FileType::Directory => Err(place.words(Errno::ISDIR)),
        FileType::Symlink => Err(place.words(Errno::LOOP)),
        _ => Err(place.words(Errno::NXIO)),
    }
}

/// Appends to a file in place. Files with several hard links are rejected, because another link may
/// be outside of the roots.
fn append(place: &FilePlace, folder: &OwnedFd, leaf: &str, bytes: &[u8]) -> Result<(), ToolError> {
    let flags = OFlags::WRONLY
        | OFlags::APPEND
        | OFlags::NOFOLLOW
        | OFlags::NONBLOCK
        | OFlags::CLOEXEC
        | OFlags::NOCTTY;
    let file = place.explain(fs::openat(folder, leaf, flags, Mode::empty()))?;
    let stat = place.explain(fs::fstat(&file))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(place.words(Errno::NXIO));
    }
    if stat.st_nlink > 1 {
        let what = "has several names (hard links) and is not changed in place: write the whole \
            file with `mode` replace";
        return Err(ToolError(format!("{} {what}", place.path)));
    }
    place.explain(put(&file, bytes))
}

/// Writes a temporary file and renames it.
fn replace(
    folder: &OwnedFd,
    leaf: &str,
    bytes: &[u8],
    old: Option<&Stat>,
    exclusive: bool,
) -> Result<(), Errno> {
    let beside = Beside::new(folder)?;
    put(&beside.file, bytes)?;
    if let Some(old) = old {
        // Copies the permissions of the old file, except set-user-id and similar bits. If that
        // fails, the stricter defaults remain.
        let _ = fs::fchmod(&beside.file, Mode::from_raw_mode(old.st_mode & 0o777));
    }
    fs::fsync(&beside.file)?;
    beside.rename(leaf, exclusive)
}

/// A temporary file with a unique name; deleted when dropped, unless renamed.
struct Beside<'a> {
    folder: &'a OwnedFd,
    name: String,
    file: OwnedFd,
    renamed: bool,
}

impl<'a> Beside<'a> {
    fn new(folder: &'a OwnedFd) -> Result<Self, Errno> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        for _ in 0..16 {
            let name = format!(".lockgate-{:016x}.tmp", fastrand::u64(..));
            match fs::openat(folder, &name, flags, Mode::from_raw_mode(0o666)) {
                Err(Errno::EXIST) => {}
                file => return Ok(Self { folder, name, file: file?, renamed: false }),
            }
        }
        Err(Errno::EXIST)
    }

    fn rename(mut self, leaf: &str, exclusive: bool) -> Result<(), Errno> {
        super::entries::rename(self.folder, &self.name, self.folder, leaf, exclusive)?;
        self.renamed = true;
        Ok(())
    }
}

impl Drop for Beside<'_> {
    fn drop(&mut self) {
        if !self.renamed {
            let _ = fs::unlinkat(self.folder, &self.name, AtFlags::empty());
        }
    }
}

fn put(file: &OwnedFd, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match rustix::io::write(file, bytes) {
            Err(Errno::INTR) => {}
            Ok(0) => return Err(Errno::IO),
            written => bytes = bytes.get(written?..).unwrap_or(&[]),
        }
    }
    Ok(())
}
