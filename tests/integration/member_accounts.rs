//! Integrations at which each member of the organisation has its own account: calls run as
//! their caller, members of other organisations see neither server nor page, and a changed address
//! gets no token.

use std::sync::Arc;
use std::time::Instant;

use crate::accounts::{PUBLIC, User, World};
use crate::principals::{By, key};
use crate::replicas::postgres::Postgres;
use crate::rig::authority::Authority;
use crate::rig::client::Request;
use crate::rig::{Answer, Gate, Upstream, Value, json, until};
use crate::stored_accounts::{END_TIMEOUT, accept_keys};

struct Organisation {
    world: World,
    admin: String,
    anna: String,
    ben: String,
}

impl Organisation {
    /// Starts a gateway where the organisation `acme` adds the server with this authentication.
    async fn start(auth: Value) -> Self {
        Self::start_with(settings(json!({}), "keys.yaml".into()), auth).await
    }

    async fn start_with(settings: Value, auth: Value) -> Self {
        let authority = Authority::start().await;
        let server = match auth["authMethod"].as_str() {
            Some("user_headers") => Upstream::verbs(accept_keys).await,
            _ => Upstream::verbs(authority.server(true)).await,
        };
        authority.protect(&format!("http://{}/mcp", server.address));
        let gate = Gate::start(settings).await;
        let admin = key(&gate, "admin", &["--role", "admin", "--organisation", "acme"]).await;
        let anna = key(&gate, "anna", &["--organisation", "acme"]).await;
        let ben = key(&gate, "ben", &["--organisation", "acme"]).await;
        let world = World { authority, server: Arc::new(server), gate };
        let all = Self { world, admin, anna, ben };
        all.add(auth).await;
        all
    }

    /// Adds the server as the integration `a`, and returns its path.
    async fn add(&self, auth: Value) -> String {
        let mut new = json!({"name": "Tickets", "slug": "a", "validate": true});
        new["serverUrl"] = format!("http://{}/mcp", self.world.server.address).into();
        for (name, value) in auth.as_object().unwrap() {
            new[name] = value.clone();
        }
        let made = self.api(&self.admin, "POST", "/mcp-integrations/custom", new).await;
        // The test of the server passes, although it demands a member's credential.
        assert_eq!(made.status, 201, "{}", made.text());
        assert_eq!(made.json()["authMethod"], auth["authMethod"]);
        format!("/mcp-integrations/{}", made.json()["id"].as_str().unwrap())
    }

    async fn api(&self, by: &str, verb: &'static str, path: &str, body: Value) -> Answer {
        let text = if body.is_null() { String::new() } else { body.to_string() };
        Request::bare(verb, &format!("/api{path}"), text).by(by).send(self.world.at()).await
    }
}

