//! `pins`: reads the lock file, without approving anything.

use std::io::Read;
use std::path::Path;

use lockgate_policy::pin;

use super::Check;
use crate::source::reason;

/// Maximum size of a lock file.
const MAX_BYTES: u64 = 64 << 20;

impl Check<'_> {
    /// Returns the pins with the content of their lock file.
    pub fn pins(&mut self, given: &pin::Pins) -> pin::Pins {
        let lock = given.file.as_deref().map(|file| self.lock(file));
        pin::Pins { lock, ..given.clone() }
    }

    fn lock(&mut self, file: &Path) -> pin::Lock {
        let path = ["pins", "file"];
        #[allow(clippy::disallowed_methods, reason = "the lock file, named by the configuration")]
        let opened = std::fs::File::open(file);
        let mut text = String::new();
        match opened {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let hint = "review the tools with `lockgate pins diff`, then run `lockgate pins \
                    approve --all`";
                self.warning(&path, "does not exist yet, so no tool is approved", hint);
                return pin::Lock::default();
            }
            Err(error) => {
                self.error(&path, format!("cannot be read: {}", reason(&error)), "make it readable")
            }
            Ok(opened) => match opened.take(MAX_BYTES).read_to_string(&mut text) {
                Err(error) => self.error(
                    &path,
                    format!("cannot be read: {}", reason(&error)),
                    "make it readable",
                ),
                Ok(_) => match pin::Lock::read(&text) {
                    Ok(lock) => return lock,
                    Err(what) => {
                        let hint = "restore it from version control, or approve the tools again \
                            into another file";
                        self.error(&path, format!("is not a lock file: {what}"), hint);
                    }
                },
            },
        }
        pin::Lock::default()
    }
}
