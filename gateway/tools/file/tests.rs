//! Tests of the `file` server through its tools. Its roots are surrounded by files that must never
//! be read or changed.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "tests make files around the server, and say figures"
)]

mod changes;
mod confinement;
mod operations;
mod race;
mod resources;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::config::{Config, Root};
use crate::tests::{Rig, rig};

/// Content of every file outside of the roots.
const CANARY: &str = "canary-4711";
/// Content of denied files inside the roots.
const DENIED: &str = "denied-4711";

/// A server with roots, and files around them.
struct Yard {
    top: TempDir,
    rig: Rig,
}

fn config(top: &Path) -> Config {
    Config {
        roots: vec![
            Root { path: top.join("data"), write: true },
            Root { path: top.join("library"), write: false },
        ],
        deny: [".env*", "*.pem", "private"].map(String::from).to_vec(),
        write_size: 1 << 20,
        entries: 1000,
        resources: 50,
        resource_size: 3 << 20,
        concurrent: 4,
        ..Config::default()
    }
}

impl Yard {
    fn new() -> Self {
        Self::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut Config)) -> Self {
        let top = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = top.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        for path in [
            "secret.txt",
            "data-old/secret.txt",
            "outside/secret.txt",
            "outside/deep/secret.txt",
            "etc/passwd",
        ] {
            put(path, CANARY);
        }
        for path in
            [".env", ".env.local", "certs/server.pem", "private/a.txt", "private/keys/a.txt"]
        {
            put(&format!("data/{path}"), DENIED);
        }
        put("data/readme.txt", "first\nsecond\nthird\n");
        put("data/src/main.rs", "fn main() {}\n");
        put("data/.git/config", "[core]\n");
        put("library/book.txt", "a book\n");
        let mut config = config(top.path());
        change(&mut config);
        let rig = rig(&crate::Config { file: Some(config), ..crate::Config::default() });
        Self { top, rig }
    }

    fn path(&self, below: &str) -> PathBuf {
        self.top.path().join(below)
    }

    fn text(&self, below: &str) -> String {
        self.path(below).display().to_string()
    }

    fn link(&self, to: impl AsRef<Path>, at: &str) {
        std::os::unix::fs::symlink(to, self.path(at)).unwrap();
    }

    async fn call(&self, tool: &str, arguments: Value) -> Result<Value, String> {
        self.rig.call(&format!("file/{tool}"), arguments).await
    }

    /// Returns all files outside of the roots, and denied files inside.
    fn protected(&self) -> BTreeMap<PathBuf, String> {
        let mut all = BTreeMap::new();
        for part in [
            "secret.txt",
            "data-old",
            "outside",
            "etc",
            "library",
            "data/private",
            "data/certs",
            "data/.env",
        ] {
            snapshot(&self.path(part), &mut all);
        }
        snapshot(&self.path("data/.git"), &mut all);
        for entry in std::fs::read_dir(self.top.path()).unwrap() {
            all.insert(entry.unwrap().path(), String::new());
        }
        all
    }
}

fn snapshot(path: &Path, all: &mut BTreeMap<PathBuf, String>) {
    let kind = std::fs::symlink_metadata(path).map(|m| m.file_type());
    match kind {
        Ok(kind) if kind.is_dir() => {
            all.insert(path.to_owned(), "folder".into());
            for entry in std::fs::read_dir(path).unwrap() {
                snapshot(&entry.unwrap().path(), all);
            }
        }
        Ok(kind) if kind.is_file() => {
            all.insert(path.to_owned(), std::fs::read_to_string(path).unwrap());
        }
        Ok(_) => {
            all.insert(path.to_owned(), "other".into());
        }
        Err(error) => {
            all.insert(path.to_owned(), error.kind().to_string());
        }
    }
}
