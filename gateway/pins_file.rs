//! The lock file of tools, replaced completely or not at all. Written by the command line, and by
//! the API of a running gateway, which reads the file before each change.

use std::io::{Read, Write};
use std::path::Path;

use anyhow::{Context, anyhow};
use lockgate_admin::FileChangeError;
use lockgate_policy::pin::{Lock, MAX_PINS};
use lockgate_proxy::PinChange;
use parking_lot::Mutex;

/// Serialises changes.
static CHANGING: Mutex<()> = Mutex::new(());
/// Bytes of the file beyond which the API approves nothing more. The margin below the reader's
/// limit (64 MiB) is for the operator's own tools.
const MAX_BYTES: usize = 48 << 20;
/// Maximum bytes of one organisation's tools, so that it cannot take the room of others.
const MAX_OF_ORGANISATION: usize = 4 << 20;

/// Adds approved or rejected tools to the current file.
pub(crate) fn decide(
    file: &Path,
    decided: &[PinChange],
    is_approved: bool,
) -> Result<(), FileChangeError> {
    let _changing = CHANGING.lock();
    let mut lock = read(file).map_err(|error| describe(&error))?;
    for PinChange { lock_server, flagged_tool, pin, .. } in decided {
        if is_approved {
            lock.approve(lock_server, &flagged_tool.tool, pin.clone());
        } else {
            lock.reject(lock_server, &flagged_tool.tool, &pin.fingerprint);
        }
    }
    let mut own = decided.iter().filter(|one| one.flagged_tool.organisation.is_some());
    if own.any(|one| is_full(&lock, &one.lock_server)) || lock.size() > MAX_PINS {
        return Err(FileChangeError::Full);
    }
    let text = lock.write();
    if text.len() > MAX_BYTES {
        return Err(FileChangeError::Full);
    }
    write(file, &text).map_err(|error| describe(&error))
}

fn is_full(lock: &Lock, server: &str) -> bool {
    let organisation = server.split('/').next().unwrap_or(server);
    lock.measure(&format!("{organisation}/")) > MAX_OF_ORGANISATION
}

fn describe(error: &anyhow::Error) -> FileChangeError {
    FileChangeError::Unwritable(format!("{error:#}"))
}

#[allow(clippy::disallowed_methods, reason = "the lock file, named by the configuration")]
fn read(file: &Path) -> anyhow::Result<Lock> {
    let opened = match std::fs::File::open(file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Lock::default()),
        opened => opened.with_context(|| file.display().to_string())?,
    };
    let mut text = String::new();
    let read = opened.take(MAX_BYTES as u64 + 1).read_to_string(&mut text);
    read.with_context(|| file.display().to_string())?;
    Lock::read(&text).map_err(|what| anyhow!("{} is not a lock file: {what}", file.display()))
}

pub(crate) fn write(file: &Path, text: &str) -> anyhow::Result<()> {
    replace(file, text).with_context(|| file.display().to_string())
}

/// Writes to another file and renames it, so that readers see either the old or the new content.
#[allow(clippy::disallowed_methods, reason = "the lock file, named by the configuration")]
fn replace(file: &Path, text: &str) -> std::io::Result<()> {
    let mut new = file.as_os_str().to_owned();
    new.push(".new");
    let mut to = std::fs::File::create(&new)?;
    to.write_all(text.as_bytes())?;
    to.sync_all()?;
    std::fs::rename(&new, file)
}
