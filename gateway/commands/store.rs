//! `lockgate store` and `lockgate vault`: maintenance of the database and the credential keys.
//! Gateways can keep running.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Subcommand;
use lockgate_registry::Registry;
use lockgate_store::{Config, Inventory, Resealed, Restored, Store};
use lockgate_text::count::count;
use serde_json::json;

use crate::commands::Printed;
use crate::commands::show::pretty;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Check the integrity of the database, and count its records
    Check,
    /// Copy a SQLite database to a new file while gateways are running
    Backup {
        /// The new file
        file: PathBuf,
    },
    /// Replace the content of the database with a backup; running gateways apply it
    Restore {
        /// The backup
        file: PathBuf,
    },
}

#[derive(Subcommand)]
pub(crate) enum VaultCommand {
    /// Encrypt all credentials with the first of `store.keys`, so that the others can be removed
    Rotate,
}

pub(crate) fn run(
    command: &Command,
    config: &Config,
    cwd: &Path,
    json: bool,
) -> anyhow::Result<String> {
    let store = Store::new(config.place.clone());
    start_runtime()?.block_on(async {
        let shown = match command {
            Command::Check => {
                let inventory = store.check().await?;
                show(&format!("{} is intact", store.kind()), &inventory, json)
            }
            Command::Backup { file } => {
                let inventory = store.back_up(&cwd.join(file)).await?;
                show(&format!("{} is intact", file.display()), &inventory, json)
            }
            Command::Restore { file } => {
                let restored = store.restore(&cwd.join(file)).await?;
                show_restored(file, &restored, json)
            }
        };
        store.close().await;
        Ok(shown)
    })
}

/// Runs a command of `lockgate vault`; fails if any credential cannot be decrypted.
pub(crate) fn run_vault(command: &VaultCommand, config: &Config, json: bool) -> Printed {
    let VaultCommand::Rotate = command;
    let rotation = start_runtime()?.block_on(async {
        Store::new(config.place.clone()).require_newest_schema().await?;
        let registry = Registry::open(config, Box::new(|_| Ok(()))).await?;
        let rotation = registry.rotate().await;
        registry.close().await;
        anyhow::Ok(rotation?)
    })?;
    let is_complete = rotation.unusable.is_empty();
    let code = if is_complete { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    if json {
        return Ok((pretty(&json!(rotation)), code));
    }
    Ok((show_rotation(&rotation)?, code))
}

fn start_runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().context("the runtime cannot start")
}

fn show(what: &str, inventory: &Inventory, json: bool) -> String {
    if json {
        return pretty(&json!(inventory));
    }
    if inventory.schema == 0 {
        return "ok: nothing has been stored yet".to_owned();
    }
    format!("ok: {what}; schema {}, {}", inventory.schema, count_all(inventory))
}

fn show_restored(file: &Path, restored: &Restored, json: bool) -> String {
    let Restored { before, after } = restored;
    if json {
        return pretty(&json!({"before": before, "after": after}));
    }
    let file = file.display();
    format!("ok: {file} is restored; before {}; now {}", count_all(before), count_all(after))
}

fn count_all(inventory: &Inventory) -> String {
    let Inventory { organisations, integrations, agents, assignments, .. } = *inventory;
    [
        count(organisations, "organisation"),
        count(integrations, "integration"),
        count(agents, "agent"),
        count(assignments, "assignment"),
    ]
    .join(", ")
}

fn show_rotation(rotation: &Resealed) -> anyhow::Result<String> {
    let Resealed { resealed, current, unusable } = rotation;
    anyhow::ensure!(
        unusable.is_empty(),
        "{resealed} credentials resealed, but those of {} cannot be decrypted with any key of \
            `store.keys`: keep the old keys, or enter these credentials again",
        unusable.join(", ")
    );
    Ok(format!(
        "ok: {resealed} credentials resealed, {current} were current; keys after the first are no \
            longer needed"
    ))
}

#[cfg(test)]
mod tests;
