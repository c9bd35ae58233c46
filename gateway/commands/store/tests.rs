//! Output and exit codes of the commands on a store with contents.

use lockgate_registry::{Actor, Auth, ChangeOptions, NewIntegration, Origin, PrincipalKey, Role};
use lockgate_store::{Keys, Secret, StorePlace};
use serde_json::Value;

use super::*;

fn config(folder: &Path, key: &str) -> Config {
    Config {
        place: StorePlace::File(folder.join("own.db")),
        keys: Keys(vec![key.repeat(40)]),
        ..Config::default()
    }
}

fn add_integration(config: &Config) {
    let principal = PrincipalKey { issuer: "key".to_owned(), subject: "ann".to_owned() };
    let actor = Actor { organisation: "acme".into(), principal, role: Role::Admin };
    let new = NewIntegration {
        name: Some("One".to_owned()),
        slug: None,
        origin: Origin::Custom {
            url: "https://mcp.example.com/mcp".to_owned(),
            auth: Auth::BearerToken,
        },
        credentials: Some(Secret::new("t0ken-of-ann".to_owned())),
        enabled: Some(true),
        source: None,
    };
    let added = start_runtime().unwrap().block_on(async {
        let registry = Registry::open(config, Box::new(|_| Ok(()))).await.unwrap();
        let added = registry.create_integration(&actor, new, &ChangeOptions::default()).await;
        registry.close().await;
        added
    });
    added.unwrap();
}

#[test]
fn a_rotation_that_leaves_credentials_shut_fails_in_every_form() {
    let folder = tempfile::tempdir().unwrap();
    add_integration(&config(folder.path(), "a"));
    let other = config(folder.path(), "b");
    let (text, code) = run_vault(&VaultCommand::Rotate, &other, true).unwrap();
    assert_eq!(code, ExitCode::FAILURE, "{text}");
    let shown: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(shown["unusable"].as_array().unwrap().len(), 1, "{shown}");
    let error = run_vault(&VaultCommand::Rotate, &other, false).unwrap_err().to_string();
    assert!(error.contains("int_") && error.contains("store.keys"), "{error}");
    let own = config(folder.path(), "a");
    assert_eq!(run_vault(&VaultCommand::Rotate, &own, true).unwrap().1, ExitCode::SUCCESS);
}

#[test]
fn a_restore_says_what_there_was_and_what_there_is() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path(), "a");
    add_integration(&config);
    let backup = Command::Backup { file: "copy.db".into() };
    let shown = run(&backup, &config, folder.path(), false).unwrap();
    assert!(shown.contains("copy.db is intact") && shown.contains(" 1 integration,"), "{shown}");
    let empty = Config { place: StorePlace::File(folder.path().join("new.db")), ..config };
    let restore = Command::Restore { file: "copy.db".into() };
    let shown = run(&restore, &empty, folder.path(), false).unwrap();
    let [before, now] =
        ["before 0 organisations, 0 integrations", "now 1 organisation, 1 integration, 0"];
    assert!(shown.contains(before) && shown.contains(now), "{shown}");
    let shown = run(&restore, &empty, folder.path(), true).unwrap();
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(
        (&shown["before"]["integrations"], &shown["after"]["agents"]),
        (&json!(1), &json!(0))
    );
}
