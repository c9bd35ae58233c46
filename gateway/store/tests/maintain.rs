//! Tests of copies: which are valid, and that none of them harms the store.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::{add, agent, new_database};
use crate::{Store, StoreError, StorePlace};

fn store(file: &Path) -> Store {
    Store::new(StorePlace::File(file.to_owned()))
}

/// Runs statements on any file.
fn run_on(file: &Path, statements: &str) {
    rusqlite::Connection::open(file).unwrap().execute_batch(statements).unwrap();
}

fn names(folder: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        names.push(entry.file_name().into_string().unwrap());
    }
    names.sort();
    names
}

#[tokio::test]
async fn what_holds_no_store_replaces_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let own = path("own/lockgate.db");
    let working = store(&own);
    add(&working, "acme", "one").await;

    std::fs::write(path("empty.db"), "").unwrap();
    run_on(&path("tables of others.db"), "CREATE TABLE clock (id, revision)");
    run_on(&path("no tables.db"), "VACUUM");
    run_on(&path("ours by its mark.db"), crate::file::CLAIM);
    let part =
        "CREATE TABLE schema_history (version BIGINT); INSERT INTO schema_history VALUES (1);
        CREATE TABLE clock (id BIGINT, revision BIGINT, epoch TEXT);
        CREATE TABLE organisations (id TEXT)";
    run_on(&path("no clock.db"), &format!("{}; {part}", crate::file::CLAIM));
    // Like `cp` from a running gateway: all data are still in the WAL.
    std::fs::copy(&own, path("without its wal.db")).unwrap();
    std::os::unix::fs::symlink(&own, path("itself.db")).unwrap();
    std::fs::hard_link(&own, path("itself too.db")).unwrap();
    let backups = [
        "empty.db",
        "tables of others.db",
        "no tables.db",
        "ours by its mark.db",
        "no clock.db",
        "without its wal.db",
        "itself.db",
        "itself too.db",
        "own/lockgate.db",
    ];
    for name in backups {
        let error = store(&own).restore(&path(name)).await.unwrap_err();
        assert!(matches!(error, StoreError::Refused(_)), "{name}: {error:?}");
        assert!(error.to_string().contains(name), "{error}");
    }
    let inventory = store(&own).check().await.unwrap();
    assert_eq!((inventory.organisations, inventory.integrations), (1, 1));
    assert_eq!(working.load_changed(0).await.unwrap()[0].integrations.len(), 1);
    assert!(!names(&path("own")).iter().any(|name| name.contains("restoring")));
}

#[tokio::test]
async fn a_copy_with_its_wal_is_restored_whole() {
    let folder = tempfile::tempdir().unwrap();
    let [own, other] = ["own.db", "other.db"].map(|name| folder.path().join(name));
    let working = store(&own);
    add(&working, "acme", "one").await;
    for ending in ["", "-wal"] {
        let [from, to] = [&own, &other].map(|file| format!("{}{ending}", file.display()));
        std::fs::copy(from, to).unwrap();
    }
    add(&working, "acme", "two").await;
    let restored = working.restore(&other).await.unwrap();
    assert_eq!((restored.before.integrations, restored.after.integrations), (2, 1));
}

#[tokio::test]
async fn a_backup_that_nobody_may_write_is_restored_and_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let [own, backup] = ["own.db", "backup.db"].map(|name| folder.path().join(name));
    let working = store(&own);
    add(&working, "acme", "one").await;
    working.back_up(&backup).await.unwrap();
    let before = std::fs::read(&backup).unwrap();
    std::fs::set_permissions(&backup, std::fs::Permissions::from_mode(0o444)).unwrap();
    add(&working, "acme", "two").await;
    let restored = working.restore(&backup).await.unwrap();
    assert_eq!(restored.after.integrations, 1);
    assert_eq!(std::fs::read(&backup).unwrap(), before);
    assert_eq!(names(folder.path()), ["backup.db", "own.db", "own.db-shm", "own.db-wal"]);
    assert_eq!(own.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    add(&working, "acme", "three").await;
}

