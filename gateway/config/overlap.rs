//! Checks that folders of tools contain no files of the gateway: write access to its configuration
//! would allow starting any program, and read access would reveal keys and other callers' data.

use std::path::{Path, PathBuf};

use lockgate_store::StorePlace;
use lockgate_telemetry::audit::Output;

use crate::loaded::Config;
use crate::problem::Problems;
use crate::source::{self, layer::Layers};

/// Reports folders of tools that contain files of the gateway. `read` are the configuration's
/// files; relative paths start at `cwd`.
pub fn check(
    config: &Config,
    read: &[PathBuf],
    cwd: &Path,
    layers: &Layers,
    problems: &mut Problems,
) {
    let own = own(config, read);
    for (key, folder) in folders(config) {
        let folder = real(&cwd.join(folder));
        let inside = own.iter().find(|file| real(&cwd.join(file)).starts_with(&folder));
        let Some(inside) = inside else { continue };
        let path = layers.written_path(key.split('.').map(str::to_owned).collect());
        let place = layers.place(&path);
        let what = format!(
            "contains the gateway's own `{}`, which tools could then read or change",
            source::display_path(inside, cwd).display()
        );
        problems.error(place, path.join("."), what, "use another folder");
    }
}

/// Returns the files that the gateway itself reads and writes.
fn own(config: &Config, read: &[PathBuf]) -> Vec<PathBuf> {
    let mut own = read.to_vec();
    if let Some(tls) = &config.listener.http.tls {
        own.extend([tls.cert.clone(), tls.key.clone()]);
        own.extend(tls.client_ca.clone());
    }
    own.extend(config.egress.ca_file.clone());
    if let Some(audit) = &config.telemetry.audit
        && let Output::File(file) = &audit.output
    {
        own.push(file.clone());
    }
    if let StorePlace::File(file) = &config.store.place {
        own.push(file.clone());
    }
    own.extend(config.store.own_key.clone());
    if let Some(database) = &config.tools.database {
        own.extend(database.embedded_folder().cloned());
    }
    own
}

/// Returns the folders of tools, with their keys.
fn folders(config: &Config) -> Vec<(String, PathBuf)> {
    let mut folders = Vec::new();
    if let Some(file) = &config.tools.file {
        for (at, root) in file.roots.iter().enumerate() {
            folders.push((format!("builtin.file.roots.{at}.path"), root.path.clone()));
        }
    }
    if let Some(shell) = &config.tools.shell {
        for (at, root) in shell.roots.iter().enumerate() {
            folders.push((format!("builtin.shell.roots.{at}.path"), root.path.clone()));
        }
        for (at, path) in shell.read.iter().enumerate() {
            folders.push((format!("builtin.shell.read.{at}"), path.clone()));
        }
    }
    let content = config.tools.content.iter().filter_map(|content| content.folder.clone());
    folders.extend(content.map(|folder| ("builtin.content.folder".into(), folder)));
    folders
}

/// Resolves symbolic links in the existing part of a path.
fn real(path: &Path) -> PathBuf {
    let real = path.ancestors().find_map(|start| {
        let rest = path.strip_prefix(start).ok()?;
        Some(start.canonicalize().ok()?.join(rest))
    });
    real.unwrap_or_else(|| path.to_path_buf())
}
