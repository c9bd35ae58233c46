//! Operations on a real store: SQLite here, and PostgreSQL where two gateways share a store.

mod agents;
mod bounds;
mod catalogue;
mod idempotency;
mod integrations;
mod known_lists;
mod organisations;
mod outage;
#[path = "../store/tests/postgres.rs"]
mod postgres;
mod replicas;
mod secrets;
mod set;

use std::sync::Arc;

use tempfile::TempDir;

use crate::*;

/// Runs statements on the database in a folder, and returns the number of rows that the last one
/// changed.
fn run_on(folder: &std::path::Path, sql: &str) -> u64 {
    let database = rusqlite::Connection::open(folder.join("lockgate.db")).unwrap();
    database.execute_batch(sql).unwrap();
    database.changes()
}

const KEY: &str = "a-key-of-the-ring-that-is-long-enough";

/// A registry with its own store.
struct Rig {
    registry: Arc<Registry>,
    folder: TempDir,
}

impl Rig {
    async fn new() -> Self {
        Self::with_keys(&[KEY]).await
    }

    async fn with_keys(keys: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let registry = open(&file_config(&folder, keys)).await;
        Self { registry, folder }
    }

    /// Opens a second gateway's registry on the same store.
    async fn another(&self, keys: &[&str]) -> Arc<Registry> {
        open(&file_config(&self.folder, keys)).await
    }

    fn copy_to(&self, folder: &std::path::Path) {
        for file in ["lockgate.db", "lockgate.db-wal"] {
            std::fs::copy(self.folder.path().join(file), folder.join(file)).unwrap();
        }
    }

    async fn create(&self, actor: &Actor, new: NewIntegration) -> Integration {
        let made = self.registry.create_integration(actor, new, &plain()).await;
        made.unwrap().after.unwrap()
    }

    async fn agent(&self, actor: &Actor, name: &str) -> Agent {
        self.registry.create_agent(actor, name, &plain()).await.unwrap().after.unwrap()
    }
}

fn file_config(folder: &TempDir, keys: &[&str]) -> Config {
    let keys = Keys(keys.iter().map(ToString::to_string).collect());
    Config { place: StorePlace::File(folder.path().join("lockgate.db")), keys, ..Config::default() }
}

async fn open(config: &Config) -> Arc<Registry> {
    Registry::open(config, Box::new(|_| Ok(()))).await.unwrap()
}

fn actor(organisation: &str, subject: &str, role: Role) -> Actor {
    let principal = PrincipalKey { issuer: "key".to_owned(), subject: subject.to_owned() };
    Actor { organisation: organisation.into(), principal, role }
}

fn admin(organisation: &str) -> Actor {
    actor(organisation, "admin", Role::Admin)
}

fn plain() -> ChangeOptions {
    ChangeOptions::default()
}

/// Returns an integration with an API key.
fn new(name: &str) -> NewIntegration {
    NewIntegration {
        name: Some(name.to_owned()),
        slug: None,
        origin: at("https://mcp.example.com/mcp", Auth::ApiKey { header: "X-Api-Key".to_owned() }),
        credentials: Some(Secret::new("canary-credential".to_owned())),
        enabled: Some(true),
        source: None,
    }
}

fn at(url: &str, auth: Auth) -> Origin {
    Origin::Custom { url: url.to_owned(), auth }
}

/// Returns the origin of an integration with this method.
fn by(auth: Auth) -> Origin {
    at("https://mcp.example.com/mcp", auth)
}

/// Returns an integration without credentials.
fn open_one(name: &str) -> NewIntegration {
    NewIntegration { origin: by(Auth::None), credentials: None, ..new(name) }
}
