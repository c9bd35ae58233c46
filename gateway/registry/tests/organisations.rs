//! Nothing of one organisation shows in another.

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
    assert_eq!(rig.registry.list_integrations(&other, &IntegrationQuery::default()).total, 0);
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
