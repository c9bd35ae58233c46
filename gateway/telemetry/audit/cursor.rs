//! The position of a receiver in a trail, in a small file of mode 0600 beside it. An unreadable
//! position never causes records to be skipped.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::file::real_path;
use super::pieces::{beside, open, replace};

/// Upper bound on the size of such a file.
const MAX_BYTES: u64 = 4096;

/// The cursor file of a receiver.
#[derive(Debug)]
pub struct Cursor {
    trail: PathBuf,
    /// The suffix of the file name.
    end: String,
}

/// The content of a cursor file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saved {
    /// The receiver has all records up to this number.
    Taken(u64),
    /// There is no file: nothing was ever sent to the receiver.
    Nothing,
    /// The file does not contain a cursor.
    Unreadable,
}

impl Saved {
    /// Returns the record after which to continue, in a trail that this process continues after
    /// record `begun`: `begun` if nothing was ever sent, but never a later record, because the
    /// trail does not contain it yet; 0 if the cursor is unreadable.
    pub fn after(self, begun: u64) -> u64 {
        match self {
            Self::Taken(last) => last.min(begun),
            Self::Nothing => begun,
            Self::Unreadable => 0,
        }
    }
}

impl Cursor {
    /// Returns the cursor of the named receiver.
    ///
    /// # Errors
    /// The path is a link to a missing file.
    pub fn new(trail: &Path, to: &str) -> io::Result<Self> {
        Ok(Self { trail: real_path(trail)?, end: format!("{to}.cursor") })
    }

    /// Reads the file.
    ///
    /// # Errors
    /// The file exists but is unreadable.
    pub fn read(&self) -> io::Result<Saved> {
        let path = beside(&self.trail, &self.end);
        let file = match open(&path, OpenOptions::new().read(true)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Saved::Nothing),
            Err(error) => return Err(error),
        };
        let mut bytes = Vec::new();
        file.take(MAX_BYTES).read_to_end(&mut bytes)?;
        let said: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let last = said.get("seq").and_then(Value::as_u64);
        Ok(last.map_or(Saved::Unreadable, Saved::Taken))
    }

    /// Replaces the file atomically.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, last: u64) -> io::Result<()> {
        replace(&self.trail, &self.end, &json!({"seq": last}))
    }
}

#[cfg(test)]
mod tests;
