//! Credentials: encrypted when stored, decrypted for the data plane only, and sent only to the
//! address that they were given for.

use super::*;

fn credential(registry: &Registry) -> CredentialState {
    registry.snapshot("acme").integrations[0].credential.clone()
}

fn ready(header: &str, value: &str) -> CredentialState {
    let value = Secret::new(value.to_owned());
    CredentialState::Ready(Credential { header: header.into(), value })
}

#[tokio::test]
async fn the_snapshot_has_what_is_needed_to_connect() {
    let rig = Rig::new().await;
    let acme = admin("acme");
    let id = rig.create(&acme, new("One")).await.id;
    assert_eq!(credential(&rig.registry), ready("x-api-key", "canary-credential"));
    let patch = IntegrationPatch {
        auth: Some(Auth::BearerToken),
        credentials: Some(Secret::new("t0ken-of-it".to_owned())),
        ..IntegrationPatch::default()
    };
    rig.registry.patch_integration(&acme, &id, patch, &plain()).await.unwrap();
    assert_eq!(credential(&rig.registry), ready("authorization", "Bearer t0ken-of-it"));
    // A gateway started later decrypts the same credential.
    assert_eq!(
        credential(&*rig.another(&[KEY]).await),
        ready("authorization", "Bearer t0ken-of-it")
    );
    rig.registry.enable_integration(&acme, &id, false, &plain()).await.unwrap();
    assert!(rig.registry.snapshot("acme").integrations.is_empty());
}

#[tokio::test]
async fn nobody_has_a_secret_sent_elsewhere_that_they_do_not_know() {
    let rig = Rig::new().await;
    let acme = admin("acme");
    let id = rig.create(&acme, new("One")).await.id;
    let elsewhere = [
        IntegrationPatch { url: Some("https://evil.example/".to_owned()), ..patch() },
        IntegrationPatch { url: Some("http://mcp.example.com/mcp".to_owned()), ..patch() },
        IntegrationPatch { url: Some("https://mcp.example.com:8443/".to_owned()), ..patch() },
        // A host may serve many tenants.
        IntegrationPatch { url: Some("https://mcp.example.com/evil".to_owned()), ..patch() },
        IntegrationPatch { url: Some("https://mcp.example.com/mcp?to=evil".to_owned()), ..patch() },
        IntegrationPatch { url: Some("https://mcp.example.com/MCP".to_owned()), ..patch() },
        IntegrationPatch { auth: Some(Auth::BearerToken), ..patch() },
        IntegrationPatch { auth: Some(Auth::ApiKey { header: "x-trace".to_owned() }), ..patch() },
    ];
    for patch in elsewhere {
        let error = rig.registry.patch_integration(&acme, &id, patch, &plain()).await.unwrap_err();
        assert_eq!(error.pointer(), Some("/credentials"), "{error}");
    }
    let path = IntegrationPatch { url: Some("https://mcp.example.com/mcp/".to_owned()), ..patch() };
    rig.registry.patch_integration(&acme, &id, path, &plain()).await.unwrap();
    assert_eq!(credential(&rig.registry), ready("x-api-key", "canary-credential"));
    let none = IntegrationPatch { auth: Some(Auth::None), ..patch() };
    let none = rig.registry.patch_integration(&acme, &id, none, &plain()).await.unwrap();
    assert!(!none.after.unwrap().has_credentials);
}

fn patch() -> IntegrationPatch {
    IntegrationPatch::default()
}

