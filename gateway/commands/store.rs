//! `lockgate store` and `lockgate vault`: what an operator does with the database and with the keys
//! of credentials. Gateways may run meanwhile.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Subcommand;
use lockgate_registry::{Registry, Rotation};
use lockgate_store::{Config, Inventory, Store};
use serde_json::json;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Look whether the database is whole, and what is in it
    Check,
    /// Copy a database of SQLite to a new file, while gateways work
    Backup {
        /// The new file
        file: PathBuf,
    },
    /// Put what a backup holds in the place of what there is; running gateways go by it
    Restore {
        /// The backup
        file: PathBuf,
    },
}

#[derive(Subcommand)]
pub(crate) enum VaultCommand {
    /// Seal all credentials with the first of `store.keys`, so that the others can be removed
    Rotate,
}

/// Runs a command of `lockgate store`; gives what to print.
pub(crate) fn run(
    command: &Command,
    config: &Config,
    cwd: &Path,
    json: bool,
) -> anyhow::Result<String> {
    let store = Store::new(config.place.clone());
    let inventory = start_runtime()?.block_on(async {
        let done = match command {
            Command::Check => store.check().await,
            Command::Backup { file } => store.back_up(&cwd.join(file)).await,
            Command::Restore { file } => store.restore(&cwd.join(file)).await,
        };
        store.close().await;
        done
    })?;
    let what = match command {
        Command::Check => format!("{} is whole", store.kind()),
        Command::Backup { file } => format!("{} is whole", file.display()),
        Command::Restore { file } => format!("{} is restored", file.display()),
    };
    Ok(show(&what, &inventory, json))
}

/// Runs a command of `lockgate vault`; gives what to print.
pub(crate) fn run_vault(
    command: &VaultCommand,
    config: &Config,
    json: bool,
) -> anyhow::Result<String> {
    let VaultCommand::Rotate = command;
    let rotation = start_runtime()?.block_on(async {
        let registry = Registry::open(config, Box::new(|_| Ok(()))).await?;
        let rotation = registry.rotate().await;
        registry.close().await;
        anyhow::Ok(rotation?)
    })?;
    show_rotation(&rotation, json)
}

fn start_runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().context("the runtime cannot start")
}

fn show(what: &str, inventory: &Inventory, json: bool) -> String {
    let Inventory { schema, organisations, integrations, agents, assignments } = inventory;
    if json {
        let shown = json!({
            "schema": schema,
            "organisations": organisations,
            "integrations": integrations,
            "agents": agents,
            "assignments": assignments,
        });
        return format!("{shown:#}");
    }
    if *schema == 0 {
        return "ok: nothing has been stored yet".to_owned();
    }
    format!(
        "ok: {what}; schema {schema}, {organisations} organisations, {integrations} integrations, \
         {agents} agents, {assignments} assignments"
    )
}

fn show_rotation(rotation: &Rotation, json: bool) -> anyhow::Result<String> {
    let Rotation { resealed, current, unusable } = rotation;
    if json {
        let shown = json!({"resealed": resealed, "current": current, "unusable": unusable});
        return Ok(format!("{shown:#}"));
    }
    anyhow::ensure!(
        unusable.is_empty(),
        "{resealed} credentials sealed anew, but those of {} do not open with any key of \
         `store.keys`: keep the old keys, or give these credentials anew",
        unusable.join(", ")
    );
    Ok(format!(
        "ok: {resealed} credentials sealed anew, {current} were already; keys behind the first are \
         not needed any more"
    ))
}
