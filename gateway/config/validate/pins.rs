//! `pins`: reads the lock file, without approving anything.

use std::io::Read;
use std::path::{Path, PathBuf};

use lockgate_policy::pin;

use super::Check;
use crate::raw::given::path_of;
use crate::raw::pins::{HiddenText, Pins, Reaction};
use crate::source::reason;

/// Maximum size of a lock file.
const MAX_BYTES: u64 = 64 << 20;

fn reaction(raw: Reaction) -> pin::Reaction {
    match raw {
        Reaction::Quarantine => pin::Reaction::Quarantine,
        Reaction::Report => pin::Reaction::Report,
        Reaction::Allow => pin::Reaction::Allow,
    }
}

impl Check<'_> {
    /// Returns the pins and the path of their lock file.
    pub fn pins(&mut self, raw: &Pins) -> (pin::Pins, Option<PathBuf>) {
        let file = path_of(&raw.file);
        let pins = pin::Pins {
            lock: file.as_deref().map(|file| self.lock(file)),
            changed: reaction(raw.changed),
            new: reaction(raw.new),
            hidden_text: match raw.hidden_text {
                HiddenText::Strip => pin::HiddenText::Strip,
                HiddenText::Quarantine => pin::HiddenText::Quarantine,
                HiddenText::Report => pin::HiddenText::Report,
            },
        };
        (pins, file)
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