#[tokio::test]
async fn a_row_that_was_moved_or_led_elsewhere_in_the_database_does_not_open() {
    let rig = Rig::new().await;
    rig.create(&admin("acme"), new("One")).await;
    let mut other = new("Two");
    other.credentials = Some(Secret::new("of-the-other".to_owned()));
    rig.create(&admin("other"), other).await;
    let tampered = [
        "UPDATE integrations SET sealed = (SELECT sealed FROM integrations WHERE organisation = \
            'other') WHERE organisation = 'acme'",
        "UPDATE integrations SET url = 'https://evil.example/' WHERE organisation = 'acme'",
        "UPDATE integrations SET url = url || '/evil' WHERE organisation = 'acme'",
        "UPDATE integrations SET url = url || '?to=evil' WHERE organisation = 'acme'",
        "UPDATE integrations SET auth = 'bearer_token' WHERE organisation = 'acme'",
        "UPDATE integrations SET auth_header = 'x-trace' WHERE organisation = 'acme'",
        "UPDATE integrations SET sealed = NULL WHERE organisation = 'acme'",
    ];
    for sql in tampered {
        let copy = tempfile::tempdir().unwrap();
        rig.copy_to(copy.path());
        assert_eq!(run_on(copy.path(), sql), 1);
        let registry = open(&file_config(&copy, &[KEY])).await;
        assert!(matches!(credential(&registry), CredentialState::Unusable(_)), "{sql}");
    }
}

#[tokio::test]
async fn without_the_ring_nothing_opens_and_nothing_is_stored() {
    let rig = Rig::new().await;
    rig.create(&admin("acme"), new("One")).await;
    let wrong = rig.another(&["another-key-that-is-long-enough-too-"]).await;
    assert_eq!(credential(&wrong), CredentialState::Unusable(VaultError::UnknownKey));
    let none = rig.another(&[]).await;
    assert_eq!(credential(&none), CredentialState::Unusable(VaultError::UnknownKey));
    assert!(!none.can_store_credentials());
    let error = none.create_integration(&admin("acme"), new("Two"), &plain()).await.unwrap_err();
    assert_eq!((error.code(), error.pointer()), ("NO_VAULT_KEY", Some("/credentials")));
    assert!(error.to_string().contains("store.keys"), "{error}");
    // Integrations without a secret still work.
    none.create_integration(&admin("acme"), open_one("Two"), &plain()).await.unwrap();
    // With the new key first and the old key second, all credentials decrypt.
    let ring = rig.another(&["another-key-that-is-long-enough-too-", KEY]).await;
    assert_eq!(credential(&ring), ready("x-api-key", "canary-credential"));
}

#[tokio::test]
async fn no_answer_error_or_file_holds_the_secret() {
    let rig = Rig::new().await;
    let acme = admin("acme");
    let keyed = ChangeOptions { idempotency_key: Some("k".to_owned()), ..plain() };
    let made = rig.registry.create_integration(&acme, new("One"), &keyed).await;
    let again = rig.registry.create_integration(&acme, new("One"), &keyed).await;
    let taken = rig.registry.create_integration(&acme, new("One"), &plain()).await;
    let wrong = NewIntegration {
        credentials: Some(Secret::new("canary-credential\r\nx: y".to_owned())),
        ..new("Two")
    };
    let wrong = rig.registry.create_integration(&acme, wrong, &plain()).await;
    let snapshot = rig.registry.snapshot("acme");
    let list = rig.registry.list_integrations(&acme);
    let shown =
        format!("{made:?} {again:?} {taken:?} {wrong:?} {snapshot:?} {list:?} {:?}", new("x"));
    assert!(shown.contains("One") && !shown.contains("canary"), "{shown}");
    let json = serde_json::to_string(&made.unwrap()).unwrap();
    assert!(!json.contains("canary"), "{json}");
    let mut bytes = 0;
    for entry in std::fs::read_dir(rig.folder.path()).unwrap().flatten() {
        let file = std::fs::read(entry.path()).unwrap();
        bytes += file.len();
        assert!(!file.windows(6).any(|part| part == b"canary"), "{:?}", entry.path());
    }
    assert!(bytes > 4096);
}

#[tokio::test]
async fn credentials_belong_to_a_method_that_sends_them() {
    let rig = Rig::new().await;
    let acme = admin("acme");
    let wrong = [
        NewIntegration { origin: by(Auth::None), ..new("One") },
        NewIntegration { credentials: None, ..new("One") },
        NewIntegration { origin: by(Auth::BearerToken), credentials: None, ..new("One") },
    ];
    for new in wrong {
        let error = rig.registry.create_integration(&acme, new, &plain()).await.unwrap_err();
        assert_eq!(error.pointer(), Some("/credentials"));
    }
}

