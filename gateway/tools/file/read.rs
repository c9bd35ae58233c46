//! `file/read`: reads a file, or a part of it. Regular files only, and at most the configured
//! number of bytes per call.

use std::os::fd::OwnedFd;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use lockgate_text::hex;
use rustix::fs::{Stat, fstat};
use serde_json::{Value, json};

use super::place::{FileCall, FilePlace, Files, describe, kind, path_schema};
use crate::tool::{Arguments, Output, ToolError, ToolSpec};

pub(super) fn spec(files: &Files) -> ToolSpec {
    let limit = files.config.read_size;
    ToolSpec::new(
        "file/read",
        "Read a file",
        format!(
            "Reads a file, whole or in part, at most {limit} bytes at once. Text is returned \
                as UTF-8; use `encoding` base64 or hex for other files. `offset` and `length` \
                count bytes; `head` or `tail` return the first or last lines instead. `next` \
                is the `offset` of the next part, if any; `truncated` means that `tail` has \
                more lines before the first.",
        ),
    )
    .input(input_schema())
    .output(json!({
        "path": "string", "type": "string", "mimeType?": "string", "size": "integer",
        "modified": "string", "encoding": {"enum": Encoding::ALL.map(Encoding::as_str)},
        "offset": "integer", "length": "integer", "next?": "integer", "truncated?": "boolean",
        "content": "string",
    }))
    .cap(limit.saturating_mul(14).saturating_add(1 << 16))
}

/// The requested part of a file.
struct WantedPart {
    offset: u64,
    /// Maximum number of bytes.
    length: usize,
    /// Number of first lines.
    head: Option<u64>,
    /// Number of last lines.
    tail: Option<u64>,
}

/// The part that was read.
struct FoundPart {
    /// Offset of the first byte.
    start: u64,
    bytes: Vec<u8>,
    /// Whether more of the requested lines precede it.
    truncated: bool,
}

fn input_schema() -> Value {
    json!({
        "path": path_schema("The file"),
        "encoding?": Encoding::schema(),
        "offset?": {
            "type": "integer", "minimum": 0, "maximum": i64::MAX, "default": 0,
            "description": "First byte to read",
        },
        "length?": {"type": "integer", "minimum": 1, "description": "Bytes to read, at most"},
        "head?": {
            "type": "integer", "minimum": 1, "maximum": 100_000,
            "description": "Number of first lines to read",
        },
        "tail?": {
            "type": "integer", "minimum": 1, "maximum": 100_000,
            "description": "Number of last lines to read",
        },
    })
}

