//! Resolves an argument to a root and the names below it. The path rule only checks the text;
//! `root` decides which file a name leads to.

use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use lockgate_policy::path::{Path, Spec};
use lockgate_text::date;
use rustix::fs::{FileType, Stat};
use rustix::io::Errno;
use serde_json::{Value, json};

use super::config::{self, Config};
use super::root::{Root, split_names};
use crate::blocking::{BlockingPool, CancellationToken};
use crate::tool::{Arguments, ToolError};

/// State shared by all tools of the server.
pub(super) struct Files {
    pub(super) roots: Vec<Arc<Root>>,
    read: Path,
    change: Path,
    /// The rule without denied paths: detects names that no rule can match reliably.
    name: Path,
    /// Whether the target of a name has to be checked, too.
    guarded: bool,
    pub(super) config: Config,
    pub(super) blocking: BlockingPool,
}

/// A call of one of the tools.
#[derive(Clone, Copy)]
pub(super) struct FileCall<'a> {
    pub(super) files: &'a Files,
    pub(super) arguments: &'a Arguments,
    pub(super) stop: &'a CancellationToken,
}

/// A name in a root. Its target is not resolved.
#[derive(Clone)]
pub(super) struct FilePlace {
    pub(super) root: Arc<Root>,
    /// Names below the root; empty for the root itself.
    pub(super) names: Vec<String>,
    /// The absolute path that callers see.
    pub(super) path: String,
}

impl Files {
    pub(super) fn open(config: &Config) -> Result<Self, String> {
        let (roots, base) = open_roots(&config.roots)?;
        let mut identities = HashSet::new();
        for root in &roots {
            if !identities.insert(root.identity()?) {
                return Err(format!("the root {} is configured twice", root.path));
            }
        }
        let paths = roots.iter().map(|root| root.path.clone());
        let spec =
            Spec { roots: paths.collect(), base, uris: true, literal: true, ..Spec::default() };
        let all = [config.deny.as_slice(), &config.deny_write].concat();
        let read = Path::compile(&Spec { deny: config.deny.clone(), ..spec.clone() })?;
        let change = Path::compile(&Spec { deny: all, ..spec.clone() })?;
        let name = Path::compile(&spec)?;
        Ok(Self {
            read,
            change,
            name,
            guarded: !config.deny.is_empty(),
            roots,
            blocking: BlockingPool::new(config.concurrent),
            config: config.clone(),
        })
    }

    /// Resolves a path for reading.
    pub(super) fn find(&self, text: &str) -> Result<FilePlace, ToolError> {
        self.place(&self.read, text)
    }

    /// Resolves a path for changing. It has to be below a writable root, and must not be protected
    /// or a source of commands for other programs.
    pub(super) fn find_to_change(&self, text: &str) -> Result<FilePlace, ToolError> {
        let place = self.place(&self.read, text)?;
        if !place.root.write {
            return Err(ToolError(format!(
                "{} is read-only: nothing in it can be changed",
                place.root.path
            )));
        }
        if place.names.is_empty() {
            return Err(ToolError(format!(
                "{} is a root and cannot be changed: name something in it",
                place.path
            )));
        }
        self.may_change(&place.path)?;
        Ok(place)
    }

    fn place(&self, rule: &Path, text: &str) -> Result<FilePlace, ToolError> {
        let checked = rule.check(text)?;
        let root = self.roots.iter().find(|root| root.path == checked.root);
        let root = root.ok_or_else(|| ToolError::new("the path is in no root"))?;
        let names = split_names(checked.path.strip_prefix(&root.path).unwrap_or(""));
        Ok(FilePlace { root: Arc::clone(root), names, path: checked.path })
    }

    /// Returns whether the rule permits reading an absolute path.
    pub(super) fn is_readable(&self, path: &str) -> bool {
        !self.guarded || self.read.check(path).is_ok()
    }

    /// Returns whether an unreadable name is not denied, but cannot be checked by any rule, such as
    /// `a%2eb`.
    pub(super) fn is_odd(&self, path: &str) -> bool {
        self.name.check(path).is_err()
    }

    /// Checks that the rule permits changing an absolute path.
    pub(super) fn may_change(&self, path: &str) -> Result<(), ToolError> {
        match self.change.check(path) {
            Ok(_) => Ok(()),
            Err(refusal) if self.is_odd(path) => Err(ToolError(format!(
                "the name cannot be checked, so it may not be changed: {}",
                refusal.0
            ))),
            Err(_) => Err(ToolError(format!(
                "{path} may not be changed: other programs run commands from it, or it is protected"
            ))),
        }
    }

    /// Opens a path for reading. A link must not lead to a denied path.
    pub(super) fn reach(&self, place: &FilePlace) -> Result<OwnedFd, ToolError> {
        let open = place.explain(place.root.reach(&place.names))?;
        if self.guarded && !place.names.is_empty() {
            let names = place.root.names_of(&open);
            if !names.is_some_and(|names| self.is_readable(&join(&place.root.path, &names))) {
                return Err(ToolError(format!(
                    "{} leads to a denied path: use another path",
                    place.path
                )));
            }
        }
        Ok(open)
    }
}

