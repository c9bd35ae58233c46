//! Integrations at which each member of the organisation has its own account: calls run as
//! their caller, members of other organisations see neither server nor page, and a changed address
//! gets no token.

use std::sync::Arc;

use crate::accounts::{PUBLIC, User, World};
use crate::principals::{By, key};
use crate::rig::authority::Authority;
use crate::rig::client::Request;
use crate::rig::{Answer, Gate, Upstream, Value, json, until};
use crate::stored_accounts::accept_keys;

struct Organisation {
    world: World,
    admin: String,
    anna: String,
    ben: String,
}

impl Organisation {
    /// Starts a gateway where the organisation `acme` adds the server with this authentication.
    async fn start(auth: Value) -> Self {
        let authority = Authority::start().await;
        let server = match auth["authMethod"].as_str() {
            Some("user_headers") => Upstream::verbs(accept_keys).await,
            _ => Upstream::verbs(authority.server(true)).await,
        };
        authority.protect(&format!("http://{}/mcp", server.address));
        let gate = Gate::start(json!({
            "auth": {"keys_file": "keys.yaml"}, "http": {"public_url": PUBLIC},
            "audit": {"file": "audit.jsonl"},
            "store": {"keys": ["a-key-of-the-ring-that-is-long-enough"]},
            "egress": {"organisations": "local"},
        }))
        .await;
        let admin = key(&gate, "admin", &["--role", "admin", "--organisation", "acme"]).await;
        let anna = key(&gate, "anna", &["--organisation", "acme"]).await;
        let ben = key(&gate, "ben", &["--organisation", "acme"]).await;
        let world = World { authority, server: Arc::new(server), gate };
        let all = Self { world, admin, anna, ben };
        let mut new = json!({"name": "Tickets", "slug": "a", "validate": true});
        new["serverUrl"] = format!("http://{}/mcp", all.world.server.address).into();
        for (name, value) in auth.as_object().unwrap() {
            new[name] = value.clone();
        }
        let made = all.api(&all.admin, "POST", "/mcp-integrations/custom", new).await;
        // The test of the server passes, although it demands a member's credential.
        assert_eq!(made.status, 201, "{}", made.text());
        assert_eq!(made.json()["authMethod"], auth["authMethod"]);
        all
    }

    async fn api(&self, by: &str, verb: &'static str, path: &str, body: Value) -> Answer {
        let text = if body.is_null() { String::new() } else { body.to_string() };
        Request::bare(verb, &format!("/api{path}"), text).by(by).send(self.world.at()).await
    }
}

#[tokio::test]
async fn members_of_an_organisation_connect_accounts_of_their_own() {
    let all = Organisation::start(json!({"authMethod": "user"})).await;
    let world = &all.world;
    let (mut anna, mut ben) = (User::of_key(world, &all.anna), User::of_key(world, &all.ben));
    until("the tools are listed", async || {
        (anna.call("a__t").await.result()["isError"] == true).then_some(())
    })
    .await;
    let own = all.api(&all.anna, "GET", "/connections", Value::Null).await.json();
    assert_eq!((&own["items"][0]["server"], &own["total"]), (&json!("a"), &json!(1)), "{own}");
    assert_eq!(own["items"][0]["connectUrl"], format!("{PUBLIC}/connect/a"));
    anna.connect("anna").await;
    let link = ben.prompt().await["url"].as_str().unwrap().to_owned();
    ben.connect("ben").await;
    for _ in 0..3 {
        assert_eq!((anna.name_at_server().await, ben.name_at_server().await), two("anna", "ben"));
    }
    for heard in world.server.heard_of("tools/call") {
        assert!(world.authority.subject_of(&heard).is_some(), "{heard:?}");
    }
    // Other organisations have neither the server nor its page, and no link leads there.
    let eve = key(&world.gate, "eve", &["--organisation", "other"]).await;
    let mut eve = User::of_key(world, &eve);
    let unknown = eve.call("a__t").await;
    assert_eq!(unknown.code(), -32601, "{}", unknown.text());
    let refused = eve.open(&link).await;
    assert_eq!(refused.status, 403, "{}", refused.text());
    let page = eve.open(&format!("{PUBLIC}/connect/a")).await;
    assert!(page.status >= 400, "{}", page.text());
    let others = all.api(eve.key.as_deref().unwrap(), "GET", "/connections", Value::Null).await;
    assert_eq!(others.json()["total"], 0);
    // Administrators disconnect the accounts of their organisation.
    let listed = all.api(&all.admin, "GET", "/connections?all=true", Value::Null).await.json();
    let of_ben = listed["items"].as_array().unwrap();
    assert_eq!(of_ben.len(), 2, "{listed}");
    let of_ben = of_ben.iter().find(|one| all.ben.contains(one["subject"].as_str().unwrap()));
    let path = format!("/connections/{}", of_ben.unwrap()["id"].as_str().unwrap());
    assert_eq!(all.api(&all.admin, "DELETE", &path, Value::Null).await.status, 204);
    ben.prompt().await;
    assert_eq!(anna.name_at_server().await, "anna");
    world.assert_no_canary(&[]);
}

