//! Applies a saved configuration file at once; only differences take effect. A broken file changes
//! nothing and is logged. Links are followed, and folders may disappear and return. Reading or
//! writing other files in the same folders, such as an audit trail or a database, costs nothing;
//! closing one after a write costs a check of the folder.

mod watcher;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use lockgate_admission::spawn;
use lockgate_config::{Config, Loaded, Problem, Report, Severity, Sources, ValuePlace};
use lockgate_telemetry::Guard;
use tokio::sync::Notify;

use crate::app::App;
use watcher::{Look, MAX_CLOCK_LAG, MAX_ROUNDS, Watcher, are_unchanged_since};

/// Maximum number of changed policies that are logged individually.
const MAX_LOGGED_CHANGES: usize = 50;

/// Watches the files of the configuration until the process ends, and reloads them on a change or
/// when `asked` is notified.
pub(crate) fn watch(
    app: Arc<App>,
    loaded: Loaded,
    mut sources: Sources,
    log: Guard,
    asked: Arc<Notify>,
) {
    // A file that was found must stay, because without it there would be no keys and no policy.
    sources.config = loaded.file.clone().or(sources.config);
    let _ = app.sources.set(sources.clone());
    let follower = Follower {
        app,
        log,
        sources,
        started: loaded.config.clone(),
        current: loaded.config,
        good: loaded.files.clone(),
        files: loaded.files,
        begun: loaded.begun,
        seen: Look::default(),
        told: None,
        warned: loaded.warnings,
    };
    spawn(follower.run(asked));
}

/// The reason for a check of the files.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Occasion {
    /// A change in the files' folders, or a file changed by the gateway itself.
    Event,
    /// No event for some time.
    Time,
    /// SIGHUP.
    Request,
}

/// Follows the configuration's files and applies them to the gateway.
struct Follower {
    app: Arc<App>,
    log: Guard,
    sources: Sources,
    /// The configuration at process start; parts of it stay in force until the process ends.
    started: Config,
    /// The configuration in force.
    current: Config,
    /// The files of the last configuration without mistakes.
    good: Vec<PathBuf>,
    /// The files to check.
    files: Vec<PathBuf>,
    /// When reading the files of the first configuration began.
    begun: SystemTime,
    seen: Look,
    /// The mistakes that were logged.
    told: Option<String>,
    /// The warnings that were logged.
    warned: Vec<Problem>,
}

impl Follower {
    async fn run(mut self, asked: Arc<Notify>) {
        let mut watcher = match Watcher::new() {
            Ok(watcher) => Some(watcher),
            Err(error) => {
                tracing::warn!(%error, "configuration files are not watched; send SIGHUP after a \
                    change");
                None
            }
        };
        // Files that were changed between reading and watching them are read once more.
        if let Some(watcher) = &mut watcher {
            watcher.follow(&self.files);
        }
        let look = Look::at(&self.files);
        if are_unchanged_since(&self.files, self.begun - MAX_CLOCK_LAG) {
            self.seen = look;
        }
        self.check(&mut watcher, Occasion::Event).await;
        let app = Arc::clone(&self.app);
        loop {
            let occasion = tokio::select! {
                () = asked.notified() => Occasion::Request,
                () = app.reload_wanted.notified() => Occasion::Event,
                woken = next_change(&mut watcher) => match woken {
                    Some(true) => Occasion::Event,
                    Some(false) => Occasion::Time,
                    None => {
                        tracing::warn!(
                            "configuration files are no longer watched; send SIGHUP after a change"
                        );
                        watcher = None;
                        continue;
                    }
                },
            };
            self.check(&mut watcher, occasion).await;
        }
    }

    /// Watches the files and reads them if necessary. New files are watched first and then read
    /// once more, because they may have changed in between.
    async fn check(&mut self, watcher: &mut Option<Watcher>, occasion: Occasion) {
        for _ in 0..MAX_ROUNDS {
            if let Some(watcher) = watcher {
                watcher.follow(&self.files);
            }
            if !self.look_again(occasion).await {
                break;
            }
        }
    }

    /// Reads the files if they have changed or a reload was requested. Returns whether the set of
    /// files to check has changed.
    async fn look_again(&mut self, occasion: Occasion) -> bool {
        let look = Look::at(&self.files);
        let changed = look != self.seen || occasion == Occasion::Request;
        // A mistake may be fixed without an event, but not each unrelated event justifies another
        // attempt.
        if !changed && (occasion == Occasion::Event || self.told.is_none()) {
            return false;
        }
        self.seen = look;
        let read = self.sources.clone();
        // Compiling hundreds of policies would block calls on this thread.
        let Ok(new) = tokio::task::spawn_blocking(move || lockgate_config::load(&read)).await
        else {
            tracing::error!("configuration unchanged: reading the new one failed");
            return false;
        };
        let next = match new {
            Err(report) => self.keep_current(&report, changed),
            Ok(new) => self.adopt(new, occasion),
        };
        let has_others = self.files != next;
        self.files = next;
        has_others
    }

    /// Keeps the current configuration because the new one has mistakes. Returns the files to
    /// check: those of the last valid configuration, and those with mistakes.
    fn keep_current(&mut self, report: &Report, changed: bool) -> Vec<PathBuf> {
        let message = report.to_string();
        let told = self.told.replace(message.clone());
        if changed || told != Some(message) {
            log_mistakes(report);
            self.app.metrics.reloaded(false);
        }
        take_keys_away(&self.app, &self.log, &mut self.current, &self.sources.cwd);
        let wrong = find_wrong_files(report, &self.sources.cwd);
        let mut files = self.good.clone();
        files.extend(wrong);
        files
    }

