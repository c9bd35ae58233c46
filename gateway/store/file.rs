//! SQLite files, their folder, and their identification. The first bytes are checked beforehand, so
//! that a foreign file is not even opened as a database.

use std::io::{ErrorKind, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::error::{Result, StoreError};

/// Marks a file as a Lockgate database, even before it has content: the id is `Lock`.
pub(crate) const CLAIM: &str = "PRAGMA application_id = 1282368363";
const APPLICATION_ID: [u8; 4] = *b"Lock";
/// The beginning of a SQLite file, and the offset of its application id
/// (sqlite.org/fileformat2.html).
const MAGIC: &[u8; 16] = b"SQLite format 3\0";
const HEADER_BYTES: usize = 100;
const APPLICATION_ID_AT: usize = 68;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileState {
    /// Missing, or an empty file.
    Empty,
    Ours,
}

/// The device and inode of a file.
pub(crate) type Identity = (u64, u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

/// Checks whether a file is a Lockgate database, and rejects any other file with content.
#[allow(clippy::disallowed_methods, reason = "the database's file, as configured")]
pub(crate) fn judge(file: &Path) -> Result<FileState> {
    let opened = match std::fs::File::open(file) {
        Err(error) if is_missing(error.kind()) => return Ok(FileState::Empty),
        Err(error) => return Err(unreadable(file, &error)),
        Ok(opened) => opened,
    };
    let mut header = Vec::with_capacity(HEADER_BYTES);
    if let Err(error) = opened.take(HEADER_BYTES as u64).read_to_end(&mut header) {
        return Err(unreadable(file, &error));
    }
    if header.is_empty() {
        return Ok(FileState::Empty);
    }
    let id = header.get(APPLICATION_ID_AT..APPLICATION_ID_AT + APPLICATION_ID.len());
    if header.starts_with(MAGIC) && id == Some(&APPLICATION_ID) {
        return Ok(FileState::Ours);
    }
    Err(StoreError::Foreign(file.to_owned()))
}

fn is_missing(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::NotFound | ErrorKind::NotADirectory)
}

fn unreadable(file: &Path, error: &std::io::Error) -> StoreError {
    StoreError::Unavailable(format!("{} cannot be read ({})", file.display(), error.kind()))
}

/// Creates a missing folder and file with access for their owner alone.
#[allow(clippy::disallowed_methods, reason = "the database's folder and file, as configured")]
pub(crate) fn make(file: &Path) -> Result<()> {
    if let Some(folder) = file.parent()
        && make_folder(folder).is_err()
    {
        return Err(StoreError::ReadOnly(file.to_owned()));
    }
    let mut options = std::fs::OpenOptions::new();
    let opened = options.write(true).create(true).truncate(false).mode(0o600).open(file);
    opened.map(drop).map_err(|_| StoreError::ReadOnly(file.to_owned()))
}

/// The folder that a development gateway creates beside the user's own files.
const DEVELOPMENT_FOLDER: &str = ".lockgate";

/// Creates a missing folder with access for its owner alone.
///
/// A development folder often lies in a Git checkout, so it gets a `.gitignore` that keeps the key
/// and the database out of commits.
#[allow(clippy::disallowed_methods, reason = "the database's folder, as configured")]
pub(crate) fn make_folder(folder: &Path) -> std::io::Result<()> {
    if folder.exists() {
        return Ok(());
    }
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    if folder.ends_with(DEVELOPMENT_FOLDER) {
        std::fs::write(folder.join(".gitignore"), "*\n")?;
    }
    Ok(())
}

/// Returns the identity of a file; `None` if it is missing or empty.
pub(crate) fn identify(file: &Path) -> Option<Identity> {
    let metadata = file.metadata().ok()?;
    if metadata.len() > 0 { Some((metadata.dev(), metadata.ino())) } else { None }
}

/// Returns whether two paths lead to the same file, unless it is empty.
pub(crate) fn is_same(one: &Path, other: &Path) -> bool {
    identify(one).is_some() && identify(one) == identify(other)
}

/// Returns whether the file has a WAL: a program is using it, or ended without closing it.
pub(crate) fn has_wal(file: &Path) -> bool {
    matches!(with_ending(file, "-wal").metadata(), Ok(metadata) if metadata.len() > 0)
}

/// A temporary file beside its final path, with access for its owner alone. It is deleted on drop
/// unless it was kept.
pub(crate) struct Draft {
    path: PathBuf,
}

impl Draft {
    /// Creates the file at a path with an ending. Fails if it exists.
    #[allow(clippy::disallowed_methods, reason = "a copy of the database that an operator wants")]
    pub(crate) fn new(path: &Path, ending: &str) -> Result<Self> {
        let path = with_ending(path, ending);
        let mut options = std::fs::OpenOptions::new();
        match options.write(true).create_new(true).mode(0o600).open(&path) {
            Ok(_) => Ok(Self { path }),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                let path = path.display();
                Err(StoreError::Refused(format!(
                    "{path} already exists: another copy is running, or was interrupted; delete it \
                     if none is running"
                )))
            }
            Err(_) => Err(StoreError::ReadOnly(path)),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Syncs the file to disk, then moves it to its final path.
    #[allow(clippy::disallowed_methods, reason = "a copy of the database that an operator wants")]
    pub(crate) fn keep_as(self, path: &Path) -> Result<()> {
        if self.rename_when_synced(path).is_err() {
            return Err(StoreError::ReadOnly(path.to_owned()));
        }
        if let Some(folder) = path.parent()
            && let Ok(folder) = std::fs::File::open(folder)
        {
            // Not every file system supports this; the file is complete in any case.
            let _ = folder.sync_all();
        }
        Ok(())
    }

    #[allow(clippy::disallowed_methods, reason = "a copy of the database that an operator wants")]
    fn rename_when_synced(&self, path: &Path) -> std::io::Result<()> {
        std::fs::File::open(&self.path)?.sync_all()?;
        std::fs::rename(&self.path, path)
    }
}

impl Drop for Draft {
    #[allow(clippy::disallowed_methods, reason = "a copy that was made here")]
    fn drop(&mut self) {
        for ending in ["", "-wal", "-shm", "-journal"] {
            // Some of these files may not exist.
            let _ = std::fs::remove_file(with_ending(&self.path, ending));
        }
    }
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}
