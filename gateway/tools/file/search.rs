//! `file/search`: finds files by name and by text. Visits a bounded number of entries and bytes,
//! follows no links, and skips binary files.

use std::os::fd::OwnedFd;

use globset::{GlobBuilder, GlobMatcher};
use rustix::fs::{Mode, OFlags, fstat, openat};
use serde_json::{Value, json};

use super::place::{FileCall, Files, describe, kind, path_schema};
use super::read::part;
use super::root::READ;
use super::walk::{FoundFile, Next, visit_readable};
use crate::tool::{Output, ToolError, ToolSpec, first_chars, list_schema};

const MAX_MATCHES: u64 = 1000;
/// Maximum size of a searched file, and maximum number of bytes per search.
const MAX_FILE_BYTES: usize = 8 << 20;
const MAX_TOTAL_BYTES: usize = 256 << 20;
/// Maximum length of a line in the result, in characters.
const MAX_SHOWN_CHARS: usize = 300;
/// Maximum number of matches per file.
const MAX_MATCHES_PER_FILE: usize = 50;

pub(super) fn spec(_: &Files) -> ToolSpec {
    ToolSpec::new(
        "file/search",
        "Search files",
        "Finds files below a folder by `glob` (`*.rs`, `src/**/*.md`; a glob without `/` is \
            matched against names), lines in them by `text`, or both. Returns paths, and line \
            numbers with the lines. `partial` means that it stopped early: narrow the search.",
    )
    .input(json!({
        "path?": path_schema("Where to begin; default the first root"),
        "glob?": {"type": "string", "minLength": 1, "maxLength": 500},
        "text?": {
            "type": "string", "minLength": 1, "maxLength": 500,
            "description": "Plain text, not a pattern",
        },
        "ignore_case?": false,
        "hidden?": false,
        "limit?": {"type": "integer", "minimum": 1, "maximum": MAX_MATCHES, "default": 100},
    }))
    .output(json!({
        "path": "string",
        // Entries as in `list`, or lines.
        "matches": list_schema(json!({
            "path": "string", "type?": "string", "size?": "integer", "modified?": "string",
            "mimeType?": "string", "line?": "integer", "text?": "string",
        })),
        "looked": "integer", "partial": "boolean",
    }))
}

struct Hunt {
    glob: Option<(GlobMatcher, bool)>,
    text: Option<String>,
    ignore_case: bool,
    limit: usize,
    matches: Vec<Value>,
    bytes: usize,
    looked: usize,
    partial: bool,
}

pub(super) fn search(call: &FileCall<'_>) -> Result<Output, ToolError> {
    let FileCall { files, arguments, .. } = *call;
    let place = files.find(arguments.maybe_text("path").unwrap_or("."))?;
    let ignore_case = arguments.flag("ignore_case");
    let glob = arguments.maybe_text("glob").map(|glob| compile(glob, ignore_case)).transpose()?;
    let text = match arguments.maybe_text("text") {
        Some(text) if ignore_case => Some(text.to_lowercase()),
        text => text.map(str::to_owned),
    };
    let mut hunt = Hunt {
        glob,
        text,
        ignore_case,
        limit: arguments.count("limit")?,
        matches: Vec::new(),
        bytes: 0,
        looked: 0,
        partial: false,
    };
    if hunt.glob.is_none() && hunt.text.is_none() {
        return Err(ToolError::new("give `glob`, `text` or both"));
    }
    let partial = visit_readable(call, &place, &mut |found, path| hunt.look(found, path))?;
    let partial = partial || hunt.partial;
    Ok(json!({
        "path": place.path,
        "matches": hunt.matches,
        "looked": hunt.looked,
        "partial": partial,
    })
    .into())
}

fn compile(glob: &str, ignore_case: bool) -> Result<(GlobMatcher, bool), ToolError> {
    let built =
        GlobBuilder::new(glob).literal_separator(true).case_insensitive(ignore_case).build();
    built
        .map(|built| (built.compile_matcher(), glob.contains('/')))
        .map_err(|error| ToolError(format!("`glob` is not a glob: {}", error.kind())))
}

impl Hunt {
    fn look(&mut self, found: &FoundFile<'_>, path: &str) -> Result<Next, ToolError> {
        self.looked += 1;
        let named = match &self.glob {
            Some((glob, true)) => glob.is_match(found.names.join("/")),
            Some((glob, false)) => glob.is_match(found.name()),
            None => true,
        };
        if named && self.text.is_none() {
            self.add(describe(path, &found.stat));
        } else if named && found.is_file() {
            self.read(found, path);
        }
        Ok(if self.partial { Next::End } else { Next::On })
    }

    fn add(&mut self, entry: Value) {
        if self.matches.len() < self.limit { self.matches.push(entry) } else { self.partial = true }
    }

    /// Adds the lines of a file that contain the text.
    fn read(&mut self, found: &FoundFile<'_>, path: &str) {
        let Some(text) = self.text.clone() else { return };
        if self.bytes >= MAX_TOTAL_BYTES {
            self.partial = true;
            return;
        }
        let Some(bytes) = contents(found) else { return };
        self.bytes += bytes.len();
        // A zero byte near the beginning indicates a binary file.
        if bytes[..bytes.len().min(8192)].contains(&0) {
            return;
        }
        let mut each = 0;
        for (at, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
            let line = String::from_utf8_lossy(line);
            let holds = if self.ignore_case {
                line.to_lowercase().contains(&text)
            } else {
                line.contains(&text)
            };
            if holds {
                let shown = first_chars(line.trim_end(), MAX_SHOWN_CHARS);
                self.add(json!({"path": path, "line": at + 1, "text": shown}));
                each += 1;
            }
            if self.partial || each == MAX_MATCHES_PER_FILE {
                return;
            }
        }
    }
}

/// Returns the contents of a file, unless it is too large or no longer a regular file.
fn contents(found: &FoundFile<'_>) -> Option<Vec<u8>> {
    let flags = READ | OFlags::NOFOLLOW;
    let file: OwnedFd = openat(found.folder, found.name(), flags, Mode::empty()).ok()?;
    let stat = fstat(&file).ok()?;
    let size = usize::try_from(stat.st_size).ok()?;
    if size > MAX_FILE_BYTES || kind(&stat) != "file" {
        return None;
    }
    part(&file, 0, MAX_FILE_BYTES).ok()
}
