//! A store that cannot be used as it is.

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
    let place = Place::File(folder.path().join("file/lockgate.db"));
    let registry = open(&Config { place, keys: Keys::default() }).await;
    let acme = admin("acme");
    let error = registry.create_integration(&acme, open_one("One"), &plain()).await.unwrap_err();
    assert_eq!(error.code(), "STORE_UNAVAILABLE");
    assert!(error.to_string().contains("store.url"), "{error}");
    assert_eq!(registry.list_integrations(&acme, &IntegrationQuery::default()).total, 0);
}
