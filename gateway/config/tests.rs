//! End-to-end tests from files, environment and flags to a configuration or a report.

mod accounts;
mod catalogue;
mod clients;
mod compose;
mod documents;
mod edges;
mod garbage;
mod identity;
mod include;
mod mistakes;
mod policies;
mod precedence;
mod published;
mod running;
mod secrets;
mod shell;
mod sign_in;
mod store;
mod web;

use std::path::Path;

use crate::{Flags, Loaded, Report, Sources};

fn certificate() -> (String, String) {
    let pair = rcgen::generate_simple_self_signed(["gate.test".to_owned()]).unwrap();
    (pair.cert.pem(), pair.signing_key.serialize_pem())
}

/// A folder with files, and the other sources of a configuration.
pub struct TestConfig {
    folder: tempfile::TempDir,
    pub sources: Sources,
}

impl TestConfig {
    pub fn files(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let sources = Sources {
            cwd: folder.path().to_path_buf(),
            env: [("PATH".to_string(), "/usr/bin:/bin".to_string())].into(),
            ..Sources::default()
        };
        Self { folder, sources }
    }

    pub fn yaml(text: &str) -> Self {
        Self::files(&[("lockgate.yaml", text)])
    }

    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.sources.env.insert(name.to_string(), value.to_string());
        self
    }

    pub fn flags(mut self, flags: Flags) -> Self {
        self.sources.flags = flags;
        self
    }

    pub fn mcp_servers(mut self, name: &str) -> Self {
        self.sources.mcp_servers.push(name.into());
        self
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn load(&self) -> Result<Loaded, Report> {
        crate::load(&self.sources)
    }

    pub fn loaded(&self) -> Loaded {
        self.load().unwrap_or_else(|report| panic!("{report}"))
    }

    pub fn messages(&self) -> Vec<String> {
        let problems = match self.load() {
            Ok(loaded) => loaded.warnings,
            Err(report) => report.problems,
        };
        problems.iter().map(ToString::to_string).collect()
    }
}
