//! The operator's catalogue: integrations follow their entry, and credentials given for a host are
//! sent to no other host.

use url::Url;

use super::*;

fn entry(url: &str, auth: Auth) -> CatalogueEntry {
    let url = Url::parse(url).unwrap();
    CatalogueEntry { title: "Tickets".to_owned(), description: None, url, auth }
}

fn catalogue(url: &str, auth: Auth) -> Catalogue {
    Catalogue::from([("tickets".to_owned(), entry(url, auth))])
}

fn new_predefined() -> NewIntegration {
    NewIntegration {
        name: None,
        origin: Origin::Predefined("tickets".to_owned()),
        credentials: Some(Secret::new("t0ken-of-it".to_owned())),
        ..new("")
    }
}

/// Returns the address of the snapshot's only integration, and whether its credentials may be sent.
fn place(registry: &Registry) -> Option<(String, bool)> {
    let snapshot = registry.snapshot("acme");
    let integration = snapshot.integrations.first()?;
    let is_ready = match &integration.credential {
        CredentialState::Ready(credential) => {
            assert_eq!(credential.value.expose(), "Bearer t0ken-of-it");
            true
        }
        CredentialState::None => true,
        CredentialState::Unusable(_)
        | CredentialState::Outdated
        | CredentialState::OfMembers(_) => false,
    };
    Some((integration.url.to_string(), is_ready))
}

#[tokio::test]
async fn an_integration_follows_its_entry_and_its_credentials_stay_with_their_host() {
    let rig = Rig::new().await;
    let acme = admin("acme");
    rig.registry.set_catalogue(catalogue("https://a.example/mcp", Auth::BearerToken));
    let made = rig.registry.create_integration(&acme, new_predefined(), &plain()).await;
    let made = made.unwrap().after.unwrap();
    assert_eq!(
        (made.kind, &*made.slug, &*made.name, made.catalogue.as_deref(), &made.url),
        (IntegrationKind::Predefined, "tickets", "Tickets", Some("tickets"), &None)
    );
    let mut changes = rig.registry.changes();
    for (url, auth, expected) in [
        ("https://a.example/mcp", Auth::BearerToken, true),
        ("https://a.example/v2/mcp?tenant=1", Auth::BearerToken, true),
        ("https://b.example/mcp", Auth::BearerToken, false),
        ("http://a.example/mcp", Auth::BearerToken, false),
        ("https://a.example:8443/mcp", Auth::BearerToken, false),
        ("https://a.example/mcp", Auth::ApiKey { header: "x-key".to_owned() }, false),
        ("https://b.example/mcp", Auth::None, true),
        ("https://a.example/mcp", Auth::BearerToken, true),
    ] {
        rig.registry.set_catalogue(catalogue(url, auth.clone()));
        assert_eq!(place(&rig.registry), Some((url.to_owned(), expected)), "{url} {auth:?}");
    }
    assert_eq!(&*changes.recv().await.unwrap(), "acme");
    rig.registry.set_catalogue(Catalogue::new());
    assert_eq!(place(&rig.registry), None, "no entry, no address");
    // Changing the integration while the entry is missing does not bring the address back.
    rig.registry.enable_integration(&acme, &made.id, true, &plain()).await.unwrap();
    assert_eq!(place(&rig.registry), None);
    let again = rig.another(&[KEY]).await;
    again.set_catalogue(catalogue("https://a.example/mcp", Auth::BearerToken));
    assert_eq!(place(&again), Some(("https://a.example/mcp".to_owned(), true)));
}

#[tokio::test]
async fn credentials_that_are_given_anew_are_for_the_entry_as_it_is() {
    let rig = Rig::new().await;
    let acme = admin("acme");
    rig.registry.set_catalogue(catalogue("https://a.example/mcp", Auth::BearerToken));
    let made = rig.registry.create_integration(&acme, new_predefined(), &plain()).await;
    let id = made.unwrap().after.unwrap().id;
    rig.registry.set_catalogue(catalogue("https://b.example/mcp", Auth::BearerToken));
    let renamed = IntegrationPatch { name: Some("Ours".to_owned()), ..patch() };
    rig.registry.patch_integration(&acme, &id, renamed, &plain()).await.unwrap();
    assert_eq!(place(&rig.registry), Some(("https://b.example/mcp".to_owned(), false)));
    let credentials = Some(Secret::new("t0ken-of-it".to_owned()));
    let anew = IntegrationPatch { credentials, ..patch() };
    rig.registry.patch_integration(&acme, &id, anew, &plain()).await.unwrap();
    assert_eq!(place(&rig.registry), Some(("https://b.example/mcp".to_owned(), true)));
    rig.registry.rotate().await.unwrap();
    assert_eq!(place(&rig.registry), Some(("https://b.example/mcp".to_owned(), true)));
}

#[tokio::test]
async fn an_address_of_the_catalogue_is_nobodys_to_choose() {
    let rig = Rig::new().await;
    let acme = admin("acme");
    let unknown = rig.registry.create_integration(&acme, new_predefined(), &plain()).await;
    assert_eq!(unknown.unwrap_err().code(), "PREDEFINED_NOT_FOUND");
    rig.registry.set_catalogue(catalogue("https://a.example/mcp", Auth::BearerToken));
    let none = NewIntegration { credentials: None, ..new_predefined() };
    let none = rig.registry.create_integration(&acme, none, &plain()).await.unwrap_err();
    assert_eq!(none.pointer(), Some("/credentials"), "{none}");
    let made = rig.registry.create_integration(&acme, new_predefined(), &plain()).await;
    let id = made.unwrap().after.unwrap().id;
    for (patch, pointer) in [
        (IntegrationPatch { url: Some("https://evil.example/".to_owned()), ..patch() }, "/url"),
        (IntegrationPatch { auth: Some(Auth::None), ..patch() }, "/auth"),
    ] {
        let error = rig.registry.patch_integration(&acme, &id, patch, &plain()).await.unwrap_err();
        assert_eq!(error.pointer(), Some(pointer), "{error}");
    }
    // A second integration of the same entry, with another name.
    let second = NewIntegration { name: Some("Other".to_owned()), ..new_predefined() };
    let second = rig.registry.create_integration(&acme, second, &plain()).await.unwrap();
    assert_eq!(second.after.unwrap().slug, "tickets-2");
}

fn patch() -> IntegrationPatch {
    IntegrationPatch::default()
}