impl FoundPart {
    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

pub(super) fn read(call: &FileCall<'_>) -> Result<Output, ToolError> {
    let FileCall { files, arguments, .. } = *call;
    let place = files.find(arguments.text("path")?)?;
    let (file, stat) = open(files, &place)?;
    let encoding = Encoding::of(arguments)?;
    let wanted = choose_part(arguments, files.config.read_size)?;
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    let start = match wanted.tail {
        Some(_) => size.saturating_sub(wanted.length as u64),
        None => wanted.offset,
    };
    let bytes = place.explain(part(&file, start, wanted.length))?;
    let mut found = FoundPart { start, bytes, truncated: false };
    keep_wanted_lines(&mut found, &wanted, encoding);
    if encoding == Encoding::Utf8 && found.end() < size {
        keep_whole_characters(&mut found)?;
    }
    let mut entry = describe(&place.path, &stat);
    entry["encoding"] = encoding.as_str().into();
    entry["offset"] = found.start.into();
    entry["length"] = found.bytes.len().into();
    if found.end() < size {
        entry["next"] = found.end().into();
    }
    if found.truncated {
        entry["truncated"] = true.into();
    }
    let content = encoding.encode(&place.path, found.bytes)?;
    // Models read plain text better than JSON.
    let text = (encoding == Encoding::Utf8).then(|| content.clone());
    entry["content"] = content.into();
    Ok(Output { structured: entry, text })
}

fn choose_part(arguments: &Arguments, limit: usize) -> Result<WantedPart, ToolError> {
    let head = arguments.maybe_whole("head");
    let tail = arguments.maybe_whole("tail");
    let offset = arguments.whole("offset")?;
    if usize::from(head.is_some()) + usize::from(tail.is_some()) + usize::from(offset > 0) > 1 {
        return Err(ToolError::new("give one of `offset`, `head` and `tail`"));
    }
    let length = arguments.maybe_whole("length").map(usize::try_from);
    let length = length.and_then(Result::ok).unwrap_or(limit).min(limit);
    Ok(WantedPart { offset, length, head, tail })
}

/// Drops bytes outside of the requested first or last lines.
fn keep_wanted_lines(found: &mut FoundPart, wanted: &WantedPart, encoding: Encoding) {
    if let Some(lines) = wanted.head {
        found.bytes.truncate(end_of_lines(&found.bytes, lines));
    }
    if let Some(lines) = wanted.tail {
        let first = start_of_lines(&found.bytes, lines);
        // Fewer lines than requested, although more precede them. Also drops the rest of a
        // character at the cut.
        found.truncated = first.is_none() && found.start > 0;
        let is_torn = found.truncated && encoding == Encoding::Utf8;
        let torn = if is_torn { rest_of_character(&found.bytes) } else { 0 };
        let from = first.unwrap_or(torn);
        found.bytes.drain(..from);
        found.start += from as u64;
    }
}

/// Leaves a character that is cut at the end to the next part.
fn keep_whole_characters(found: &mut FoundPart) -> Result<(), ToolError> {
    let whole = whole_characters(&found.bytes);
    if whole == 0 && !found.bytes.is_empty() {
        return Err(ToolError::new("`length` ends within the first character: give at least 4"));
    }
    found.bytes.truncate(whole);
    Ok(())
}

/// Opens a regular file.
pub(super) fn open(files: &Files, place: &FilePlace) -> Result<(OwnedFd, Stat), ToolError> {
    let file = files.reach(place)?;
    let stat = place.explain(fstat(&file))?;
    match kind(&stat) {
        "file" => Ok((file, stat)),
        "folder" => Err(ToolError(format!("{} is a folder: use `list`", place.path))),
        _ => Err(ToolError(format!("{} is not a regular file and is not read", place.path))),
    }
}

/// Reads at most `length` bytes from `offset`.
pub(super) fn part(file: &OwnedFd, offset: u64, length: usize) -> rustix::io::Result<Vec<u8>> {
    const STEP_BYTES: usize = 1 << 16;
    let mut bytes = Vec::new();
    while bytes.len() < length {
        let filled = bytes.len();
        let step = STEP_BYTES.min(length - bytes.len());
        bytes.resize(filled + step, 0);
        let read = match rustix::io::pread(
            file,
            &mut bytes[filled..],
            offset.saturating_add(filled as u64),
        ) {
            Err(rustix::io::Errno::INTR) => 0,
            Ok(0) => {
                bytes.truncate(filled);
                return Ok(bytes);
            }
            other => other?,
        };
        bytes.truncate(filled + read);
    }
    Ok(bytes)
}

fn end_of_lines(bytes: &[u8], lines: u64) -> usize {
    let ends = ends_of_lines(bytes);
    ends.take(usize::try_from(lines).unwrap_or(usize::MAX))
        .nth(usize::try_from(lines - 1).unwrap_or(usize::MAX))
        .unwrap_or(bytes.len())
}

/// Returns the offset of the last `lines` lines; `None` if there are not more lines than these.
fn start_of_lines(bytes: &[u8], lines: u64) -> Option<usize> {
    // The last line's own line break does not start another line.
    let body = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    ends_of_lines(body).rev().nth(usize::try_from(lines - 1).unwrap_or(usize::MAX))
}

fn ends_of_lines(bytes: &[u8]) -> impl DoubleEndedIterator<Item = usize> {
    let breaks = (0..bytes.len()).filter(|at| bytes[*at] == b'\n');
    breaks.map(|at| at + 1)
}

/// Returns the number of leading bytes that continue a character.
fn rest_of_character(bytes: &[u8]) -> usize {
    bytes.iter().take(3).take_while(|byte| matches!(byte, 0x80..0xC0)).count()
}

fn whole_characters(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        _ => bytes.len(),
    }
}

// Conversion between bytes and text: UTF-8, base64 (with padding) and hex. Invalid input is
// rejected, never replaced.

lockgate_text::words! {
    pub(super) enum Encoding {
        Utf8 = "utf-8",
        Base64 = "base64",
        Hex = "hex",
    }
}

impl Encoding {
    /// Returns the encoding that a call requests. The schema has validated its name.
    pub(super) fn of(arguments: &Arguments) -> Result<Self, ToolError> {
        Ok(Self::parse(arguments.text("encoding")?).unwrap_or(Self::Utf8))
    }

    pub(super) fn schema() -> Value {
        json!({"type": "string", "enum": Self::ALL.map(Self::as_str), "default": "utf-8"})
    }

    pub(super) fn decode(self, text: String) -> Result<Vec<u8>, ToolError> {
        match self {
            Self::Utf8 => Ok(text.into_bytes()),
            Self::Base64 => STANDARD.decode(text.as_bytes()).map_err(|_| {
                ToolError::new(
                    "`content` is not base64 with padding: encode it again, without line breaks",
                )
            }),
            Self::Hex => hex::decode(text.as_bytes()).ok_or_else(|| {
                ToolError::new(
                    "`content` is not hex: write two digits for each byte, without spaces",
                )
            }),
        }
    }

    /// Encodes bytes. Invalid UTF-8 is an error with a hint.
    pub(super) fn encode(self, path: &str, bytes: Vec<u8>) -> Result<String, ToolError> {
        match self {
            Self::Utf8 => String::from_utf8(bytes).map_err(|_| {
                ToolError(format!(
                    "{path} is not UTF-8 text: read it with `encoding` base64 or hex"
                ))
            }),
            Self::Base64 => Ok(STANDARD.encode(bytes)),
            Self::Hex => Ok(hex::encode(&bytes)),
        }
    }
}
