//! Isolation between organisations.

use lockgate_store::Store;

use super::*;

#[tokio::test]
async fn a_strangers_integration_is_like_none() {
    let rig = Rig::new().await;
    let id = rig.create(&admin("acme"), new("One")).await.id;
    let other = admin("other");
    let unknown = rig.registry.integration(&other, "int_none").unwrap_err().to_string();
    assert_eq!(rig.registry.integration(&other, &id).unwrap_err().to_string(), unknown);
    let gone = rig.registry.delete_integration(&other, &id, &plain()).await.unwrap_err();
    assert_eq!(gone.to_string(), unknown);
    let patch = IntegrationPatch { enabled: Some(false), ..IntegrationPatch::default() };
    let error = rig.registry.patch_integration(&other, &id, patch, &plain()).await.unwrap_err();
    assert_eq!(error.to_string(), unknown);
    assert!(rig.registry.snapshot("other").integrations.is_empty());
    assert_eq!(rig.registry.list_integrations(&other).len(), 0);
    assert_eq!(rig.registry.integration(&admin("acme"), &id).unwrap().version, 1);
}

#[tokio::test]
async fn a_change_of_one_is_no_work_for_another() {
    let rig = Rig::new().await;
    rig.create(&admin("acme"), new("One")).await;
    rig.create(&admin("other"), new("One")).await;
    let before = rig.registry.snapshot("acme");
    let mut changes = rig.registry.changes();
    rig.create(&admin("other"), new("Two")).await;
    assert!(Arc::ptr_eq(&before, &rig.registry.snapshot("acme")));
    assert_eq!(&*changes.try_recv().unwrap(), "other");
    assert!(changes.try_recv().is_err());
}

#[tokio::test]
async fn organisations_are_those_that_something_is_stored_of() {
    let rig = Rig::new().await;
    assert!(rig.registry.organisations().is_empty());
    rig.create(&admin("b"), new("One")).await;
    rig.create(&admin("a"), new("One")).await;
    rig.agent(&admin("a"), "Helper").await;
    let all = rig.registry.organisations();
    let counts: Vec<_> = all.iter().map(|o| (o.id.as_str(), o.integrations, o.agents)).collect();
    assert_eq!(counts, [("a", 1, 1), ("b", 1, 0)]);
}

#[tokio::test]
async fn an_empty_organisation_is_created_and_deleted_everywhere() {
    let rig = Rig::new().await;
    let operator = actor("acme", "operator", Role::Operator);
    let other = rig.another(&[KEY]).await;
    let created = rig.registry.create_organisation(&operator, &plain()).await.unwrap();
    assert_eq!(created.after.unwrap().id, "acme");
    let error = other.create_organisation(&operator, &plain()).await.unwrap_err();
    assert_eq!(error.code(), "ORGANIZATION_ALREADY_EXISTS");
    other.refresh().await.unwrap();
    assert!(other.has_organisation("acme") && rig.registry.has_organisation("acme"));
    let made = rig.create(&operator, new("One")).await;
    let error = rig.registry.delete_organisation(&operator, &plain()).await.unwrap_err();
    assert_eq!(error.code(), "ORGANIZATION_NOT_EMPTY");
    rig.registry.delete_integration(&operator, &made.id, &plain()).await.unwrap();
    let dry = ChangeOptions { dry_run: true, ..plain() };
    assert!(rig.registry.delete_organisation(&operator, &dry).await.unwrap().is_dry_run);
    assert!(rig.registry.has_organisation("acme"));
    let mut changes = other.changes();
    rig.registry.delete_organisation(&operator, &plain()).await.unwrap();
    assert!(!rig.registry.has_organisation("acme"));
    other.refresh().await.unwrap();
    assert!(!other.has_organisation("acme"));
    while &*changes.try_recv().unwrap() != "acme" {}
    let error = rig.registry.delete_organisation(&operator, &plain()).await.unwrap_err();
    assert_eq!(error.code(), "ORGANIZATION_NOT_FOUND");
    assert!(!rig.registry.has_organisation("acme"), "nor does asking create it");
    for name in ["", "a\0", "a ", "a/b"] {
        let operator = actor(name, "operator", Role::Operator);
        let error = rig.registry.create_organisation(&operator, &plain()).await.unwrap_err();
        assert_eq!((error.code(), error.pointer()), ("INVALID_FIELD", Some("/id")), "{name:?}");
    }
}

#[tokio::test]
async fn after_a_restore_organisations_are_gone_and_those_that_are_as_they_were_are_no_news() {
    let rig = Rig::new().await;
    rig.create(&admin("acme"), new("One")).await;
    let store = Store::new(file_config(&rig.folder, &[]).place);
    let backup = rig.folder.path().join("backup.db");
    store.back_up(&backup).await.unwrap();
    rig.create(&admin("late"), new("One")).await;
    let mut changes = rig.registry.changes();
    store.restore(&backup).await.unwrap();
    rig.registry.refresh().await.unwrap();
    assert!(rig.registry.snapshot("late").integrations.is_empty());
    let organisations = rig.registry.organisations();
    assert_eq!(organisations.len(), 1);
    assert_eq!(organisations[0].id, "acme");
    let news = [changes.try_recv().unwrap(), changes.try_recv().unwrap()];
    assert!(news.iter().any(|id| &**id == "late"), "{news:?}");
    // Read again over a new connection, the state is the same.
    let file = rig.folder.path().join("lockgate.db");
    let copy = rig.folder.path().join("copy.db");
    store.back_up(&copy).await.unwrap();
    std::fs::remove_file(rig.folder.path().join("lockgate.db-wal")).unwrap();
    std::fs::rename(&copy, &file).unwrap();
    rig.registry.refresh().await.unwrap();
    assert!(changes.try_recv().is_err());
}
