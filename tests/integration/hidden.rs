//! For random policies and catalogs, listed items can be used, and unlisted items get the same
//! bytes as missing items, at every endpoint, in both eras and in every way of access. All servers
//! are scripted.

mod lines;
mod offer;
mod ways;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

use crate::rig::client::Request;
use crate::rig::gate::command;
use crate::rig::{Answer, EVENT_TIMEOUT, Gate, Stream, Upstream, Value, fixture, json, until};
use lines::Line;
use offer::Offer;
use ways::Seat;

const ROUNDS: usize = 10;

/// Generates a few policies about existing and missing items.
fn policies() -> impl Strategy<Value = Vec<Value>> {
    let some = |words: &[&'static str]| {
        let list = proptest::collection::vec(proptest::sample::select(words.to_vec()), 1..3);
        proptest::option::weighted(0.3, list)
    };
    let what = (
        some(&[
            "a/*",
            "b/*",
            "*__read*",
            "a__query",
            "b/{query,write_file}",
            "*",
            "system/*",
            "*_file",
            "system/re*",
        ]),
        some(&["*", "a/greet", "*__review", "b/*"]),
        some(&[
            "*",
            "a/*",
            "a/note://one",
            "*note://*",
            "b/item://*",
            "*secret*",
            "b+log*",
            "*monday",
        ]),
        proptest::option::weighted(
            0.15,
            proptest::sample::select(vec!["*", "a/*", "b/item*", "*__greet"]),
        ),
        proptest::option::weighted(
            0.25,
            proptest::sample::select(vec!["a", "b", "system", "{a,system}"]),
        ),
        proptest::option::weighted(
            0.15,
            proptest::sample::select(vec!["/mcp", "/servers/*/mcp", "/servers/a/mcp"]),
        ),
        proptest::option::weighted(0.1, proptest::sample::select(vec![true, false])),
    );
    let what = what.prop_map(|(tools, prompts, resources, completion, server, endpoint, reads)| {
        let mut what = json!({});
        for (key, list) in [("tools", tools), ("prompts", prompts), ("resources", resources)] {
            list.into_iter().for_each(|list| what[key] = json!(list));
        }
        for (key, one) in [("completion", completion), ("servers", server), ("endpoints", endpoint)]
        {
            one.into_iter().for_each(|one| what[key] = json!([one]));
        }
        reads.into_iter().for_each(|reads| what["annotations"] = json!({"read_only": reads}));
        what
    });
    let conditions = vec![
        r#"target.server == "a""#,
        r#"target.kind == "tool""#,
        r#""ops" in subject.roles"#,
        "has(subject.nothing)",
    ];
    let one = (
        proptest::bool::weighted(0.8),
        what,
        proptest::bool::weighted(0.2),
        proptest::option::weighted(0.15, proptest::sample::select(conditions)),
        proptest::bool::weighted(0.1),
    );
    let one = one.prop_map(|(allow, what, ops, when, dry)| {
        let mut policy =
            json!({"effect": if allow { "allow" } else { "deny" }, "what": what, "dry_run": dry});
        if ops {
            policy["who"] = json!({"roles": ["ops"]});
        }
        when.filter(|when| !when.contains("nothing"))
            .into_iter()
            .for_each(|when| policy["when"] = when.into());
        policy
    });
    (proptest::collection::vec(one, 0..6), proptest::bool::weighted(0.4)).prop_map(
        |(mut all, open)| {
            if open {
                all.push(json!({"effect": "allow"}));
            }
            for (n, policy) in all.iter_mut().enumerate() {
                policy["name"] = format!("p{n}").into();
            }
            all
        },
    )
}

