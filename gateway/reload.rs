//! Saving a configuration file takes effect at once: only what differs changes. A broken file changes nothing, and the
//! log says why.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lockgate_config::{Config, Loaded, Sources};
use lockgate_telemetry::Guard;
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc;

use crate::app::App;

/// Writes within this time are read once.
const SETTLE: Duration = Duration::from_millis(200);

/// Watches the files that the configuration was read from, for as long as the process runs.
pub(crate) fn watch(app: Arc<App>, loaded: Loaded, sources: Sources, log: Guard) {
    if loaded.files.is_empty() {
        return;
    }
    tokio::spawn(async move {
        let (sender, mut changes) = mpsc::channel(1);
        let mut watcher = match watcher(sender) {
            Ok(watcher) => watcher,
            Err(error) => return tracing::warn!(%error, "configuration files are not watched; restart after a change"),
        };
        let mut current = loaded.config;
        let mut folders = follow(&mut watcher, &loaded.files, &BTreeSet::new());
        while changes.recv().await.is_some() {
            tokio::time::sleep(SETTLE).await;
            while changes.try_recv().is_ok() {}
            match lockgate_config::load(&sources) {
                Err(report) => {
                    tracing::error!("the configuration stays as it was, because the new one has mistakes:\n{report}")
                }
                Ok(new) if new.config == current => {}
                Ok(new) => {
                    say_what_waits(&current, &new.config);
                    let policies = lockgate_policy::differences(&current.policy, &new.config.policy);
                    if let Err(error) = app.apply(&new.config) {
                        tracing::error!(%error, "the configuration stays as it was");
                        continue;
                    }
                    if let Err(error) = log.set_level(&new.config.telemetry.level) {
                        tracing::warn!(%error, "the log level stays as it was");
                    }
                    tracing::info!(servers = new.config.servers.len(), "configuration reloaded");
                    if !policies.is_empty() {
                        tracing::info!("policies changed:\n{}", policies.join("\n"));
                    }
                    folders = follow(&mut watcher, &new.files, &folders);
                    current = new.config;
                }
            }
        }
    });
}

fn watcher(sender: mpsc::Sender<()>) -> notify::Result<RecommendedWatcher> {
    notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        let read_only = event.is_ok_and(|event| matches!(event.kind, EventKind::Access(_)));
        if !read_only {
            let _ = sender.try_send(());
        }
    })
}

/// Watches the folders of the files: editors and Kubernetes replace files rather than writing into them.
fn follow(watcher: &mut RecommendedWatcher, files: &[PathBuf], old: &BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
    let folders: BTreeSet<PathBuf> = files.iter().filter_map(|f| f.parent().map(Path::to_path_buf)).collect();
    for folder in folders.difference(old) {
        if let Err(error) = watcher.watch(folder, RecursiveMode::NonRecursive) {
            tracing::warn!(folder = %folder.display(), %error, "this folder is not watched");
        }
    }
    folders
}

/// What a running process cannot change.
fn say_what_waits(old: &Config, new: &Config) {
    let waits = [
        (old.listener != new.listener, "listen, http"),
        (old.egress != new.egress, "egress"),
        (old.admin != new.admin, "admin"),
        (old.telemetry.audit != new.telemetry.audit, "audit"),
        (
            old.telemetry.otlp != new.telemetry.otlp || old.telemetry.format != new.telemetry.format,
            "log.format, telemetry",
        ),
    ];
    for (_, keys) in waits.iter().filter(|(changed, _)| *changed) {
        tracing::warn!("{keys}: this change takes effect at the next start");
    }
}
