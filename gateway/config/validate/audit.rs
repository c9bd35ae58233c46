//! `audit`: where the trail goes by default, and that a file is named when one is wanted. It opens
//! nothing.

use std::path::Path;

use lockgate_telemetry::audit;

use super::Check;
use crate::raw::audit::{Arguments, Audit, OnFull, Output};

impl Check<'_> {
    pub fn audit(&mut self, raw: &Audit) -> Option<audit::Config> {
        let key = self.long_secret(&["audit", "key"], raw.key.as_ref());
        let output = match (raw.output, &raw.file) {
            (Some(Output::Off), _) => return None,
            (None, None) if !self.production => return None,
            (Some(Output::Stdout) | None, None) => audit::Output::Stdout,
            (Some(Output::File) | None, Some(file)) => {
                let folder =
                    Path::new(&file.0).parent().filter(|folder| !folder.as_os_str().is_empty());
                if folder.is_some_and(|folder| !folder.is_dir()) {
                    let hint = "make it; the gateway makes the file, but no folder";
                    self.error(&["audit", "file"], "its folder is not there", hint);
                }
                audit::Output::File(Path::new(&file.0).to_path_buf())
            }
            (Some(Output::Stdout), Some(_)) => {
                self.error(
                    &["audit", "file"],
                    "is not used with `output: stdout`",
                    "take one of them out",
                );
                return None;
            }
            (Some(Output::File), None) => {
                self.error(
                    &["audit", "output"],
                    "`file` needs `audit.file`",
                    "such as file: audit.jsonl",
                );
                return None;
            }
        };
        Some(audit::Config {
            output,
            key,
            on_full: match raw.on_full {
                OnFull::Deny => audit::OnFull::Deny,
                OnFull::Drop => audit::OnFull::Drop,
            },
            queue: raw.queue.size(),
            rotate_bytes: raw.rotate_size.get(),
            rotate_age: raw.rotate_age.duration(),
            keep: raw.keep.size(),
            anchor: raw.anchor.duration(),
            arguments: match raw.arguments {
                Arguments::Digest => audit::Arguments::Digest,
                Arguments::Redacted => audit::Arguments::Redacted,
                Arguments::Omitted => audit::Arguments::Omitted,
            },
        })
    }
}
