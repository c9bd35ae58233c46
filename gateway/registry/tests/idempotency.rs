//! Repeated changes with the same idempotency key.

use super::*;

#[tokio::test]
async fn a_change_sent_again_is_answered_as_it_was_and_not_made_again() {
    let rig = Rig::new().await;
    let acme = admin("acme");
    let keyed = ChangeOptions { idempotency_key: Some("k-1".to_owned()), ..plain() };
    let first = rig.registry.create_integration(&acme, new("One"), &keyed).await.unwrap();
    let again = rig.registry.create_integration(&acme, new("One"), &keyed).await.unwrap();
    assert_eq!(first.after, again.after);
    assert!(!first.is_replayed && again.is_replayed);
    // Also with a default written out.
    let default = NewIntegration { enabled: Some(true), ..new("One") };
    let again = rig.registry.create_integration(&acme, default, &keyed).await.unwrap();
    assert!(again.is_replayed);
    // Also on another gateway, and after the integration was deleted.
    let other = rig.another(&[KEY]).await;
    let id = first.after.as_ref().unwrap().id.clone();
    rig.registry.delete_integration(&acme, &id, &plain()).await.unwrap();
    let later = other.create_integration(&acme, new("One"), &keyed).await.unwrap();
    assert!(later.is_replayed && later.after == first.after);
    other.refresh().await.unwrap();
    assert_eq!(other.list_integrations(&acme).len(), 0);
}

#[tokio::test]
async fn a_key_stands_for_one_change_of_one_principal() {
    let rig = Rig::new().await;
    let acme = admin("acme");
    let keyed = ChangeOptions { idempotency_key: Some("k-1".to_owned()), ..plain() };
    rig.registry.create_integration(&acme, new("One"), &keyed).await.unwrap();
    let other_secret =
        NewIntegration { credentials: Some(Secret::new("another-one".to_owned())), ..new("One") };
    for other in [new("Two"), other_secret] {
        let error = rig.registry.create_integration(&acme, other, &keyed).await.unwrap_err();
        assert_eq!(error.code(), "IDEMPOTENCY_KEY_REUSED");
    }
    let bob = actor("acme", "bob", Role::Admin);
    let own = rig.registry.create_integration(&bob, new("Two"), &keyed).await.unwrap();
    assert!(!own.is_replayed);
    let long = ChangeOptions { idempotency_key: Some("x".repeat(256)), ..plain() };
    let error = rig.registry.create_integration(&acme, new("Three"), &long).await.unwrap_err();
    // The key is a header, so the error has no JSON Pointer.
    assert_eq!((error.code(), error.pointer()), ("INVALID_FIELD", None));
    assert!(error.to_string().contains("`Idempotency-Key`"), "{error}");
}

#[tokio::test]
async fn a_dry_run_uses_up_no_key() {
    let rig = Rig::new().await;
    let acme = admin("acme");
    let key = Some("k-1".to_owned());
    let dry = ChangeOptions { idempotency_key: key.clone(), dry_run: true, ..plain() };
    rig.registry.create_integration(&acme, new("One"), &dry).await.unwrap();
    let keyed = ChangeOptions { idempotency_key: key, ..plain() };
    let made = rig.registry.create_integration(&acme, new("One"), &keyed).await.unwrap();
    assert!(!made.is_replayed);
    assert_eq!(rig.registry.list_integrations(&acme).len(), 1);
}

#[tokio::test]
async fn a_dry_run_with_a_used_key_says_what_the_change_was_and_that_it_is_a_dry_run() {
    let rig = Rig::new().await;
    let acme = admin("acme");
    let keyed = ChangeOptions { idempotency_key: Some("k-1".to_owned()), ..plain() };
    let made = rig.registry.create_integration(&acme, new("One"), &keyed).await.unwrap();
    let dry = ChangeOptions { dry_run: true, ..keyed };
    let tried = rig.registry.create_integration(&acme, new("One"), &dry).await.unwrap();
    assert!(tried.is_dry_run && tried.is_replayed);
    assert_eq!(tried.after, made.after);
    let error = rig.registry.create_integration(&acme, new("Two"), &dry).await.unwrap_err();
    assert_eq!(error.code(), "IDEMPOTENCY_KEY_REUSED");
}

#[tokio::test]
async fn a_change_is_known_again_after_the_ring_has_got_a_new_key() {
    let rig = Rig::new().await;
    let acme = admin("acme");
    let keyed = ChangeOptions { idempotency_key: Some("k-1".to_owned()), ..plain() };
    rig.registry.create_integration(&acme, new("One"), &keyed).await.unwrap();
    let ring = rig.another(&["a-newer-key-of-the-ring-long-enough-too", KEY]).await;
    assert!(ring.create_integration(&acme, new("One"), &keyed).await.unwrap().is_replayed);
    let other =
        NewIntegration { credentials: Some(Secret::new("other-one".to_owned())), ..new("One") };
    let error = ring.create_integration(&acme, other, &keyed).await.unwrap_err();
    assert_eq!(error.code(), "IDEMPOTENCY_KEY_REUSED");
}
