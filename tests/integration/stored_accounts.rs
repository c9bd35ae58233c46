//! Accounts of users in the store: after a restart, on several gateways, and at their end (rows
//! Tokens are in the database only sealed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::accounts::{CANARIES, PUBLIC, User, World};
use crate::principals::{By, key};
use crate::replicas::postgres::Postgres;
use crate::rig::client::Request;
use crate::rig::gate::command;
use crate::rig::upstream::{HeardMessage, modern};
use crate::rig::{Answer, Say, Upstream, Value, json, until};

const SECRET: &str = "a-secret-of-all-gateways-that-is-long-enough";
/// Limit on the time until the end of a grant applies everywhere.
pub(crate) const END_TIMEOUT: Duration = Duration::from_secs(1);

pub(crate) fn settings(store: &Value) -> Value {
    json!({"store": store, "secret": SECRET})
}

/// Returns the settings of a SQLite store in the folder, and of PostgreSQL if it is installed.
pub(crate) fn stores(folder: &std::path::Path, database: Option<&Postgres>) -> Vec<Value> {
    let keys = json!(["a-key-of-the-ring-that-is-long-enough"]);
    let mut stores = vec![json!({"file": folder.join("lockgate.db"), "keys": keys})];
    if let Some(database) = database {
        stores.push(json!({"url": database.url(), "keys": keys}));
    }
    stores
}

/// Fails if a file in the folder contains a token, a code or a secret.
fn assert_sealed(folder: &std::path::Path) {
    let mut files = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let content = std::fs::read(entry.unwrap().path()).unwrap();
        files += 1;
        for canary in CANARIES {
            let mut parts = content.windows(canary.len());
            assert!(!parts.any(|part| part == canary.as_bytes()), "{canary}");
        }
    }
    assert!(files > 0);
}

#[tokio::test]
async fn a_grant_survives_a_restart_and_is_sealed() {
    let folder = tempfile::tempdir().unwrap();
    let store = stores(folder.path(), None).remove(0);
    let mut world = World::start_with(settings(&store), json!({})).await;
    User::local(&world).connect("anna").await;
    world.gate.terminate();
    assert_eq!(world.gate.ended().await, Some(0));
    assert_sealed(folder.path());
    let world = world.start_another(settings(&store)).await;
    let user = User::local(&world);
    assert_eq!(user.name_at_server().await, "anna");
    world.authority.expire("anna");
    assert_eq!(user.name_at_server().await, "anna");
    assert_eq!(world.authority.heard("/register").len(), 1);
    assert_sealed(folder.path());
    // Without the store, a grant in memory works until its token expires.
    let file = folder.path().join("lockgate.db");
    let aside = folder.path().join("aside");
    std::fs::rename(&file, &aside).unwrap();
    assert_eq!(user.name_at_server().await, "anna");
    let refreshed = world.authority.grants("refresh_token").len();
    world.authority.expire("anna");
    let failed = user.call("a__t").await;
    assert_eq!(failed.json()["error"]["data"]["reason"], "overloaded", "{}", failed.text());
    assert_eq!(world.authority.grants("refresh_token").len(), refreshed);
    std::fs::rename(&aside, &file).unwrap();
    assert_eq!(user.name_at_server().await, "anna");
    // A rejected client is replaced, also one that an earlier process registered.
    world.authority.expire("anna");
    world.authority.break_tokens(Some((401, json!({"error": "invalid_client"}))));
    assert_eq!(user.prompt().await["state"], "needs_connect");
    world.authority.break_tokens(None);
    User::local(&world).connect("anna").await;
    assert_eq!(world.authority.heard("/register").len(), 2);
    // A grant is for its server alone.
    let mut moved = settings(&store);
    let other = world.server.with(json!({"auth": {"type": "user"}}));
    moved["servers"] = json!({"b": other});
    let moved = world.start_another(moved).await;
    let call = json!({"name": "b__t", "arguments": {}});
    let result = moved.gate.modern("/mcp", "tools/call", call).await.result();
    assert_eq!(result["_meta"]["io.github.lockgate/connect"]["state"], "needs_connect");
    world.assert_no_canary(&[]);
}

