//! The folder of the database and of the key beside it.

use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// The folder that a development gateway creates beside the user's own files.
const DEVELOPMENT_FOLDER: &str = ".lockgate";

/// Creates a missing folder with access for its owner alone.
///
/// A development folder often lies in a Git checkout, so it gets a `.gitignore` that keeps the key
/// and the database out of commits.
#[allow(clippy::disallowed_methods, reason = "the database's folder, as configured")]
pub(crate) fn make(folder: &Path) -> std::io::Result<()> {
    if folder.exists() {
        return Ok(());
    }
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    if folder.ends_with(DEVELOPMENT_FOLDER) {
        let mut ignored = std::fs::File::create(folder.join(".gitignore"))?;
        ignored.write_all(b"*\n")?;
    }
    Ok(())
}