#[tokio::test]
async fn after_a_rotation_the_first_key_is_enough() {
    const NEW: &str = "the-newer-key-of-the-ring-long-enough";
    let rig = Rig::new().await;
    let acme = admin("acme");
    let before = rig.create(&acme, new("One")).await;
    rig.create(&admin("other"), new("One")).await;
    rig.create(&acme, open_one("Open")).await;
    let ring = rig.another(&[NEW, KEY]).await;
    let rotation = ring.rotate().await.unwrap();
    assert_eq!((rotation.resealed, rotation.current, rotation.unusable.len()), (2, 0, 0));
    // Nothing else changes, so running gateways keep their connections.
    assert_eq!(ring.integration(&acme, &before.id).unwrap(), before);
    assert_eq!(credential(&*rig.another(&[NEW]).await), ready("x-api-key", "canary-credential"));
    assert_eq!(ring.rotate().await.unwrap().current, 2);
    // A gateway with neither key reports the unusable credentials, and changes nothing.
    let lost = rig.another(&["some-other-key-that-is-long-enough-too"]).await;
    let rotation = lost.rotate().await.unwrap();
    assert_eq!((rotation.resealed, rotation.unusable.len()), (0, 2));
    assert_eq!(credential(&*rig.another(&[NEW]).await), ready("x-api-key", "canary-credential"));
    let error = rig.another(&[]).await.rotate().await.unwrap_err();
    assert!(matches!(error, StoreError::Vault(VaultError::NoKey)), "{error:?}");
}

#[tokio::test]
async fn an_address_that_is_stored_in_no_form_is_given_anew() {
    let rig = Rig::new().await;
    let acme = admin("acme");
    let id = rig.create(&acme, new("One")).await.id;
    let copy = tempfile::tempdir().unwrap();
    rig.copy_to(copy.path());
    assert_eq!(run_on(copy.path(), "UPDATE integrations SET url = 'no address'"), 1);
    let registry = open(&file_config(&copy, &[KEY])).await;
    assert!(registry.snapshot("acme").integrations.is_empty());
    let name = IntegrationPatch { name: Some("Two".to_owned()), ..patch() };
    let error = registry.patch_integration(&acme, &id, name, &plain()).await.unwrap_err();
    assert_eq!(error.pointer(), Some("/url"));
    let address = Some("https://mcp.example.com/mcp".to_owned());
    let unsafe_one = IntegrationPatch { url: address.clone(), ..patch() };
    let error = registry.patch_integration(&acme, &id, unsafe_one, &plain()).await.unwrap_err();
    assert_eq!(error.pointer(), Some("/credentials"), "nobody knows where they went before");
    let credentials = Some(Secret::new("given-anew".to_owned()));
    let anew = IntegrationPatch { url: address, credentials, ..patch() };
    registry.patch_integration(&acme, &id, anew, &plain()).await.unwrap();
    assert_eq!(credential(&registry), ready("x-api-key", "given-anew"));
}

#[tokio::test]
async fn credentials_stay_open_where_another_gateway_has_sealed_them_with_a_newer_key() {
    let rig = Rig::new().await;
    let acme = admin("acme");
    let id = rig.create(&acme, new("One")).await.id;
    let ring = rig.another(&["the-newer-key-of-the-ring-long-enough", KEY]).await;
    assert_eq!(ring.rotate().await.unwrap().resealed, 1);
    rig.registry.refresh().await.unwrap();
    assert_eq!(credential(&rig.registry), ready("x-api-key", "canary-credential"));
    // A credential changed since then differs, and cannot be decrypted here.
    let changed = IntegrationPatch {
        credentials: Some(Secret::new("changed-since".to_owned())),
        ..IntegrationPatch::default()
    };
    ring.patch_integration(&acme, &id, changed, &plain()).await.unwrap();
    rig.registry.refresh().await.unwrap();
    assert_eq!(credential(&rig.registry), CredentialState::Unusable(VaultError::UnknownKey));
}
