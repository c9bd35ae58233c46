//! Tests of SQLite files: when each is created, and which are rejected.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::{add, integration};
use crate::{Field, IntegrationRecord, Keys, Secret, Store, StoreError, StorePlace, Vault};

fn store(file: &Path) -> Store {
    Store::new(StorePlace::File(file.to_owned()))
}

#[tokio::test]
async fn only_a_change_makes_the_file_and_for_its_owner_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("new folder #1/data?.db");
    let store = store(&file);
    assert!(store.load_changed(0).await.unwrap().is_empty());
    assert!(!file.exists());
    add(&store, "acme", "one").await;
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let made = file.parent().unwrap().metadata().unwrap();
    assert_eq!(made.permissions().mode() & 0o777, 0o700);
    assert_eq!(store.load_changed(0).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_development_folder_stays_out_of_git() {
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join(".lockgate");
    add(&store(&own.join("lockgate.db")), "acme", "one").await;
    assert_eq!(std::fs::read_to_string(own.join(".gitignore")).unwrap(), "*\n");
    let other = folder.path().join("data");
    add(&store(&other.join("lockgate.db")), "acme", "one").await;
    assert!(!other.join(".gitignore").exists());
}

#[tokio::test]
async fn a_file_of_somebody_else_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text.db");
    std::fs::write(&text, "this is a diary, and no database at all\n".repeat(50)).unwrap();
    let before = std::fs::read(&text).unwrap();
    let error = store(&text).load_changed(0).await.unwrap_err();
    assert!(matches!(error, StoreError::Foreign(_)), "{error:?}");
    assert!(error.to_string().contains("store.file"), "{error}");
    assert_eq!(std::fs::read(&text).unwrap(), before);

    let other = folder.path().join("other.db");
    let made = rusqlite::Connection::open(&other).unwrap();
    made.execute_batch("CREATE TABLE songs (name TEXT)").unwrap();
    drop(made);
    let error = store(&other).load_changed(0).await.unwrap_err();
    assert!(matches!(error, StoreError::Foreign(_)) && error.is_lasting(), "{error:?}");
}

#[tokio::test]
async fn a_damaged_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lockgate.db");
    let first = store(&file);
    for number in 0..50 {
        add(&first, "acme", &format!("s{number}")).await;
    }
    first.close().await;
    let mut bytes = std::fs::read(&file).unwrap();
    let (from, to) = (bytes.len() / 3, bytes.len() * 2 / 3);
    bytes[from..to].fill(0x55);
    std::fs::write(&file, bytes).unwrap();
    let error = store(&file).load_changed(0).await.unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error:?}");
    assert!(error.to_string().contains("restore a backup"), "{error}");
}

#[tokio::test]
async fn a_folder_that_cannot_be_made_refuses_changes_alone() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "").unwrap();
    let store = store(&folder.path().join("file/lockgate.db"));
    assert!(store.load_changed(0).await.unwrap().is_empty());
    let error = store.begin("acme").await.map(drop).unwrap_err();
    assert!(matches!(error, StoreError::ReadOnly(_)) && !error.is_lasting(), "{error:?}");
}

#[tokio::test]
async fn nothing_of_a_credential_is_in_the_files() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder.path().join("lockgate.db"));
    let vault = Vault::new(&Keys(vec!["k".repeat(40)])).unwrap();
    let canary = "canary-7f1c0a52-credential";
    let field = Field { organisation: "acme", record: "int_acme_one", field: "credentials" };
    let mut record = integration("acme", "one");
    record.sealed = Some(vault.seal(&field, &Secret::new(canary.to_owned())).unwrap());
    let mut change = store.begin("acme").await.unwrap();
    change.insert_integration(&record).await.unwrap();
    change.commit().await.unwrap();
    let mut looked_at = 0;
    for entry in std::fs::read_dir(folder.path()).unwrap().flatten() {
        let bytes = std::fs::read(entry.path()).unwrap();
        looked_at += bytes.len();
        let is_there = bytes.windows(12).any(|window| canary.as_bytes().starts_with(window));
        assert!(!is_there, "{:?}", entry.path());
    }
    assert!(looked_at > 4096);
}

#[tokio::test]
async fn a_backup_brings_everything_back_while_gateways_work() {
    let folder = tempfile::tempdir().unwrap();
    let [own, backup] = ["lockgate.db", "backup.db"].map(|name| folder.path().join(name));
    let working = store(&own);
    add(&working, "acme", "one").await;
    let made = store(&own).back_up(&backup).await.unwrap();
    assert_eq!((made.organisations, made.integrations), (1, 1));
    assert_eq!(made.schema, crate::schema::NEWEST_VERSION);
    assert_eq!(backup.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let again = store(&own).back_up(&backup).await.unwrap_err();
    assert!(again.to_string().contains("already exists"), "{again}");

    let before = working.load_changed(0).await.unwrap();
    add(&working, "acme", "two").await;
    add(&working, "other", "three").await;
    let seen = working.load_changed(0).await.unwrap()[1].revision;
    store(&own).restore(&backup).await.unwrap();
    // A reader of the whole store receives the change.
    let changed = working.load_changed(seen).await.unwrap();
    assert_eq!(changed.len(), 1, "the other one is gone");
    let acme = changed.iter().find(|one| one.id == "acme").unwrap();
    let version = acme.integrations[0].version;
    let wanted = IntegrationRecord { version, ..before[0].integrations[0].clone() };
    assert_eq!(acme.integrations, [wanted]);
    add(&working, "acme", "two").await;
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().flatten().collect();
    assert!(!left.iter().any(|entry| entry.path().to_string_lossy().contains("restoring")));
}

#[tokio::test]
async fn a_copy_that_is_none_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lockgate.db");
    add(&store(&file), "acme", "one").await;
    let letter = folder.path().join("letter.db");
    std::fs::write(&letter, "dear friend, this is no database\n".repeat(200)).unwrap();
    let none = folder.path().join("none.db");
    for copy in [&letter, &none] {
        store(&file).restore(copy).await.unwrap_err();
    }
    let inventory = store(&file).check().await.unwrap();
    assert_eq!((inventory.organisations, inventory.integrations), (1, 1));
    assert_eq!(store(&folder.path().join("new.db")).check().await.unwrap().schema, 0);
}
