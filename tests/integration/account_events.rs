//! Events of accounts: for their holders and the administrators of their organisation, at every
//! gateway with the same store.

use crate::accounts::{User, World};
use crate::events::next;
use crate::principals::{By, key};
use crate::rig::client::{Request, Stream};
use crate::rig::{Value, json};
use crate::stored_accounts::{settings, stores};

async fn follow(world: &World, by: Option<&str>) -> Stream {
    let request = Request::bare("GET", "/api/events", "");
    let request = by.into_iter().fold(request, |request, key| request.by(key));
    request.open(world.at()).await
}

/// Returns the subject and state of the next event of an account.
async fn next_change(stream: &mut Stream) -> Value {
    for _ in 0..20 {
        let (name, told) = next(stream).await;
        if name == "connection" {
            assert_eq!(told["server"], "a");
            return told;
        }
    }
    panic!("no account has changed");
}

#[tokio::test]
async fn holders_and_administrators_hear_of_changed_accounts() {
    let folder = tempfile::tempdir().unwrap();
    let mut top = settings(&stores(folder.path(), None).remove(0));
    top["auth"] = json!({"keys_file": "keys.yaml"});
    let world = World::start_with(top, json!({})).await;
    let admin = key(&world.gate, "admin", &["--role", "admin"]).await;
    let stranger = ["--role", "admin", "--organisation", "other"];
    let stranger = key(&world.gate, "stranger", &stranger).await;
    let mut anna = User::with_key(&world, "anna").await;
    let mut ben = User::with_key(&world, "ben").await;
    let mut to_admin = follow(&world, Some(&admin)).await;
    let mut to_stranger = follow(&world, Some(&stranger)).await;
    let mut to_anna = follow(&world, anna.key.as_deref()).await;
    let mut to_ben = follow(&world, ben.key.as_deref()).await;
    anna.connect("anna").await;
    let told = next_change(&mut to_anna).await;
    assert_eq!(
        (&told["state"], &told["scopes"]),
        (&json!("connected"), &json!(["mcp", "offline_access"]))
    );
    assert_eq!(next_change(&mut to_admin).await, told);
    // A renewed token is no event.
    world.authority.expire("anna");
    assert_eq!(anna.name_at_server().await, "anna");
    anna.prompt_for(&json!({"scope": "write"})).await;
    for stream in [&mut to_anna, &mut to_admin] {
        let told = next_change(stream).await;
        assert_eq!(
            (&told["state"], &told["neededScopes"]),
            (&json!("needs_scope"), &json!(["write"]))
        );
    }
    let (url, cookie) = {
        let prompt = anna.prompt_for(&json!({"scope": "write"})).await;
        anna.start(prompt["url"].as_str().unwrap()).await
    };
    let back = world.authority.approve(&url, "anna");
    assert_eq!(anna.come_back(&back, &cookie).await.status, 200);
    let told = next_change(&mut to_anna).await;
    assert_eq!(told["state"], "connected");
    assert!(told["scopes"].as_array().unwrap().contains(&json!("write")), "{told}");
    // An authorization server that fails, and recovers.
    world.authority.break_tokens(Some((503, json!({}))));
    world.authority.expire("anna");
    anna.call("a__t").await;
    let told = next_change(&mut to_anna).await;
    assert_eq!(told["state"], "failed");
    assert!(told["failure"].as_str().unwrap().contains("503"), "{told}");
    world.authority.break_tokens(None);
    assert_eq!(anna.name_at_server().await, "anna");
    assert_eq!(next_change(&mut to_anna).await["state"], "connected");
    world.authority.break_tokens(Some((400, json!({"error": "invalid_grant"}))));
    world.authority.expire("anna");
    anna.prompt().await;
    let told = next_change(&mut to_anna).await;
    assert_eq!(told["state"], "needs_connect");
    assert!(told["failure"].as_str().unwrap().contains("no longer accepts"), "{told}");
    world.authority.break_tokens(None);
    anna.connect("anna").await;
    assert_eq!(next_change(&mut to_anna).await["state"], "connected");
    let path = format!("/api/connections/{}", told["id"].as_str().unwrap());
    let ended = Request::bare("DELETE", &path, "").by(&admin).send(world.at()).await;
    assert_eq!(ended.status, 204, "{}", ended.text());
    assert_eq!(next_change(&mut to_anna).await["state"], "disconnected");
    // The first event for another user is its own, although the others came earlier.
    ben.connect("ben").await;
    let told = next_change(&mut to_ben).await;
    assert!(ben.key.as_deref().unwrap().contains(told["subject"].as_str().unwrap()), "{told}");
    let of_stranger = User::of_key(&world, &stranger).connect("eve").await;
    let told = next_change(&mut to_stranger).await;
    assert_eq!(told["organizationId"], "other");
    world.assert_no_canary(&[&of_stranger]);
}

#[tokio::test]
async fn other_gateways_tell_of_changed_accounts() {
    let folder = tempfile::tempdir().unwrap();
    let store = stores(folder.path(), None).remove(0);
    let one = World::start_with(settings(&store), json!({})).await;
    let two = one.start_another(settings(&store)).await;
    let mut stream = follow(&two, None).await;
    let mut user = User::local(&one);
    user.connect("anna").await;
    assert_eq!(next_change(&mut stream).await["state"], "connected");
    let ended = Request::bare("DELETE", "/api/connections/a", "").send(one.at()).await;
    assert_eq!(ended.status, 204, "{}", ended.text());
    assert_eq!(next_change(&mut stream).await["state"], "disconnected");
}
