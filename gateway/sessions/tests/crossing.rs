//! Isolation of organisations: tokens, sessions and notifications of an organisation's servers and
//! clients are invalid in any other. The same subject is a separate caller in each organisation.

use lockgate_upstream::{Announcement, Event, ListKind, ResourceUpdate, ServerId, Subscription};
use serde_json::{Value, json};

use super::rig::{Client, Rig, next, server, wait_until};

/// Returns clients of the same subject in two organisations, in the same era.
async fn pair(rig: &Rig, is_legacy: bool) -> [Client; 2] {
    let [one, two] = ["acme", "other"].map(|organisation| rig.client(organisation, "ann"));
    if is_legacy { [one.legacy().await, two.legacy().await] } else { [one, two] }
}

fn words(got: &Value) -> String {
    got["error"]["message"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_cursor_of_one_organisation_is_none_of_another() {
    let (rig, _) = Rig::with_two().await;
    for is_legacy in [false, true] {
        let [one, two] = pair(&rig, is_legacy).await;
        let listed = one.ask("tools/list", json!({})).await.json();
        let cursor = json!({"cursor": listed["result"]["nextCursor"]});
        assert!(cursor["cursor"].is_string(), "{listed}");
        let foreign = two.ask("tools/list", cursor.clone()).await.json();
        assert!(words(&foreign).contains("cursor is no longer valid"), "{foreign}");
        let own = one.ask("tools/list", cursor).await.json();
        assert!(own["result"]["tools"].is_array(), "{own}");
    }
}

#[tokio::test]
async fn a_session_of_one_organisation_is_none_of_another() {
    let (rig, _) = Rig::with_two().await;
    let [one, mut two] = pair(&rig, true).await;
    let own = std::mem::replace(&mut two.session, one.session.clone());
    let foreign = two.ask("tools/list", json!({})).await;
    two.session = Some("no-such-session".parse().unwrap());
    let unknown = two.ask("tools/list", json!({})).await;
    assert_eq!((foreign.status, foreign.text), (404, unknown.text));
    two.session = own;
    assert!(two.tools().await.contains(&"github__fly".to_owned()));
}

#[tokio::test]
async fn a_paused_request_goes_on_at_its_own_server_alone() {
    let (rig, [_, other]) = Rig::with_two().await;
    let [one, two] = pair(&rig, false).await;
    let paused = one.call("github__ask").await.json();
    let state = &paused["result"]["requestState"];
    assert!(state.is_string(), "{paused}");
    let round = json!({"name": "github__ask", "arguments": {}, "requestState": state,
        "inputResponses": {"one": {"action": "accept", "content": {"a": "b"}}}});
    let foreign = two.ask("tools/call", round.clone()).await.json();
    assert!(words(&foreign).contains("request state is not valid"), "{foreign}");
    assert!(other.called.lock().is_empty());
    let own = one.ask("tools/call", round.clone()).await.json();
    assert_eq!(own["result"]["content"][0]["text"], "acme/github", "{own}");
    // Nor at an operator's server that takes the slug.
    rig.share(&[server(None, "github", &["ask"])]);
    wait_until(|| async { one.tools().await == ["github__ask"] }).await;
    let later = one.ask("tools/call", round).await.json();
    assert!(words(&later).contains("request state is not valid"), "{later}");
}

#[tokio::test]
async fn a_task_of_one_organisation_is_unknown_in_another() {
    let (rig, [acme, other]) = Rig::with_two().await;
    let [one, two] = pair(&rig, false).await;
    let begun = one.call("github__work").await.json();
    let id = json!({"taskId": begun["result"]["taskId"]});
    assert!(id["taskId"].is_string(), "{begun}");
    let foreign = two.ask("tasks/get", id.clone()).await.json();
    let unknown = two.ask("tasks/get", json!({"taskId": "x"})).await.json();
    assert_eq!(foreign, unknown);
    assert!(other.called.lock().is_empty());
    let own = one.ask("tasks/get", id).await.json();
    assert_eq!(own["result"]["status"], "working", "{own}");
    assert_eq!(acme.called.lock().as_slice(), ["tools/call work", "tasks/get t1"]);
}

#[tokio::test]
async fn news_of_a_server_reach_its_own_organisation_alone() {
    let (rig, [acme, other]) = Rig::with_two().await;
    let [one, two] = pair(&rig, true).await;
    let mut streams = Vec::new();
    for client in [&one, &two] {
        let done = client.ask("resources/subscribe", json!({"uri": "github+note://one"})).await;
        assert!(done.text.contains("result"), "{}", done.text);
        streams.push(client.listen().await);
    }
    for organisation in ["acme", "other"] {
        let filter = json!({"notifications": {"toolsListChanged": true,
            "resourceSubscriptions": ["github+note://one"]}});
        let got = rig.client(organisation, "ann").ask("subscriptions/listen", filter).await;
        let mut events = got.events.unwrap();
        let acknowledged = next(&mut events).await;
        let granted = &acknowledged["params"]["notifications"]["resourceSubscriptions"];
        assert_eq!(granted, &json!(["github+note://one"]), "{acknowledged}");
        streams.push(events);
    }
    // The first server's notifications precede the second's, and do not reach the other client.
    let id = |server: &super::rig::Named| ServerId::of(server);
    for (turn, of) in [(0, &acme), (1, &other)] {
        let on = Subscription::Shared;
        let updated = ResourceUpdate { server: id(of), uri: "note://one".into(), on };
        rig.tell(Event::Updated(updated));
        let announced =
            Announcement { server: id(of), session: None, lists: vec![ListKind::Tools] };
        rig.tell(Event::Announced(announced));
        for at in [turn, turn + 2] {
            let mut methods = Vec::new();
            for _ in 0..2 {
                methods.push(next(&mut streams[at]).await["method"].clone());
            }
            methods.sort_by_key(ToString::to_string);
            let wanted = ["notifications/resources/updated", "notifications/tools/list_changed"];
            assert_eq!(methods, wanted, "stream {at}");
        }
    }
    for stream in &mut streams {
        let more = futures_util::FutureExt::now_or_never(futures_util::StreamExt::next(stream));
        assert!(more.is_none(), "nothing else was told");
    }
}

/// A response that begins and ends in one poll of its call.
#[tokio::test]
async fn a_response_that_has_already_arrived_reaches_its_client() {
    let rig = Rig::new();
    let acme = server(Some("acme"), "github", &["stream"]);
    rig.set("acme", &[acme], Vec::new()).await;
    for is_legacy in [false, true] {
        let client = rig.client("acme", "ann");
        let client = if is_legacy { client.legacy().await } else { client };
        let got = client.call("github__stream").await.json();
        assert_eq!(
            (&got["id"], &got["result"]["content"][0]["text"]),
            (&json!(1), &json!("whole"))
        );
    }
}

/// Messages without an id on a shared connection must not reach another caller.
#[tokio::test]
async fn the_channels_of_calls_tell_their_callers_apart() {
    let rig = Rig::new();
    rig.share(&[server(None, "shared", &["principal"])]);
    let [ann, bob] = ["ann", "bob"].map(|subject| rig.client("acme", subject));
    let [ann, bob, again] = [ann.clone().legacy().await, bob.legacy().await, ann.legacy().await];
    wait_until(|| async { ann.tools().await == ["shared__principal"] }).await;
    let mut principals = Vec::new();
    for client in [&ann, &bob, &again] {
        let answer = client.call("shared__principal").await.json();
        principals.push(answer["result"]["content"][0]["text"].clone());
    }
    assert_ne!(principals[0], principals[1], "{principals:?}");
    assert_eq!(principals[0], principals[2], "{principals:?}");
}