    /// Applies a configuration without mistakes. Returns its files.
    fn adopt(&mut self, new: Loaded, occasion: Occasion) -> Vec<PathBuf> {
        let had_mistakes = self.told.take().is_some();
        if had_mistakes {
            tracing::info!("the configuration is valid again");
        }
        if occasion == Occasion::Request && new.config == self.current {
            tracing::info!("configuration read again after SIGHUP: nothing has changed");
        }
        for warning in &new.warnings {
            if !self.warned.contains(warning) {
                tracing::warn!("{warning}");
            }
        }
        self.warned = new.warnings;
        let differs = new.config != self.current;
        if differs {
            log_what_waits(&self.started, &self.current, &new.config);
        }
        let is_in_force = !differs || take_over(&self.app, &self.log, &self.current, &new.config);
        if differs || had_mistakes || occasion == Occasion::Request {
            self.app.metrics.reloaded(is_in_force);
        }
        if is_in_force {
            self.current = new.config;
        }
        self.good = new.files;
        self.good.clone()
    }
}

/// Waits for a change (`true`) or the next check (`false`); pends if nothing is watched.
async fn next_change(watcher: &mut Option<Watcher>) -> Option<bool> {
    match watcher {
        Some(watcher) => watcher.changed().await,
        None => std::future::pending().await,
    }
}

fn log_mistakes(report: &Report) {
    tracing::error!("configuration unchanged: the new one has mistakes");
    for problem in &report.problems {
        match problem.severity {
            Severity::Error => {
                tracing::error!(mistake = %problem, "a mistake in the new configuration")
            }
            Severity::Warning => tracing::warn!(%problem, "a warning in the new configuration"),
        }
    }
}

/// Revokes keys even though the new configuration has mistakes.
fn take_keys_away(app: &App, log: &Guard, current: &mut Config, cwd: &Path) {
    if let Some(fewer) = keep_valid_keys(current, cwd)
        && fewer != *current
        && take_over(app, log, current, &fewer)
    {
        tracing::warn!("keys were revoked; the rest of the new configuration is not applied");
        *current = fewer;
    }
}

/// Returns the configuration in force without the keys that the keys file removes or revokes. Adds
/// nothing. Returns `None` if the file cannot be read.
fn keep_valid_keys(current: &Config, cwd: &Path) -> Option<Config> {
    let file = cwd.join(current.authn.keys_file.as_ref()?);
    let now = lockgate_config::keys::load(&file, cwd).ok()?;
    let mut fewer = current.clone();
    if let Some(keys) = &mut fewer.authn.keys {
        keys.retain_mut(|key| {
            let Some(new) = now.iter().find(|new| new.id == key.id && new.hash == key.hash) else {
                return false;
            };
            key.expires = key.expires.into_iter().chain(new.expires).min();
            key.revoked = key.revoked.or(new.revoked);
            true
        });
    }
    Some(fewer)
}

/// Returns the files with mistakes, which may be new files.
fn find_wrong_files(report: &Report, cwd: &Path) -> BTreeSet<PathBuf> {
    let files = report.problems.iter().filter_map(|problem| match &problem.place {
        ValuePlace::File { path, .. } => Some(cwd.join(path.as_path())),
        _ => None,
    });
    files.collect()
}

/// Applies the new configuration, logs changes or the error, and returns whether it is in force.
fn take_over(app: &App, log: &Guard, old: &Config, new: &Config) -> bool {
    let policies = lockgate_policy::differences(&old.policy, &new.policy);
    if let Err(error) = app.apply(new) {
        tracing::error!(%error, "configuration unchanged");
        return false;
    }
    if let Err(error) = log.set_level(&new.telemetry.level) {
        tracing::warn!(%error, "log level unchanged");
    }
    tracing::info!(servers = new.servers.len(), "configuration reloaded");
    for change in policies.iter().take(MAX_LOGGED_CHANGES) {
        tracing::info!(change, "policy changed");
    }
    let more = policies.len().saturating_sub(MAX_LOGGED_CHANGES);
    if more > 0 {
        tracing::info!(more, "more policies changed");
    }
    true
}

/// Logs settings that need a restart and have changed since the last check.
fn log_what_waits(started: &Config, old: &Config, new: &Config) {
    let waiting = what_waits(started, new);
    let changed = what_waits(old, new);
    for keys in changed {
        if waiting.contains(&keys) {
            tracing::warn!("{keys}: this change takes effect at the next start");
        } else {
            tracing::info!("{keys}: same as at the start again, so no restart is needed");
        }
    }
}

/// Returns the settings that need a restart and differ between two configurations.
fn what_waits(old: &Config, new: &Config) -> Vec<&'static str> {
    let waits = [
        (old.listener != new.listener, "listen, http"),
        (old.egress != new.egress, "egress"),
        (old.admin != new.admin, "admin"),
        (old.store != new.store, "store"),
        (old.limits != new.limits, "redis"),
        (old.proxy.replicas != new.proxy.replicas, "replicas"),
        (old.telemetry.audit != new.telemetry.audit, "audit"),
        (
            old.telemetry.export != new.telemetry.export
                || old.telemetry.format != new.telemetry.format,
            "log.format, telemetry",
        ),
    ];
    let changed = waits.into_iter().filter_map(|(has_changed, names)| has_changed.then_some(names));
    changed.collect()
}
