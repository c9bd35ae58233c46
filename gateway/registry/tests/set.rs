//! Replacing a whole set: different integrations are updated, equal integrations are not touched,
//! and a mistake in any item changes nothing.

use super::*;

fn custom(slug: Option<&str>, name: &str, url: &str) -> NewIntegration {
    NewIntegration {
        slug: slug.map(str::to_owned),
        name: Some(name.to_owned()),
        origin: Origin::Custom { url: url.to_owned(), auth: Auth::None },
        credentials: None,
        enabled: None,
        source: None,
    }
}

fn keyed(name: &str, credentials: Option<&str>) -> NewIntegration {
    let auth = Auth::ApiKey { header: "X-Api-Key".to_owned() };
    NewIntegration {
        origin: Origin::Custom { url: "https://mcp.example.com/mcp".to_owned(), auth },
        credentials: credentials.map(|text| Secret::new(text.to_owned())),
        ..custom(None, name, "")
    }
}

fn names(set: &IntegrationSet) -> Vec<&str> {
    set.integrations.iter().map(|integration| integration.slug.as_str()).collect()
}

async fn replace(
    rig: &Rig,
    wanted: &[NewIntegration],
    options: &ChangeOptions,
) -> Result<Changed<IntegrationSet>, RegistryError> {
    rig.registry.replace_integrations(&admin("acme"), wanted.to_vec(), options).await
}

/// Returns id, slug, name and version of each integration.
fn stored(rig: &Rig) -> Vec<(String, String, String, i64)> {
    let mut all = rig.registry.list_integrations(&admin("acme"));
    all.sort_by_key(|one| one.name.to_lowercase());
    all.into_iter().map(|one| (one.id, one.slug, one.name, one.version)).collect()
}

#[tokio::test]
async fn a_set_becomes_what_is_wanted_and_leaves_alone_what_is_equal() {
    let rig = Rig::new().await;
    let other = rig.create(&admin("other"), open_one("Elsewhere")).await;
    let kept = rig.create(&admin("acme"), new("Keyed")).await;
    rig.create(&admin("acme"), open_one("Gone")).await;
    rig.create(&admin("acme"), open_one("One")).await;
    rig.create(&admin("acme"), open_one("Two")).await;
    let wanted = [
        keyed("Keyed", None),
        // The two integrations swap names.
        custom(Some("one"), "Two", "https://mcp.example.com/mcp"),
        custom(Some("two"), "One", "https://mcp.example.com/mcp"),
        custom(None, "New", "http://new.example/mcp"),
    ];
    let tried = ChangeOptions { dry_run: true, ..plain() };
    let tried = replace(&rig, &wanted, &tried).await.unwrap();
    assert!(tried.is_dry_run && stored(&rig).len() == 4);
    let changed = replace(&rig, &wanted, &plain()).await.unwrap();
    let (before, after) = (changed.before.unwrap(), changed.after.unwrap());
    assert_eq!(names(&before), ["gone", "one", "two"]);
    assert_eq!(names(&after), ["one", "two", "new"]);
    assert_eq!(after.unchanged, ["keyed"]);
    assert_eq!(changed.warnings[0].pointer, "/servers/3/url");
    let shown = rig.registry.integration(&admin("acme"), &kept.id).unwrap();
    assert_eq!(shown, kept, "not touched");
    // Equal credentials count as unchanged, different credentials as a change.
    let again = [keyed("Keyed", Some("canary-credential")), wanted[1].clone(), wanted[2].clone()];
    let changed = replace(&rig, &again, &plain()).await.unwrap();
    assert_eq!(changed.after.unwrap().unchanged, ["keyed", "one", "two"]);
    let again = [keyed("Keyed", Some("another-one")), wanted[1].clone()];
    let changed = replace(&rig, &again, &plain()).await.unwrap();
    assert_eq!(names(&changed.after.unwrap()), ["keyed"]);
    assert_eq!(names(&changed.before.unwrap()), ["two", "keyed"]);
    assert_eq!(rig.registry.integration(&admin("other"), &other.id).unwrap(), other);
}

#[tokio::test]
async fn a_mistake_in_a_set_changes_nothing_and_has_its_place() {
    let rig = Rig::new().await;
    rig.create(&admin("acme"), new("Keyed")).await;
    rig.registry.set_shared_slugs(["shared".to_owned()]);
    let before = stored(&rig);
    let good = custom(None, "Good", "https://good.example/");
    let url = "https://mcp.example.com/mcp";
    let evil = NewIntegration {
        origin: Origin::Custom {
            url: "https://evil.example/".to_owned(),
            auth: Auth::ApiKey { header: "x-api-key".to_owned() },
        },
        ..keyed("Keyed", None)
    };
    let predefined = NewIntegration {
        origin: Origin::Predefined("none".to_owned()),
        ..custom(None, "Entry", "")
    };
    for (wrong, code, pointer) in [
        (custom(None, "", url), "INVALID_FIELD", Some("/name")),
        (custom(None, "Bad", "ftp://x/"), "INVALID_FIELD", Some("/url")),
        (custom(Some("shared"), "Bad", url), "SLUG_TAKEN", Some("/slug")),
        (custom(None, "gooD", url), "INVALID_FIELD", Some("/name")),
        (keyed("Bad", None), "INVALID_FIELD", Some("/credentials")),
        (evil, "INVALID_FIELD", Some("/credentials")),
        (predefined, "PREDEFINED_NOT_FOUND", Some("/slug")),
    ] {
        let error = replace(&rig, &[good.clone(), wrong], &plain()).await.unwrap_err();
        let RegistryError::OfItem { at: 1, error } = error else { panic!("{error:?}") };
        assert_eq!((error.code(), error.pointer()), (code, pointer), "{error}");
        assert_eq!(stored(&rig), before);
    }
    let many = vec![good; 1001];
    assert_eq!(replace(&rig, &many, &plain()).await.unwrap_err().code(), "TOO_MANY");
}

#[tokio::test]
async fn a_set_is_replaced_as_it_was_seen() {
    let rig = Rig::new().await;
    let seen = rig.registry.set_version("acme");
    rig.create(&admin("acme"), open_one("One")).await;
    let options = ChangeOptions { expected_version: Some(seen), ..plain() };
    let error = replace(&rig, &[], &options).await.unwrap_err();
    assert_eq!(error.code(), "VERSION_MISMATCH");
    let seen = rig.registry.set_version("acme");
    let key = Some("a-key".to_owned());
    let options = ChangeOptions { expected_version: Some(seen), idempotency_key: key, ..plain() };
    let made = replace(&rig, &[], &options).await.unwrap();
    assert_eq!(names(&made.before.unwrap()), ["one"]);
    assert!(replace(&rig, &[], &options).await.unwrap().is_replayed);
    let other = [custom(None, "Two", "https://mcp.example.com/mcp")];
    let error = replace(&rig, &other, &options).await.unwrap_err();
    assert_eq!(error.code(), "IDEMPOTENCY_KEY_REUSED");
    assert!(stored(&rig).is_empty());
}