fn settings(store: Value, keys_file: Value) -> Value {
    let mut settings = json!({
        "auth": {"keys_file": keys_file}, "http": {"public_url": PUBLIC}, "store": store,
        "audit": {"file": "audit.jsonl"}, "egress": {"organisations": "local"},
    });
    settings["store"]["keys"] = json!(["a-key-of-the-ring-that-is-long-enough"]);
    settings
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
    // Another organisation has a client of its own at the same issuer.
    assert_eq!(world.authority.heard("/register").len(), 1);
    let other = key(&world.gate, "other", &["--role", "admin", "--organisation", "other"]).await;
    let url = format!("http://{}/mcp", world.server.address);
    let new = json!({"name": "Tickets", "slug": "a", "serverUrl": url, "authMethod": "user"});
    let made = all.api(&other, "POST", "/mcp-integrations/custom", new).await;
    assert_eq!(made.status, 201, "{}", made.text());
    until("the tools are listed", async || {
        (eve.call("a__t").await.json()["result"]["isError"] == true).then_some(())
    })
    .await;
    eve.connect("eve").await;
    assert_eq!(eve.name_at_server().await, "eve");
    assert_eq!(world.authority.heard("/register").len(), 2);
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

/// Ways to end an integration: whether it is disabled before, the verb, the path and the body.
fn endings(path: &str, url: &str) -> [(bool, &'static str, String, Value); 4] {
    let other = json!({"servers": [{"name": "Other", "serverUrl": url}]});
    let method = json!({"authMethod": "none"});
    [
        (false, "DELETE", path.to_owned(), Value::Null),
        (true, "DELETE", path.to_owned(), Value::Null),
        (false, "PUT", "/servers".to_owned(), other),
        (false, "PATCH", path.to_owned(), method),
    ]
}

#[tokio::test]
async fn a_deleted_integration_disconnects_the_accounts_of_its_members() {
    let folder = tempfile::tempdir().unwrap();
    let store = json!({"file": folder.path().join("lockgate.db")});
    let auth = json!({"authMethod": "user"});
    let all = Organisation::start_with(settings(store.clone(), "keys.yaml".into()), auth).await;
    let keys_file = all.world.gate.folder.path().join("keys.yaml");
    let gate = Gate::start(settings(store, json!(keys_file))).await;
    let World { authority, server, .. } = &all.world;
    let second = World { authority: authority.clone(), server: Arc::clone(server), gate };
    let (mut anna, mut ben) =
        (User::of_key(&all.world, &all.anna), User::of_key(&all.world, &all.ben));
    let there = anna.beside(&second);
    for number in 0..4 {
        if number > 0 {
            all.add(json!({"authMethod": "user"})).await;
        }
        let listed = all.api(&all.admin, "GET", "/mcp-integrations", Value::Null).await.json();
        let listed = &listed["items"].as_array().unwrap().iter().find(|one| one["slug"] == "a");
        let path = format!("/mcp-integrations/{}", listed.unwrap()["id"].as_str().unwrap());
        let url = format!("http://{}/mcp", server.address);
        let (is_disabled, verb, at, body) = endings(&path, &url)[number].clone();
        for user in [&mut anna, &mut ben] {
            until("the tools are listed", async || {
                (user.call("a__t").await.result()["isError"] == true).then_some(())
            })
            .await;
        }
        anna.connect("anna").await;
        ben.connect("ben").await;
        until("the other gateway has the account", async || {
            // It may not have the integration yet.
            let answer = there.call("a__t").await.json();
            (answer["result"]["content"][0]["text"] == "anna").then_some(())
        })
        .await;
        // Nothing ends in a dry run, or if the change is refused.
        let dry = all.api(&all.admin, verb, &format!("{at}?dryRun=true"), body.clone()).await;
        assert_eq!(dry.status, 200, "{}", dry.text());
        let stale = Request::bare(verb, &format!("/api{at}"), body.to_string()).by(&all.admin);
        let stale = stale.with("If-Match", "\"77\"").send(all.world.at()).await;
        assert_eq!(stale.status, 412, "{}", stale.text());
        assert_eq!((anna.name_at_server().await, ben.name_at_server().await), two("anna", "ben"));
        if is_disabled {
            let off = all.api(&all.admin, "POST", &format!("{path}/disable"), Value::Null).await;
            assert_eq!(off.status, 200, "{}", off.text());
        }
        let calls = server.count("tools/call");
        let call = json!({"name": "a__t", "arguments": {"hang": true}});
        let call = Request::modern("/mcp", "tools/call", call).by(&all.anna);
        let address = second.at();
        let hanging = tokio::spawn(async move { call.send(address).await });
        if !is_disabled {
            until("the call runs", async || (server.count("tools/call") > calls).then_some(()))
                .await;
        }
        let began = Instant::now();
        let done = all.api(&all.admin, verb, &at, body).await;
        assert!(done.status < 300, "{}", done.text());
        let hung = hanging.await.unwrap();
        assert!(began.elapsed() < END_TIMEOUT, "{:?}: {}", began.elapsed(), hung.text());
        for name in ["anna", "ben"] {
            until("the tokens are revoked", async || (!authority.has_tokens(name)).then_some(()))
                .await;
        }
        let left = all.api(&all.admin, "GET", "/connections?all=true", Value::Null).await.json();
        assert_eq!(left["total"], 0, "{left}");
        until("two records", async || {
            let trail = all.world.gate.folder.path().join("audit.jsonl");
            let trail = std::fs::read_to_string(trail).unwrap();
            let revoked = trail.lines().filter(|line| line.contains("\"revoke account\""));
            (revoked.count() == 2 * (number + 1)).then_some(())
        })
        .await;
    }
    all.world.assert_no_canary(&[]);
}

/// Without a key of the store, accounts are in the memory of a gateway, where no other gateway
/// disconnects them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_method_ends_calls_of_accounts_in_memory() {
    let Some(database) = Postgres::start() else { return };
    let without_keys = |keys_file: Value| {
        let mut settings = settings(json!({"url": database.url()}), keys_file);
        settings["store"].as_object_mut().unwrap().remove("keys");
        settings
    };
    let auth = json!({"authMethod": "user"});
    let all = Organisation::start_with(without_keys("keys.yaml".into()), auth).await;
    let keys_file = all.world.gate.folder.path().join("keys.yaml");
    let gate = Gate::start(without_keys(json!(keys_file))).await;
    let World { authority, server, .. } = &all.world;
    let second = World { authority: authority.clone(), server: Arc::clone(server), gate };
    let mut anna = User::of_key(&second, &all.anna);
    until("the tools are listed", async || {
        (anna.call("a__t").await.json()["result"]["isError"] == true).then_some(())
    })
    .await;
    anna.connect("anna").await;
    assert_eq!(anna.name_at_server().await, "anna");
    let calls = server.count("tools/call");
    let call = json!({"name": "a__t", "arguments": {"hang": true}});
    let call = Request::modern("/mcp", "tools/call", call).by(&all.anna);
    let address = second.at();
    let hanging = tokio::spawn(async move { call.send(address).await });
    until("the call runs", async || (server.count("tools/call") > calls).then_some(())).await;
    let listed = all.api(&all.admin, "GET", "/mcp-integrations", Value::Null).await.json();
    let path = format!("/mcp-integrations/{}", listed["items"][0]["id"].as_str().unwrap());
    let began = Instant::now();
    let changed = all.api(&all.admin, "PATCH", &path, json!({"authMethod": "none"})).await;
    assert_eq!(changed.status, 200, "{}", changed.text());
    let hung = hanging.await.unwrap();
    assert!(began.elapsed() < END_TIMEOUT, "{:?}: {}", began.elapsed(), hung.text());
    assert!(hung.text().contains("outcome is unknown"), "{}", hung.text());
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
