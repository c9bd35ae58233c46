//! The `shell` server where there is no Linux: it fails and says so. Nothing runs unconfined.

#[path = "config.rs"]
mod config;

pub use config::{Config, Landlock, Limits, Root};

use crate::server::Made;

/// There is nothing to become here.
#[must_use]
pub fn confined(_: impl Iterator<Item = std::ffi::OsString>) -> Option<std::process::ExitCode> {
    None
}

pub(crate) fn made(_: &Config) -> Result<Made, String> {
    Err("programs can be confined on Linux only".into())
}
