//! Integrations: creation, versions, names and slugs.

use super::*;

#[tokio::test]
async fn an_integration_is_created_changed_and_deleted() {
    let rig = Rig::new().await;
    let acme = admin("acme");
    let made = rig.registry.create_integration(&acme, new(" GitHub "), &plain()).await.unwrap();
    assert_eq!(made.before, None);
    let first = made.after.unwrap();
    assert!(first.id.starts_with("int_") && first.id.len() == 36);
    assert_eq!((first.slug.as_str(), first.name.as_str()), ("github", "GitHub"));
    assert_eq!(first.auth, Auth::ApiKey { header: "x-api-key".to_owned() });
    assert!(first.has_credentials && first.enabled && first.version == 1);
    assert_eq!(rig.registry.integration(&acme, &first.id).unwrap(), first);

    let patch = IntegrationPatch { name: Some("Forge".to_owned()), ..IntegrationPatch::default() };
    let changed = rig.registry.patch_integration(&acme, &first.id, patch, &plain()).await.unwrap();
    assert_eq!(changed.before, Some(first.clone()));
    let second = changed.after.unwrap();
    assert_eq!((second.name.as_str(), second.version), ("Forge", 2));
    assert_eq!(second.slug, "github", "clients know tools by it");

    let gone = rig.registry.delete_integration(&acme, &first.id, &plain()).await.unwrap();
    assert_eq!((gone.before, gone.after), (Some(second), None));
    let error = rig.registry.integration(&acme, &first.id).unwrap_err();
    assert_eq!(error.code(), "MCP_INTEGRATION_NOT_FOUND");
    let again = rig.registry.delete_integration(&acme, &first.id, &plain()).await.unwrap_err();
    assert_eq!(again.code(), "MCP_INTEGRATION_NOT_FOUND");
}

#[tokio::test]
async fn names_and_slugs_are_unique_where_they_have_to_be() {
    let rig = Rig::new().await;
    rig.registry.set_shared_slugs(["files".to_owned()]);
    let acme = admin("acme");
    rig.create(&acme, open_one("GitHub")).await;
    let same = rig.registry.create_integration(&acme, open_one("GITHUB"), &plain()).await;
    let error = same.unwrap_err();
    assert_eq!((error.code(), error.pointer()), ("NAME_TAKEN", Some("/name")));
    let wanted = NewIntegration { slug: Some("files".to_owned()), ..open_one("Files") };
    let error = rig.registry.create_integration(&acme, wanted, &plain()).await.unwrap_err();
    assert_eq!((error.code(), error.pointer()), ("SLUG_TAKEN", Some("/slug")));
    assert_eq!(rig.create(&acme, open_one("Files")).await.slug, "files-2");
    assert_eq!(rig.create(&acme, open_one("Git Hub!")).await.slug, "git-hub");
    // Another organisation has its own names and slugs.
    assert_eq!(rig.create(&admin("other"), open_one("GitHub")).await.slug, "github");
    let other = rig.create(&acme, open_one("Other")).await;
    let patch = IntegrationPatch { name: Some("github".to_owned()), ..IntegrationPatch::default() };
    let error = rig.registry.patch_integration(&acme, &other.id, patch, &plain()).await;
    assert_eq!(error.unwrap_err().code(), "NAME_TAKEN");
}

#[tokio::test]
async fn a_change_of_what_somebody_else_has_changed_is_refused() {
    let rig = Rig::new().await;
    let acme = admin("acme");
    let id = rig.create(&acme, open_one("One")).await.id;
    let seen = ChangeOptions { expected_version: Some(1), ..plain() };
    rig.registry.enable_integration(&acme, &id, false, &seen).await.unwrap();
    let error = rig.registry.enable_integration(&acme, &id, true, &seen).await.unwrap_err();
    assert!(matches!(error, RegistryError::VersionMismatch { current: 2 }), "{error:?}");
    let error = rig.registry.delete_integration(&acme, &id, &seen).await.unwrap_err();
    assert_eq!(error.code(), "VERSION_MISMATCH");
    assert!(!rig.registry.integration(&acme, &id).unwrap().enabled);
}

