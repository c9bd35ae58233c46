//! `builtin.file`: checks folders and globs. A missing folder is not a mistake.

use std::path::{Component, Path, PathBuf};

use lockgate_policy::path::{Path as Rule, Spec};
use lockgate_tools::{File, FileRoot};

use super::super::Check;

const MAX_ROOTS: usize = 64;

impl Check<'_> {
    pub(super) fn files(&mut self, given: &File) -> File {
        let file = File { roots: self.file_roots(&given.roots), ..given.clone() };
        let mut within = Vec::new();
        for root in &file.roots {
            if let Some(path) = root.path.to_str() {
                within.push(path.to_owned());
            }
        }
        if within.is_empty() {
            within.push("/".into());
        }
        for (key, globs) in [("deny", &file.deny), ("deny_write", &file.deny_write)] {
            let spec = Spec { roots: within.clone(), deny: globs.clone(), ..Spec::default() };
            if let Err(words) = Rule::compile(&spec) {
                self.error(
                    &["builtin", "file", key],
                    words,
                    "use globs such as *.pem, private/** or .env*",
                );
            }
        }
        file
    }

    fn file_roots(&mut self, given: &[FileRoot]) -> Vec<FileRoot> {
        if given.is_empty() || given.len() > MAX_ROOTS {
            let what = format!("requires 1 to {MAX_ROOTS} folders");
            self.error(
                &["builtin", "file", "roots"],
                what,
                "such as: roots: [{ path: ./project }]",
            );
        }
        let mut roots: Vec<FileRoot> = Vec::new();
        for (at, root) in given.iter().enumerate() {
            let at = at.to_string();
            let key = ["builtin", "file", "roots", &at, "path"];
            let parts = root.path.components();
            let path: PathBuf = parts.filter(|part| *part != Component::CurDir).collect();
            let text = path.to_str().unwrap_or("").to_owned();
            let plain = Rule::compile(&Spec { roots: vec![text], ..Spec::default() }).is_ok();
            if !path.is_absolute() || !plain {
                self.error(
                    &key,
                    "must be the path of a folder, without `..`",
                    "it may be relative to the configuration file",
                );
                continue;
            }
            if overlaps(&path, &roots) {
                self.error(
                    &key,
                    "is in another root, or contains one",
                    "use only the outer one, or separate folders",
                );
                continue;
            }
            if !path.is_dir() {
                let hint = "create it, then restart; until then the other roots are served, and \
                    relative paths only if it is not the first";
                self.warning(&key, "there is no such folder", hint);
            }
            roots.push(FileRoot { path, write: root.write });
        }
        roots
    }
}

/// Returns whether a folder is inside one of these, or contains one.
fn overlaps(path: &Path, roots: &[FileRoot]) -> bool {
    roots.iter().any(|other| other.path.starts_with(path) || path.starts_with(&other.path))
}