/// Creates a key with these roles, in a file that the gateway reads when it starts.
fn key(folder: &tempfile::TempDir, name: &str, roles: &[&str]) -> String {
    let mut command = command();
    command.args(["keys", "create", name, "--json", "--file"]).arg(folder.path().join("keys.yaml"));
    for role in roles {
        command.args(["--role", role]);
    }
    let made: Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
    made["key"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn what_is_listed_can_be_used_and_the_rest_does_not_exist_every_way_in() {
    let folder = tempfile::tempdir().unwrap();
    let keys = [key(&folder, "ops", &["ops"]), key(&folder, "guest", &[])];
    let file = folder.path().join("all.yaml");
    let mut runner = TestRunner::deterministic();
    let mut tally = ways::Tally::default();
    for round in 0..ROUNDS {
        let set = policies().new_tree(&mut runner).unwrap().current();
        let offers = (offer::random(), offer::random()).new_tree(&mut runner).unwrap().current();
        let (a, b) =
            (Upstream::http(offers.0.legacy()).await, Upstream::http(offers.1.modern()).await);
        std::fs::write(&file, json!({ "policies": set }).to_string()).unwrap();
        let config = json!({
            "servers": {"a": a.config(), "b": b.config()}, "builtin": {"system": true, "example": false},
            "policy": {"files": [file]}, "auth": {"keys_file": folder.path().join("keys.yaml")}, "http": {"sse": true},
        });
        let gate = Gate::start(config.clone()).await;
        let known: [(&str, &Offer); 2] = [("a", &offers.0), ("b", &offers.1)];
        for key in &keys {
            for path in ["/mcp", "/servers/a/mcp", "/servers/b/mcp", "/servers/system/mcp"] {
                let about = format!("round {round}, {path}: {}", json!(set));
                ways::try_all(&Seat { gate: &gate, key, path, about: &about }, &known, &mut tally)
                    .await;
            }
            Line::sse(&gate, key)
                .await
                .try_all(&format!("round {round}, sse: {}", json!(set)), &mut tally)
                .await;
        }
        for modern in [true, false] {
            let about = format!("round {round}, stdio, modern: {modern}: {}", json!(set));
            Line::stdio(config.clone(), modern).await.try_all(&about, &mut tally).await;
        }
    }
    // The generated policies must neither permit nor hide nearly everything.
    assert!(tally.used > 300 && tally.hidden > 300, "{tally:?}");
}

const WATCHED: &str = "test://watched-resource";
const OTHER: &str = "test://static-text";
const ALL: &str = r#"{"policies": [{"name": "all", "effect": "allow"}]}"#;
const NOT_WATCHED: &str = r#"{"policies": [{"name": "all", "effect": "allow"},
    {"name": "not-that", "effect": "deny", "what": {"resources": ["*watched*", "*note://one"]}}]}"#;

fn save(file: &std::path::Path, text: &str) {
    let new = file.with_extension("new");
    std::fs::write(&new, text).unwrap();
    std::fs::rename(new, file).unwrap();
}

/// Updates two resources in turn; returns which streams report the first before the second.
async fn told(gate: &Gate, streams: [&mut Stream; 2]) -> [bool; 2] {
    for uri in [WATCHED, OTHER] {
        let params = json!({"name": "f__test_trigger_resource_update", "arguments": {"uri": uri}});
        assert_eq!(gate.modern("/mcp", "tools/call", params).await.code(), 0);
    }
    let mut all = [false; 2];
    for (stream, told) in streams.into_iter().zip(&mut all) {
        loop {
            let note = tokio::time::timeout(EVENT_TIMEOUT, stream.next())
                .await
                .expect("the other update")
                .unwrap();
            match note["params"]["uri"].as_str() {
                Some(uri) if uri.ends_with(OTHER) => break,
                Some(uri) if uri.ends_with(WATCHED) => *told = true,
                _ => {}
            }
        }
    }
    all
}

#[tokio::test]
async fn a_policy_that_hides_a_resource_ends_its_subscriptions() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("all.yaml");
    save(&file, ALL);
    let offer =
        Offer { tools: vec![], prompts: vec![], resources: vec!["note://one"], templates: vec![] };
    let a = Upstream::http(offer.legacy()).await;
    let servers = json!({"a": a.config(), "f": fixture(&["--era", "legacy"])});
    let gate = Gate::start(json!({"servers": servers, "policy": {"files": [file]}})).await;
    let session = gate.session("/mcp", "2025-11-25").await;
    for uri in ["f+test://watched-resource", "f+test://static-text", "a+note://one"] {
        assert_eq!(session.ask("resources/subscribe", json!({"uri": uri})).await.code(), 0);
    }
    let mut legacy = session.listen().await;
    let wanted =
        json!({"resourceSubscriptions": ["f+test://watched-resource", "f+test://static-text"]});
    let listen = Request::modern("/mcp", "subscriptions/listen", json!({"notifications": wanted}));
    let mut modern = listen.open(gate.address).await;
    assert!(modern.next().await.unwrap().to_string().contains("watched"));
    assert_eq!(told(&gate, [&mut legacy, &mut modern]).await, [true, true]);
    save(&file, NOT_WATCHED);
    let read = json!({"uri": "f+test://watched-resource"});
    until("the resource is hidden", async || {
        (gate.modern("/mcp", "resources/read", read.clone()).await.code() != 0).then_some(())
    })
    .await;
    until("the server hears of it", async || (a.count("resources/unsubscribe") == 1).then_some(()))
        .await;
    assert_eq!(told(&gate, [&mut legacy, &mut modern]).await, [false, false]);
}
