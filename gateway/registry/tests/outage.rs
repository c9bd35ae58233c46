//! Stores that cannot be used.

use super::*;

#[tokio::test]
async fn a_database_of_others_stops_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lockgate.db");
    std::fs::write(&file, "a letter to somebody, which is no database\n".repeat(100)).unwrap();
    let opened = Registry::open(&file_config(&folder, &[KEY]), Box::new(|_| Ok(()))).await;
    let error = opened.err().unwrap();
    assert!(matches!(error, StoreError::Foreign(_)), "{error:?}");
}

#[tokio::test]
async fn a_place_that_cannot_be_written_refuses_changes_with_the_way_out() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "").unwrap();
    let place = StorePlace::File(folder.path().join("file/lockgate.db"));
    let registry = open(&Config { place, ..Config::default() }).await;
    let acme = admin("acme");
    let error = registry.create_integration(&acme, open_one("One"), &plain()).await.unwrap_err();
    assert_eq!(error.code(), "STORE_UNAVAILABLE");
    // Messages with file names are for the operator only.
    let folder = folder.path().to_str().unwrap();
    assert!(!error.to_string().contains(folder) && !error.to_string().contains("store.url"));
    let trouble = registry.trouble().unwrap();
    assert!(trouble.contains(folder) && trouble.contains("store.url"), "{trouble}");
    assert_eq!(registry.list_integrations(&acme).len(), 0);
}

/// Makes a database read-only, or writable again.
fn set_read_only(server: &postgres::Postgres, is_read_only: bool) {
    let state = if is_read_only { "on" } else { "off" };
    let change = format!("ALTER ROLE postgres SET default_transaction_read_only = {state}");
    server.run_sql(&format!("BEGIN READ WRITE; {change}; COMMIT"));
}

#[tokio::test]
async fn what_can_only_be_read_is_served_and_said_until_a_change_is_made() {
    let Some(postgres) = postgres::Postgres::start() else { return };
    let keys = Keys(vec![KEY.to_owned()]);
    let config = Config { place: StorePlace::Postgres(postgres.url()), keys, ..Config::default() };
    let acme = admin("acme");
    let first = open(&config).await;
    first.create_integration(&acme, new("One"), &plain()).await.unwrap();
    first.close().await;
    set_read_only(&postgres, true);
    let registry = open(&config).await;
    assert_eq!(registry.snapshot("acme").integrations.len(), 1);
    for _ in 0..2 {
        let error = registry.create_integration(&acme, new("Two"), &plain()).await.unwrap_err();
        assert_eq!(error.code(), "STORE_UNAVAILABLE");
        assert!(error.to_string().contains("cannot be written"), "{error}");
        // Reads succeed, and do not clear the failure of writes.
        registry.refresh().await.unwrap();
        assert!(registry.trouble().unwrap().contains("standby"));
    }
    set_read_only(&postgres, false);
    registry.refresh().await.unwrap();
    assert!(registry.trouble().is_some(), "nobody has written");
    registry.create_integration(&acme, new("Two"), &plain()).await.unwrap();
    assert!(registry.trouble().is_none());
}
