//! The folder of the database and of the key beside it.

use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// Makes a folder for its owner alone, where it is missing.
#[allow(clippy::disallowed_methods, reason = "the database's folder, as configured")]
pub(crate) fn make(folder: &Path) -> std::io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}
