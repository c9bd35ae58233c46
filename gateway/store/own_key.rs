//! The key that a development gateway makes for itself when the first credential is stored: a file
//! beside the database, for its owner alone.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use aws_lc_rs::rand;
use lockgate_text::hex;

use crate::file;

/// Random bytes of a key.
const KEY_BYTES: usize = 32;
/// Most bytes that are read.
const MAX_KEY: u64 = 4096;

/// Returns the key in a file; `None` where there is none.
#[allow(clippy::disallowed_methods, reason = "the gateway's own key, beside its database")]
pub(crate) fn read(path: &Path) -> Option<String> {
    let mut text = String::new();
    std::fs::File::open(path).ok()?.take(MAX_KEY).read_to_string(&mut text).ok()?;
    Some(text.trim().to_owned())
}

/// Makes the file, or reads the one that another process has made meanwhile. Returns the key; `None`
/// where that is not possible, which the log explains.
#[allow(clippy::disallowed_methods, reason = "the gateway's own key, beside its database")]
pub(crate) fn make(path: &Path) -> Option<String> {
    let mut random = [0; KEY_BYTES];
    rand::fill(&mut random).ok()?;
    let key = hex::encode(&random);
    let shown = path.display();
    if let Some(folder) = path.parent()
        && let Err(error) = file::make_folder(folder)
    {
        tracing::error!(%error, "{shown} cannot be made, so that no credential can be stored");
        return None;
    }
    match write(path, &key) {
        Ok(()) => {
            tracing::warn!(
                "{shown} was made: the key that credentials are stored with. Without it they are \
                    lost, so keep a copy, apart from backups of the database"
            );
            Some(key)
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => read(path),
        Err(error) => {
            tracing::error!(%error, "{shown} cannot be made, so that no credential can be stored");
            None
        }
    }
}

/// Writes a file that is whole as soon as it has its name, and replaces none.
#[allow(clippy::disallowed_methods, reason = "the gateway's own key, beside its database")]
fn write(path: &Path, key: &str) -> std::io::Result<()> {
    let draft = path.with_extension(format!("{}.part", std::process::id()));
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    file.write_all(format!("{key}\n").as_bytes())?;
    file.sync_all()?;
    let named = std::fs::hard_link(&draft, path);
    std::fs::remove_file(&draft)?;
    named
}