#[tokio::test]
async fn another_address_of_an_integration_gets_no_token() {
    let all = Organisation::start(json!({"authMethod": "user"})).await;
    let mut anna = User::of_key(&all.world, &all.anna);
    until("the tools are listed", async || {
        (anna.call("a__t").await.result()["isError"] == true).then_some(())
    })
    .await;
    anna.connect("anna").await;
    assert_eq!(anna.name_at_server().await, "anna");
    let other = Authority::start().await;
    let server = Upstream::verbs(other.server(true)).await;
    other.protect(&format!("http://{}/mcp", server.address));
    let listed = all.api(&all.admin, "GET", "/mcp-integrations", Value::Null).await.json();
    let path = format!("/mcp-integrations/{}", listed["items"][0]["id"].as_str().unwrap());
    let moved = json!({"serverUrl": format!("http://{}/mcp", server.address)});
    let moved = all.api(&all.admin, "PATCH", &path, moved).await;
    assert_eq!(moved.status, 200, "{}", moved.text());
    until("the other server is used", async || {
        (anna.call("a__t").await.result()["isError"] == true).then_some(())
    })
    .await;
    for heard in server.heard() {
        assert_eq!(heard.header("authorization"), None, "{heard:?}");
    }
}

#[tokio::test]
async fn members_of_an_organisation_enter_keys_of_their_own() {
    let auth = json!({"authMethod": "user_headers", "headerName": "X-Api-Key"});
    let all = Organisation::start(auth).await;
    let world = &all.world;
    for (name, key) in [("anna", &all.anna), ("ben", &all.ben)] {
        let mut user = User::of_key(world, key);
        until("the tools are listed", async || {
            (user.call("a__t").await.result()["isError"] == true).then_some(())
        })
        .await;
        let link = user.prompt().await["url"].as_str().unwrap().to_owned();
        let page = user.open(&link).await.text();
        let token = page.split("value=\"").nth(1).unwrap().split('"').next().unwrap();
        let address = page.split("value=\"").nth(2).unwrap().split('"').next().unwrap();
        let form = format!("token={token}&resource={address}&server_key=canary-secret-{name}");
        let path = link.strip_prefix(PUBLIC).unwrap();
        let done = user.browser("POST", path, &form).send(world.at()).await;
        assert_eq!(done.status, 200, "{}", done.text());
        assert_eq!(user.name_at_server().await, name);
        world.assert_no_canary(&[&done]);
    }
    for heard in world.server.heard() {
        assert_eq!(heard.header("authorization"), None, "{heard:?}");
    }
}

fn two(one: &str, other: &str) -> (String, String) {
    (one.to_owned(), other.to_owned())
}
