//! How much of a trail a receiver has taken, in a small file of mode 0600 beside it. A file that
//! cannot be understood is no reason to skip records.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::file::real_path;
use super::pieces::{beside, open, replace};

/// More than such a file ever has.
const MAX_BYTES: u64 = 4096;

/// See the module.
#[derive(Debug)]
pub struct Cursor {
    trail: PathBuf,
    /// The end of its name.
    end: String,
}

/// What the file said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saved {
    /// The receiver has everything up to this record.
    Taken(u64),
    /// There is no file: nothing was ever sent there.
    Nothing,
    /// There is one that is no cursor.
    Unreadable,
}

impl Saved {
    /// After which record to go on, in a trail whose writer began after record `begun`: there, when
    /// nothing was ever sent; nowhere later, because what a trail does not have yet is no record
    /// of it; with the first record when nobody knows.
    #[must_use]
    pub fn after(self, begun: u64) -> u64 {
        match self {
            Self::Taken(last) => last.min(begun),
            Self::Nothing => begun,
            Self::Unreadable => 0,
        }
    }
}

impl Cursor {
    /// That of the receiver of this name.
    ///
    /// # Errors
    /// The path is a link to what is no file.
    pub fn new(trail: &Path, to: &str) -> io::Result<Self> {
        Ok(Self { trail: real_path(trail)?, end: format!("{to}.cursor") })
    }

    /// # Errors
    /// There is a file that cannot be read.
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

    /// Puts another file in its place.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, last: u64) -> io::Result<()> {
        replace(&self.trail, &self.end, &json!({"seq": last}))
    }
}

#[cfg(test)]
mod tests;