#[tokio::test]
async fn of_two_administrators_at_once_one_wins() {
    let rig = Rig::new().await;
    let acme = admin("acme");
    let id = rig.create(&acme, open_one("One")).await.id;
    let other = rig.another(&[KEY]).await;
    let seen = ChangeOptions { expected_version: Some(1), ..plain() };
    let (a, b) = tokio::join!(
        rig.registry.enable_integration(&acme, &id, false, &seen),
        other.enable_integration(&acme, &id, false, &seen)
    );
    assert_eq!(usize::from(a.is_ok()) + usize::from(b.is_ok()), 1, "{a:?} {b:?}");
}

#[tokio::test]
async fn a_dry_run_says_what_would_be_and_changes_nothing() {
    let rig = Rig::new().await;
    let acme = admin("acme");
    let dry = ChangeOptions { dry_run: true, ..plain() };
    let made = rig.registry.create_integration(&acme, new("One"), &dry).await.unwrap();
    assert!(made.is_dry_run && made.after.unwrap().name == "One");
    assert_eq!(rig.registry.list_integrations(&acme).len(), 0);
    let id = rig.create(&acme, new("One")).await.id;
    let gone = rig.registry.delete_integration(&acme, &id, &dry).await.unwrap();
    assert!(gone.is_dry_run);
    // A dry run reports the same errors.
    let error = rig.registry.create_integration(&acme, new("one"), &dry).await.unwrap_err();
    assert_eq!(error.code(), "NAME_TAKEN");
    assert_eq!(rig.registry.integration(&acme, &id).unwrap().version, 1);
}

#[tokio::test]
async fn the_method_of_a_disabled_integration_is_known() {
    let rig = Rig::new().await;
    let acme = admin("acme");
    let id =
        rig.create(&acme, NewIntegration { origin: by(Auth::User), ..open_one("One") }).await.id;
    rig.registry.enable_integration(&acme, &id, false, &plain()).await.unwrap();
    assert!(rig.registry.has_auth("acme", &id, &Auth::User));
    assert!(!rig.registry.has_auth("other", &id, &Auth::User));
    let patch = IntegrationPatch { auth: Some(Auth::None), ..IntegrationPatch::default() };
    rig.registry.patch_integration(&acme, &id, patch, &plain()).await.unwrap();
    assert!(!rig.registry.has_auth("acme", &id, &Auth::User));
    assert!(rig.registry.has_auth("acme", &id, &Auth::None));
    rig.registry.delete_integration(&acme, &id, &plain()).await.unwrap();
    assert!(!rig.registry.has_auth("acme", &id, &Auth::None));
}

#[tokio::test]
async fn an_insecure_address_is_taken_with_a_warning() {
    let rig = Rig::new().await;
    let insecure = NewIntegration {
        origin: at("http://mcp.example.com/", Auth::ApiKey { header: "X-Api-Key".to_owned() }),
        ..new("One")
    };
    let made = rig.registry.create_integration(&admin("acme"), insecure, &plain()).await.unwrap();
    assert_eq!(made.warnings[0].code, "INSECURE_URL");
}

#[tokio::test]
async fn addresses_that_the_check_refuses_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refuse: UrlCheck = Box::new(|url| match url.host_str() {
        Some("169.254.169.254") => Err(InvalidField {
            pointer: "/url",
            message: "is an address of metadata".to_owned(),
            way_out: "use another".to_owned(),
        }),
        _ => Ok(()),
    });
    let registry = Registry::open(&file_config(&folder, &[KEY]), refuse).await.unwrap();
    let acme = admin("acme");
    let wrong = NewIntegration {
        origin: at("http://169.254.169.254/", Auth::ApiKey { header: "X-Api-Key".to_owned() }),
        ..new("One")
    };
    let error = registry.create_integration(&acme, wrong, &plain()).await.unwrap_err();
    assert_eq!(error.pointer(), Some("/url"));
    let id = registry.create_integration(&acme, open_one("One"), &plain()).await.unwrap();
    let url = Some("http://169.254.169.254/".to_owned());
    let patch = IntegrationPatch { url, ..IntegrationPatch::default() };
    let id = id.after.unwrap().id;
    let error = registry.patch_integration(&acme, &id, patch, &plain()).await.unwrap_err();
    assert_eq!(error.pointer(), Some("/url"));
}