impl FilePlace {
    /// Opens the parent folder without following links. Returns it with the name inside.
    pub(super) fn parent(&self) -> Result<(OwnedFd, &str), ToolError> {
        let Some((leaf, parents)) = self.names.split_last() else {
            return Err(ToolError(format!("{} is a root: name something in it", self.path)));
        };
        Ok((self.explain(self.root.folder(parents))?, leaf))
    }

    /// Describes a system error, with the path.
    pub(super) fn explain<T>(&self, result: Result<T, Errno>) -> Result<T, ToolError> {
        result.map_err(|errno| self.words(errno))
    }

    pub(super) fn below(&self, names: &[String]) -> String {
        join(&self.path, names)
    }

    pub(super) fn words(&self, errno: Errno) -> ToolError {
        words(&self.path, errno)
    }
}

/// Opens the existing roots. Also returns the base of relative paths: the first root only, so that
/// relative paths never move to another root.
fn open_roots(configured: &[config::Root]) -> Result<(Vec<Arc<Root>>, Option<String>), String> {
    let mut roots = Vec::new();
    let mut missing = Vec::new();
    let mut base = None;
    for (at, one) in configured.iter().enumerate() {
        let Some(root) = Root::open(one)? else {
            missing.push(one.path.display());
            continue;
        };
        if at == 0 {
            base = Some(root.path.clone());
        }
        roots.push(Arc::new(root));
    }
    for root in &missing {
        tracing::warn!(%root, "this root of the file tools does not exist; the others are served");
    }
    match missing.first() {
        Some(first) if roots.is_empty() => Err(format!("the root {first} does not exist")),
        _ => Ok((roots, base)),
    }
}

/// Describes an error of a path in a sentence.
pub(super) fn words(path: &str, errno: Errno) -> ToolError {
    let what = match errno {
        Errno::NOENT => {
            return ToolError(format!("{path} does not exist: list its folder"));
        }
        Errno::NOTDIR => "a part of the path is a file, not a folder",
        Errno::ISDIR => "it is a folder: name a file",
        Errno::LOOP => {
            "it is a symbolic link, and links are not followed here: use the path of its target"
        }
        Errno::XDEV => "it leads out of the allowed folder, or to another file system",
        Errno::ACCESS | Errno::PERM | Errno::ROFS => "the gateway has no permission",
        Errno::EXIST => "something with this name exists already",
        Errno::NOTEMPTY => "the folder is not empty",
        Errno::NOSPC | Errno::DQUOT => "the disk is full",
        Errno::NAMETOOLONG => "the name is too long",
        Errno::NXIO => "it is not a regular file",
        Errno::AGAIN => "it is renamed repeatedly: try again",
        errno => return ToolError(format!("{path}: {errno}")),
    };
    ToolError(format!("{path}: {what}"))
}

pub(super) fn join(path: &str, names: &[String]) -> String {
    if names.is_empty() {
        return path.to_owned();
    }
    [path.trim_end_matches('/'), &names.join("/")].join("/")
}

/// Returns `file`, `folder`, `symlink` or `other`.
pub(super) fn kind(stat: &Stat) -> &'static str {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => "file",
        FileType::Directory => "folder",
        FileType::Symlink => "symlink",
        _ => "other",
    }
}

/// Describes an entry with its size and dates.
pub(super) fn describe(path: &str, stat: &Stat) -> Value {
    let mut entry = json!({
        "path": path,
        "type": kind(stat),
        "size": stat.st_size,
        "modified": date::of_seconds(stat.st_mtime),
    });
    if kind(stat) == "file" {
        entry["mimeType"] = media_type(path).into();
    }
    entry
}

pub(super) fn path_schema(what: &str) -> Value {
    let description = format!("{what}; absolute, or relative to the first root");
    json!({"type": "string", "minLength": 1, "maxLength": 4096, "description": description})
}

const TYPES: [(&str, &str); 36] = [
    ("avif", "image/avif"),
    ("c", "text/x-c"),
    ("css", "text/css"),
    ("csv", "text/csv"),
    ("gif", "image/gif"),
    ("go", "text/x-go"),
    ("gz", "application/gzip"),
    ("h", "text/x-c"),
    ("html", "text/html"),
    ("htm", "text/html"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("js", "text/javascript"),
    ("json", "application/json"),
    ("jsonl", "application/jsonl"),
    ("log", "text/plain"),
    ("md", "text/markdown"),
    ("mjs", "text/javascript"),
    ("mp3", "audio/mpeg"),
    ("mp4", "video/mp4"),
    ("pdf", "application/pdf"),
    ("png", "image/png"),
    ("py", "text/x-python"),
    ("rs", "text/x-rust"),
    ("sh", "text/x-shellscript"),
    ("sql", "application/sql"),
    ("svg", "image/svg+xml"),
    ("toml", "application/toml"),
    ("ts", "text/x-typescript"),
    ("txt", "text/plain"),
    ("wav", "audio/wav"),
    ("webp", "image/webp"),
    ("xml", "application/xml"),
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
    ("zip", "application/zip"),
];

/// Returns the type that the extension of a path implies.
pub(crate) fn media_type(path: &str) -> &'static str {
    let name = path.rsplit('/').next().unwrap_or("");
    let (_, extension) = name.rsplit_once('.').unwrap_or((name, ""));
    let known = TYPES.iter().find(|(known, _)| extension.eq_ignore_ascii_case(known));
    known.map_or("application/octet-stream", |(_, kind)| kind)
}