#[tokio::test]
async fn no_version_comes_again_for_another_content() {
    let folder = tempfile::tempdir().unwrap();
    let [own, backup] = ["own.db", "backup.db"].map(|name| folder.path().join(name));
    let working = store(&own);
    add(&working, "acme", "one").await;
    let mut change = working.begin("acme").await.unwrap();
    change.insert_agent(&agent("acme", "Helper")).await.unwrap();
    change.commit().await.unwrap();
    working.back_up(&backup).await.unwrap();
    let mut seen = 0;
    for _ in 0..5 {
        let mut change = working.begin("acme").await.unwrap();
        let mut record = change.find_integration("int_acme_one").await.unwrap().unwrap();
        record.version += 1;
        seen = record.version;
        change.update_integration(&record).await.unwrap();
        change.commit().await.unwrap();
    }
    working.restore(&backup).await.unwrap();
    let found = working.load_changed(0).await.unwrap().remove(0);
    assert!(found.integrations[0].version > seen, "{:?}", found.integrations[0]);
    assert!(found.agents[0].version > 1);
}

#[tokio::test]
async fn a_backup_that_fails_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("own.db");
    let working = store(&own);
    add(&working, "acme", "one").await;
    let nowhere = folder.path().join("no folder/copy.db");
    let error = working.back_up(&nowhere).await.unwrap_err();
    assert!(matches!(error, StoreError::ReadOnly(_)), "{error:?}");
    working.close().await;
    let mut bytes = std::fs::read(&own).unwrap();
    // All but the first page and its schema.
    bytes[4096..].fill(0x55);
    std::fs::write(&own, bytes).unwrap();
    store(&own).back_up(&folder.path().join("copy.db")).await.unwrap_err();
    assert!(!names(folder.path()).iter().any(|name| name.starts_with("copy")));
}

#[tokio::test]
async fn a_copy_under_way_is_not_written_over() {
    let folder = tempfile::tempdir().unwrap();
    let [own, copy, part] =
        ["own.db", "copy.db", "copy.db.part"].map(|name| folder.path().join(name));
    add(&store(&own), "acme", "one").await;
    std::fs::write(&part, "half a copy").unwrap();
    let error = store(&own).back_up(&copy).await.unwrap_err();
    assert!(error.to_string().contains("copy.db.part already exists"), "{error}");
    assert_eq!(std::fs::read(&part).unwrap(), b"half a copy");
    assert!(!copy.exists());
}

#[tokio::test]
async fn a_database_of_others_keeps_every_byte() {
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("songs.db");
    run_on(&other, "CREATE TABLE songs (name TEXT)");
    let before = std::fs::read(&other).unwrap();
    let backup = folder.path().join("copy.db");
    let errors = [
        store(&other).load_changed(0).await.map(drop),
        store(&other).begin("acme").await.map(drop),
        store(&other).check().await.map(drop),
        store(&other).back_up(&backup).await.map(drop),
    ];
    for error in errors {
        let error = error.unwrap_err();
        assert!(matches!(error, StoreError::Foreign(_)) && error.is_lasting(), "{error:?}");
    }
    assert_eq!(std::fs::read(&other).unwrap(), before);
    assert_eq!(names(folder.path()), ["songs.db"]);
}

#[tokio::test]
async fn a_look_changes_no_schema() {
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("own.db");
    run_on(&own, crate::file::CLAIM);
    let before = std::fs::read(&own).unwrap();
    assert_eq!(store(&own).check().await.unwrap().schema, 0);
    let error = store(&own).back_up(&folder.path().join("copy.db")).await.unwrap_err();
    assert!(error.to_string().contains("nothing has been stored"), "{error}");
    assert_eq!(std::fs::read(&own).unwrap(), before);
    assert_eq!(names(folder.path()), ["own.db"]);

    let Some(url) = new_database().await else { return };
    let store = Store::new(StorePlace::Postgres(url));
    assert_eq!(store.check().await.unwrap().schema, 0);
    let sql = "SELECT COUNT(*) FROM pg_namespace WHERE nspname = 'lockgate'";
    assert_eq!(store.count(sql).await, 0);
}
