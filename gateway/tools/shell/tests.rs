//! Tests of the `shell` server with real programs: in a folder with links to the outside, next to a
//! secret, with files that must not change and processes that are counted.

#![allow(clippy::disallowed_methods, reason = "tests make their own files and look at processes")]

mod attacks;
mod confinement;
mod lifetime;
mod repositories;
mod results;

use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::tests::Rig;

/// Content of the file that no program may print.
const SECRET: &str = "CANARY-c0ffee";
const VICTIM: &str = "first line\nneedle\nthird line\n";

/// A folder with a root, surrounded by traps.
pub(super) struct TestFolder {
    folder: TempDir,
    mark: String,
}

impl TestFolder {
    pub(super) fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("lockgate-shell").tempdir().unwrap();
        let mark = folder.path().file_name().unwrap().to_str().unwrap().to_owned();
        let place = Self { folder, mark };
        let root = place.root();
        std::fs::create_dir_all(root.join("src/deep")).unwrap();
        std::fs::create_dir(place.folder.path().join("outside")).unwrap();
        for secret in ["secret.txt", "outside/secret.txt"] {
            std::fs::write(place.folder.path().join(secret), format!("{SECRET}\n")).unwrap();
        }
        std::fs::write(root.join("victim.txt"), VICTIM).unwrap();
        std::fs::write(root.join("src/main.rs"), "fn main() {}\n").unwrap();
        std::fs::write(root.join("evil.js"), "require('fs').writeFileSync('pwned', '')\n").unwrap();
        place.script("evil", "#!/bin/sh\ntouch pwned\n");
        symlink("../secret.txt", root.join("link-out")).unwrap();
        symlink("../outside", root.join("folder-out")).unwrap();
        symlink("victim.txt", root.join("link-in")).unwrap();
        place
    }

    pub(super) fn root(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join("root")
    }

    pub(super) fn script(&self, name: &str, text: &str) {
        let path = self.root().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    }

    /// Returns a configuration with the default programs.
    pub(super) fn config(&self, landlock: Landlock) -> Config {
        Config {
            roots: vec![Root { path: self.root(), write: false }],
            environment: BTreeMap::from([("LOCKGATE_MARK".to_owned(), self.mark.clone())]),
            landlock,
            max_timeout: Duration::from_secs(60),
            output_size: 1 << 20,
            concurrent: 4,
            file_size: 1 << 20,
            open_files: 256,
            processes: 4096,
            launcher: launcher(),
            ..Config::default()
        }
    }

    /// Returns a configuration of programs with arbitrary arguments, confined by the kernel only.
    pub(super) fn code(&self, landlock: Landlock, programs: &[&str]) -> Config {
        let programs: Vec<String> = programs.iter().map(|&name| name.to_owned()).collect();
        Config {
            allow_code_execution: programs.clone(),
            programs: Some(programs),
            ..self.config(landlock)
        }
    }

    /// Returns the running processes that were started for this folder.
    pub(super) fn processes(&self) -> Vec<u32> {
        let wanted = format!("LOCKGATE_MARK={}", self.mark);
        let entries = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
        let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let marked = |id: &u32| {
            std::fs::read(format!("/proc/{id}/environ")).is_ok_and(|text| {
                text.split(|b| *b == 0).any(|variable| variable == wanted.as_bytes())
            })
        };
        ids.filter(marked).collect()
    }

    /// Waits until no process is left.
    pub(super) async fn assert_quiet(&self) {
        for _ in 0..500 {
            if self.processes().is_empty() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("processes are left: {:?}", self.processes());
    }

    /// Asserts that no file was created, changed or deleted.
    pub(super) fn assert_untouched(&self) {
        let mut all = Vec::new();
        list(self.folder.path(), &mut all);
        let pwned: Vec<_> =
            all.iter().filter(|path| path.to_string_lossy().contains("pwned")).collect();
        assert!(pwned.is_empty(), "{pwned:?}");
        assert_eq!(std::fs::read_to_string(self.root().join("victim.txt")).unwrap(), VICTIM);
        assert_eq!(
            std::fs::read_to_string(self.folder.path().join("secret.txt")).unwrap(),
            format!("{SECRET}\n")
        );
    }
}

fn list(folder: &Path, all: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap().filter_map(Result::ok) {
        if entry.file_type().unwrap().is_dir() {
            list(&entry.path(), all);
        }
        all.push(entry.path());
    }
}

/// Returns the path of a program that calls [`confined`]; cargo builds it with these tests.
fn launcher() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let path = own.parent().and_then(Path::parent).unwrap().join("examples/launcher");
    assert!(path.exists(), "build it with `cargo build -p lockgate-tools --example launcher`");
    path
}

pub(super) fn rig(shell: Config) -> Rig {
    let rig = crate::tests::rig(&crate::Config { shell: Some(shell), ..crate::Config::none() });
    let status = rig.server("shell").status();
    assert_eq!(status.trouble, None);
    rig
}

/// Runs a command line. Returns the result, or the text of the refusal.
pub(super) async fn run(rig: &Rig, command: &str) -> Result<Value, String> {
    rig.call("shell/execute", json!({ "command": command })).await
}

/// Runs a script with `sh -c`, for tests without the rule.
pub(super) async fn sh(rig: &Rig, script: &str) -> Value {
    rig.call("shell/execute", json!({"argv": ["sh", "-c", script]})).await.unwrap()
}