/// Keys are rotated while users call and their tokens are refreshed. Then the former key is not
/// needed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_are_rotated_under_calls() {
    let folder = tempfile::tempdir().unwrap();
    let (former, next) =
        ("a-key-of-the-ring-that-is-long-enough", "the-next-key-that-is-long-enough-too");
    let keys_file = folder.path().join("keys.yaml");
    let with = |keys: &[&str], file: &std::path::Path| {
        let mut top = settings(&json!({"file": folder.path().join("lockgate.db"), "keys": keys}));
        top["auth"] = json!({"keys_file": file});
        top
    };
    let names: Vec<String> = (0..8).map(|number| format!("user-{number}")).collect();
    let mut world = World::start_with(with(&[former], "keys.yaml".as_ref()), json!({})).await;
    let mut keys = Vec::new();
    for name in &names {
        let mut user = User::with_key(&world, name).await;
        user.connect(name).await;
        keys.push(user.key.unwrap());
    }
    std::fs::copy(world.gate.folder.path().join("keys.yaml"), &keys_file).unwrap();
    world.gate.terminate();
    assert_eq!(world.gate.ended().await, Some(0));
    let mut world = world.start_another(with(&[next, former], &keys_file)).await;
    let rotated = {
        let calling = names.iter().zip(&keys).map(async |(name, key)| {
            let user = User::of_key(&world, key);
            for round in 0..10 {
                assert_eq!(user.name_at_server().await, *name);
                // Half of the grants are only read, and half are written.
                if round % 2 == 1 && name.ends_with(['1', '3', '5', '7']) {
                    world.authority.expire(name);
                }
            }
        });
        let mut make = command();
        make.args(["vault", "rotate", "--json", "--config", "lockgate.json"]);
        make.current_dir(world.gate.folder.path());
        let rotate = tokio::task::spawn_blocking(move || make.output().unwrap());
        tokio::join!(futures_util::future::join_all(calling), rotate).1.unwrap()
    };
    let rotated: Value = serde_json::from_slice(&rotated.stdout).unwrap();
    assert!(rotated["resealed"].as_u64().unwrap() >= 4, "{rotated}");
    assert_eq!(rotated["unusable"], json!([]), "{rotated}");
    world.gate.terminate();
    assert_eq!(world.gate.ended().await, Some(0));
    let world = world.start_another(with(&[next], &keys_file)).await;
    for (name, key) in names.iter().zip(&keys) {
        assert_eq!(User::of_key(&world, key).name_at_server().await, *name);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gateways_with_one_store_share_grants_and_refresh_once() {
    let database = Postgres::start();
    let folder = tempfile::tempdir().unwrap();
    for store in stores(folder.path(), database.as_ref()) {
        let one = World::start_with(settings(&store), json!({})).await;
        let two = one.start_another(settings(&store)).await;
        let here = User::local(&one);
        let mut there = here.beside(&two);
        // The link, the start and the response are each for another gateway.
        let link = here.prompt().await["url"].as_str().unwrap().to_owned();
        let (url, cookie) = there.start(&link).await;
        let query = one.authority.approve(&url, "anna");
        assert_eq!(here.come_back(&query, &cookie).await.status, 200);
        assert_eq!(there.come_back(&query, &cookie).await.status, 400);
        assert_eq!(here.name_at_server().await, "anna");
        until("the other gateway has the grant", async || {
            let result = there.call("a__t").await.result();
            (result.get("isError").is_none()).then_some(())
        })
        .await;
        one.authority.delay_tokens(Duration::from_millis(300));
        for round in 1..=2 {
            one.authority.expire("anna");
            let mut calls = tokio::task::JoinSet::new();
            for number in 0..200 {
                let at = if number % 2 == 0 { one.at() } else { two.at() };
                calls.spawn(async move {
                    let call = json!({"name": "a__t", "arguments": {}});
                    let result =
                        Request::modern("/mcp", "tools/call", call).send(at).await.result();
                    assert_eq!(result["content"][0]["text"], "anna", "{result}");
                });
            }
            while let Some(done) = calls.join_next().await {
                done.unwrap();
            }
            assert_eq!(one.authority.grants("refresh_token").len(), round);
        }
        until("both refreshes are recorded", async || {
            let mut refreshed = 0;
            for world in [&one, &two] {
                let trail = world.gate.folder.path().join("audit.jsonl");
                let trail = std::fs::read_to_string(trail).unwrap();
                refreshed += trail.matches("\"refresh account\"").count();
            }
            (refreshed == 2).then_some(())
        })
        .await;
        assert_eq!(one.authority.heard("/register").len(), 1);
        one.assert_no_canary(&[]);
        two.assert_no_canary(&[]);
    }
    assert_sealed(folder.path());
}

async fn api(world: &World, by: Option<&str>, verb: &'static str, path: &str) -> Answer {
    let request = Request::bare(verb, &format!("/api{path}"), "");
    let request = match by {
        Some(key) => request.by(key),
        None => request,
    };
    request.send(world.at()).await
}

/// Waits until the gateway's trail has a record of this action.
async fn recorded(world: &World, action: &str) {
    let file = world.gate.folder.path().join("audit.jsonl");
    let wanted = format!("\"{action}\"");
    until(action, async || std::fs::read_to_string(&file).unwrap().contains(&wanted).then_some(()))
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disconnected_account_ends_on_every_gateway_and_is_not_restored() {
    let database = Postgres::start();
    let folder = tempfile::tempdir().unwrap();
    for store in stores(folder.path(), database.as_ref()) {
        let one = World::start_with(settings(&store), json!({})).await;
        let two = one.start_another(settings(&store)).await;
        let mut here = User::local(&one);
        let there = here.beside(&two);
        here.connect("anna").await;
        until("the other gateway has the grant", async || {
            let result = there.call("a__t").await.result();
            (result.get("isError").is_none()).then_some(())
        })
        .await;
        let calls = one.server.count("tools/call");
        let at = two.at();
        let hanging = tokio::spawn(async move {
            let call = json!({"name": "a__t", "arguments": {"hang": true}});
            Request::modern("/mcp", "tools/call", call).send(at).await
        });
        until("the call runs", async || (one.server.count("tools/call") > calls).then_some(()))
            .await;
        let began = Instant::now();
        let ended = api(&one, None, "DELETE", "/connections/a").await;
        assert_eq!(ended.status, 204, "{}", ended.text());
        let hung = hanging.await.unwrap();
        assert!(began.elapsed() < END_TIMEOUT, "{:?}: {}", began.elapsed(), hung.text());
        // A prompt would make the client repeat a call that may have taken effect.
        assert!(hung.text().contains("outcome is unknown"), "{}", hung.text());
        assert!(!hung.text().contains("/connect/"), "{}", hung.text());
        assert_eq!(there.prompt().await["state"], "needs_connect");
        assert_eq!(here.prompt().await["state"], "needs_connect");
        until("the tokens are revoked", async || (!one.authority.has_tokens("anna")).then_some(()))
            .await;
        assert_eq!(api(&one, None, "DELETE", "/connections/a").await.status, 404);
        // A refresh in flight at the other gateway restores nothing.
        here.connect("anna").await;
        until("the other gateway has the grant", async || {
            let result = there.call("a__t").await.result();
            (result.get("isError").is_none()).then_some(())
        })
        .await;
        one.authority.delay_tokens(Duration::from_millis(700));
        one.authority.expire("anna");
        let refreshing = one.authority.grants("refresh_token").len();
        let at = two.at();
        let waiting = tokio::spawn(async move {
            let call = json!({"name": "a__t", "arguments": {}});
            Request::modern("/mcp", "tools/call", call).send(at).await
        });
        until("a refresh is in flight", async || {
            (one.authority.grants("refresh_token").len() > refreshing).then_some(())
        })
        .await;
        assert_eq!(api(&one, None, "DELETE", "/connections/a").await.status, 204);
        let refused = waiting.await.unwrap();
        assert!(!refused.text().contains("\"anna\""), "{}", refused.text());
        until("the new tokens are revoked", async || {
            (!one.authority.has_tokens("anna")).then_some(())
        })
        .await;
        there.prompt().await;
        for action in ["disconnect account", "connect account"] {
            recorded(&one, action).await;
        }
        one.assert_no_canary(&[&ended, &hung, &refused]);
        two.assert_no_canary(&[]);
    }
    assert_sealed(folder.path());
}

#[tokio::test]
async fn administrators_see_and_revoke_accounts_of_their_organisation() {
    let world = World::start(true, json!({})).await;
    let mut anna = User::with_key(&world, "anna").await;
    anna.connect("anna").await;
    let by = anna.key.clone().unwrap();
    let own = api(&world, Some(&by), "GET", "/connections").await.json();
    assert_eq!(own["total"], 1, "{own}");
    let connection = &own["items"][0];
    assert_eq!((&connection["server"], &connection["state"]), (&json!("a"), &json!("connected")));
    assert_eq!(connection["authorizationServer"], world.authority.url);
    assert!(connection["connectUrl"].as_str().unwrap().ends_with("/connect/a"));
    let id = connection["id"].as_str().unwrap();
    let all = api(&world, Some(&by), "GET", "/connections?all=true").await;
    assert_eq!(all.status, 403, "{}", all.text());
    let ben = key(&world.gate, "ben", &[]).await;
    let others = api(&world, Some(&ben), "GET", "/connections").await.json();
    assert_eq!(others["items"][0]["state"], "needs_connect", "{others}");
    for other in
        [ben, key(&world.gate, "other", &["--role", "admin", "--organisation", "acme"]).await]
    {
        let path = format!("/connections/{id}");
        assert_eq!(api(&world, Some(&other), "DELETE", &path).await.status, 404);
        assert_eq!(api(&world, Some(&other), "GET", &path).await.status, 404);
    }
    let admin = key(&world.gate, "admin", &["--role", "admin"]).await;
    let all = api(&world, Some(&admin), "GET", "/connections?all=true").await;
    assert_eq!(all.json()["items"][0]["id"], id);
    let dry = api(&world, Some(&admin), "DELETE", &format!("/connections/{id}?dryRun=true")).await;
    assert_eq!(dry.status, 200);
    assert_eq!(anna.name_at_server().await, "anna");
    let shown = command()
        .args(["connect", "a", "--json", "--url", &format!("http://{}", world.at()), "--key", &by])
        .output()
        .unwrap();
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(shown["state"], "connected", "{shown}");
    let done = api(&world, Some(&admin), "DELETE", &format!("/connections/{id}")).await;
    assert_eq!(done.status, 204, "{}", done.text());
    anna.prompt().await;
    until("the tokens are revoked", async || (!world.authority.has_tokens("anna")).then_some(()))
        .await;
    world.assert_no_canary(&[&all, &dry]);
    for action in ["connect account", "revoke account"] {
        recorded(&world, action).await;
    }
}

#[tokio::test]
async fn further_requirements_lead_to_a_link_at_any_gateway_at_most_twice_an_hour() {
    let folder = tempfile::tempdir().unwrap();
    let store = stores(folder.path(), None).remove(0);
    let one = World::start_with(settings(&store), json!({})).await;
    let two = one.start_another(settings(&store)).await;
    let mut here = User::local(&one);
    here.connect("anna").await;
    for (arguments, scope, acr) in [
        (json!({"scope": "write"}), "mcp offline_access write", None),
        (json!({"acr": true}), "mcp offline_access write", Some("mfa")),
    ] {
        let prompt = here.prompt_for(&arguments).await;
        assert_eq!(prompt["state"], "needs_scope", "{prompt}");
        let mut there = here.beside(&two);
        until("the other gateway knows it", async || {
            let own = api(&two, None, "GET", "/connections/a").await.json();
            (own["state"] == "needs_scope").then_some(())
        })
        .await;
        let (url, cookie) = there.start(prompt["url"].as_str().unwrap()).await;
        let query = crate::rig::authority::fields(url.split_once('?').unwrap().1);
        assert_eq!(query["scope"], scope);
        assert_eq!(query.get("acr_values").map(String::as_str), acr);
        assert_eq!(query.get("max_age").map(String::as_str), acr.map(|_| "60"));
        let back = one.authority.approve(&url, "anna");
        assert_eq!(there.come_back(&back, &cookie).await.status, 200);
        assert_eq!(here.name_at_server().await, "anna");
    }
    let done = here.call_with("a__t", json!({"scope": "write"})).await.result();
    assert_eq!(done["content"][0]["text"], "anna", "{done}");
    // The server is never content with the sign-in.
    let prompt = here.prompt_for(&json!({"acr": true})).await;
    let (url, cookie) = here.start(prompt["url"].as_str().unwrap()).await;
    let back = one.authority.approve(&url, "anna");
    assert_eq!(here.come_back(&back, &cookie).await.status, 200);
    let refused = here.call_with("a__t", json!({"acr": true})).await;
    assert!(refused.text().contains("two authorizations"), "{}", refused.text());
    assert_eq!(here.name_at_server().await, "anna");
    recorded(&two, "raise scopes of account").await;
}

/// A server that requires the key `canary-secret-NAME` for calls, and names its user.
pub(crate) fn accept_keys(heard: &HeardMessage) -> Say {
    match heard.header("x-api-key") {
        _ if heard.method() != "tools/call" => modern(&["t"])(heard),
        Some(key) if key.starts_with("canary-secret") => {
            heard.text_result(key.strip_prefix("canary-secret-").unwrap())
        }
        _ => Say::Status(401, Vec::new(), Value::Null),
    }
}

#[tokio::test]
async fn users_enter_their_own_keys_once() {
    let authority = crate::rig::authority::Authority::start().await;
    let server = Arc::new(Upstream::verbs(accept_keys).await);
    let folder = tempfile::tempdir().unwrap();
    let store = stores(folder.path(), None).remove(0);
    let auth = json!({"type": "user_headers", "header": "X-Api-Key"});
    let mut top = settings(&store);
    top["auth"] = json!({"keys_file": "keys.yaml"});
    top["servers"] = json!({"a": server.with(json!({"auth": auth}))});
    let world = World::start_for(authority, server, top).await;
    for (name, key) in
        [("anna", "canary-secret-anna"), ("ben", "wrong"), ("ben", "canary-secret-ben")]
    {
        let mut user = User::with_key(&world, name).await;
        let link = user.prompt().await["url"].as_str().unwrap().to_owned();
        let page = user.open(&link).await.text();
        assert!(page.contains("Your key at the server"), "{page}");
        let token = page.split("value=\"").nth(1).unwrap().split('"').next().unwrap();
        let path = link.strip_prefix(PUBLIC).unwrap();
        let address = page.split("value=\"").nth(2).unwrap().split('"').next().unwrap();
        let enter = async |address: &str| {
            let form = format!("token={token}&resource={address}&server_key={key}");
            user.browser("POST", path, &form).send(world.at()).await
        };
        let other = enter("https://other.example/mcp").await.text();
        assert!(other.contains("address has changed"), "a key is for the address shown: {other}");
        let done = enter(address).await;
        assert_eq!(done.status, 200, "{}", done.text());
        world.assert_no_canary(&[&done]);
        if key == "wrong" {
            user.prompt().await;
        } else {
            assert_eq!(user.name_at_server().await, name);
        }
    }
    for heard in world.server.heard() {
        assert_eq!(heard.header("authorization"), None, "{heard:?}");
    }
    assert_sealed(folder.path());
}

#[tokio::test]
async fn a_deleted_organisation_leaves_no_grants() {
    let folder = tempfile::tempdir().unwrap();
    let mut top = settings(&stores(folder.path(), None).remove(0));
    top["auth"] = json!({"keys_file": "keys.yaml"});
    let world = World::start_with(top, json!({})).await;
    let operator = key(&world.gate, "operator", &["--role", "operator"]).await;
    let of_acme = key(&world.gate, "anna", &["--organisation", "acme"]).await;
    let mut anna = User::of_key(&world, &of_acme);
    anna.connect("anna").await;
    let (url, cookie) = anna.start(&format!("{PUBLIC}/connect/a")).await;
    User::with_key(&world, "ben").await.connect("ben").await;
    let file = world.gate.folder.path().join("keys.yaml");
    let revoked =
        command().args(["keys", "revoke", &of_acme, "--file"]).arg(&file).output().unwrap();
    assert!(revoked.status.success(), "{}", String::from_utf8_lossy(&revoked.stderr));
    // Without a row of the organisation, its accounts are disconnected, but not in a dry run.
    until("the organisation has no keys", async || {
        let path = "/organisations/acme?dryRun=true";
        let tried = api(&world, Some(&operator), "DELETE", path).await;
        (tried.status == 404).then_some(())
    })
    .await;
    let all = api(&world, Some(&operator), "GET", "/connections?all=true").await.json();
    assert_eq!(all["total"], 2, "{all}");
    let new = Request::bare("POST", "/api/organisations", json!({"id": "acme"}).to_string());
    assert_eq!(new.by(&operator).send(world.at()).await.status, 201);
    until("the organisation is deleted", async || {
        let deleted = api(&world, Some(&operator), "DELETE", "/organisations/acme").await;
        (deleted.status == 204).then_some(())
    })
    .await;
    let all = api(&world, Some(&operator), "GET", "/connections?all=true").await.json();
    assert_eq!((&all["total"], &all["items"][0]["organizationId"]), (&json!(1), &json!("default")));
    until("the tokens are revoked", async || (!world.authority.has_tokens("anna")).then_some(()))
        .await;
    assert!(world.authority.has_tokens("ben"));
    // An authorization that a revoked key has started connects nothing.
    let redeemed = world.authority.grants("authorization_code").len();
    let late = world.authority.approve(&url, "anna");
    let late = anna.come_back(&late, &cookie).await;
    assert!(late.status == 400 && late.text().contains("was revoked"), "{}", late.text());
    assert_eq!(world.authority.grants("authorization_code").len(), redeemed);
    // Nor does another of its callers, until the organisation is created again.
    let of_acme = key(&world.gate, "carol", &["--organisation", "acme"]).await;
    let mut carol = User::of_key(&world, &of_acme);
    let (url, cookie) = carol.start(&format!("{PUBLIC}/connect/a")).await;
    let late = carol.come_back(&world.authority.approve(&url, "carol"), &cookie).await;
    assert!(late.status >= 400 && late.text().contains("was deleted"), "{}", late.text());
    until("the tokens are revoked", async || (!world.authority.has_tokens("carol")).then_some(()))
        .await;
    let new = Request::bare("POST", "/api/organisations", json!({"id": "acme"}).to_string());
    assert_eq!(new.by(&operator).send(world.at()).await.status, 201);
    carol.connect("carol").await;
}
