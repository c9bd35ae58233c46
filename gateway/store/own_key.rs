//! The key that a development gateway creates when the first credential is stored: a file beside
//! the database, with access for its owner alone.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use aws_lc_rs::rand;
use lockgate_text::hex;

use crate::folder;

const KEY_BYTES: usize = 32;
/// Random bytes in the name of a draft, so that concurrent writers use different names.
const DRAFT_BYTES: usize = 8;
/// Maximum number of bytes read from a file.
const MAX_KEY: u64 = 4096;

/// Returns the key in a file; `None` if it cannot be read.
#[allow(clippy::disallowed_methods, reason = "the gateway's own key, beside its database")]
pub(crate) fn read(path: &Path) -> Option<String> {
    let mut text = String::new();
    std::fs::File::open(path).ok()?.take(MAX_KEY).read_to_string(&mut text).ok()?;
    Some(text.trim().to_owned())
}

/// Creates the file, or reads the file that another writer has created in the meantime. Logs I/O
/// errors and returns `None`.
#[allow(clippy::disallowed_methods, reason = "the gateway's own key, beside its database")]
pub(crate) fn make(path: &Path) -> Option<String> {
    let mut random = [0; KEY_BYTES + DRAFT_BYTES];
    rand::fill(&mut random).ok()?;
    let (key, draft) = random.split_at(KEY_BYTES);
    let key = hex::encode(key);
    let shown = path.display();
    if let Some(folder) = path.parent()
        && let Err(error) = folder::make(folder)
    {
        tracing::error!(%error, "{shown} cannot be created, so credentials cannot be stored");
        return None;
    }
    match write(path, &hex::encode(draft), &key) {
        Ok(()) => {
            tracing::warn!(
                "{shown} was created: the key that encrypts stored credentials. Without it they \
                    are lost, so keep a copy, separate from backups of the database"
            );
            Some(key)
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => read(path),
        Err(error) => {
            tracing::error!(%error, "{shown} cannot be created, so credentials cannot be stored");
            None
        }
    }
}

/// Writes a file that is complete once it has its name. Does not replace an existing file.
#[allow(clippy::disallowed_methods, reason = "the gateway's own key, beside its database")]
fn write(path: &Path, draft: &str, key: &str) -> std::io::Result<()> {
    let draft = path.with_extension(format!("{draft}.part"));
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(&draft)?;
    file.write_all(format!("{key}\n").as_bytes())?;
    file.sync_all()?;
    let named = std::fs::hard_link(&draft, path);
    std::fs::remove_file(&draft)?;
    named
}
