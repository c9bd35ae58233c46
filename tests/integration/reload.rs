//! Configuration reloads: servers are added, removed and changed while others keep their processes
//! and sessions, clients are notified of visible changes, and a broken file has no effect.

use std::time::Duration;

use crate::rig::client::Request;
use crate::rig::upstream::modern;
use crate::rig::{Gate, Stream, Upstream, Value, alive, fixture, json, signal, until};

async fn lists(gate: &Gate, tool: &str) -> bool {
    gate.tools("/mcp").await.0.iter().any(|name| name == tool)
}

/// Returns the next message within the time, if any.
async fn within(stream: &mut Stream, ms: u64) -> Option<Value> {
    tokio::time::timeout(Duration::from_millis(ms), stream.next()).await.ok().flatten()
}

async fn listen(gate: &Gate, path: &str) -> Stream {
    let filter = json!({"notifications": {"toolsListChanged": true, "promptsListChanged": true}});
    let mut stream = Request::modern(path, "subscriptions/listen", filter).open(gate.address).await;
    assert_eq!(stream.next().await.unwrap()["method"], "notifications/subscriptions/acknowledged");
    stream
}

#[tokio::test]
async fn a_reload_touches_only_what_differs() {
    let (one, two) = (Upstream::http(modern(&["t"])).await, Upstream::http(modern(&["u"])).await);
    let keep = fixture(&[]);
    let gate = Gate::start(json!({"servers": {"keep": keep, "a": one.config()}})).await;
    let pids = gate.children();
    assert_eq!(pids.len(), 1);
    let session = gate.session("/mcp", "2025-11-25").await;
    assert_eq!(session.call("keep__test_simple_text").await.code(), 0);
    gate.configure(json!({"servers": {"keep": keep, "a": one.config(), "b": two.config()}}));
    until("b is listed", async || lists(&gate, "b__u").await.then_some(())).await;
    assert_eq!(gate.call("b__u").await.code(), 0);
    assert_eq!(session.call("b__u").await.code(), 0);
    // Changed: the same name with another address.
    gate.configure(json!({"servers": {"keep": keep, "a": two.config(), "b": two.config()}}));
    until("a is another one", async || lists(&gate, "a__u").await.then_some(())).await;
    until("the old one is gone", async || (!lists(&gate, "a__t").await).then_some(())).await;
    assert_eq!(gate.call("a__t").await.code(), -32602);
    gate.configure(json!({"servers": {"keep": keep}}));
    until("a and b are gone", async || {
        (!lists(&gate, "a__u").await && !lists(&gate, "b__u").await).then_some(())
    })
    .await;
    assert_eq!(gate.modern("/servers/a/mcp", "tools/list", json!({})).await.status, 404);
    assert_eq!(gate.children(), pids, "the untouched server keeps its process");
    assert_eq!(session.call("keep__test_simple_text").await.code(), 0);
    assert_eq!(one.count("server/discover"), 1);
}

#[tokio::test]
async fn a_broken_file_changes_nothing() {
    let one = Upstream::http(modern(&["t"])).await;
    let servers = json!({"a": one.config(), "c": fixture(&[])});
    let gate = Gate::start(json!({"servers": servers})).await;
    let before = gate.tools("/mcp").await.0;
    let pids = gate.children();
    let broken = [
        "{".to_owned(),
        String::from("\u{0}\u{1}"),
        r#"{"servers": {"a": {}}}"#.into(),
        r#"{"servers": null}"#.into(),
        "# everything is gone\n".into(),
        r#"{"unknown": 1}"#.into(),
        r#"{"servers": {"a": {"url": "http://127.0.0.1:1/", "command": "x"}}}"#.into(),
        r#"{"policy": {"tools": {"deny": ["["]}}}"#.into(),
        r#"{"limits": {"depth": 1}}"#.into(),
    ];
    for (n, text) in broken.iter().enumerate() {
        gate.write(text);
        until(text, async || {
            (gate.log().matches("the new one has mistakes").count() > n).then_some(())
        })
        .await;
        assert_eq!(gate.tools("/mcp").await.0, before, "{text}");
        assert_eq!(gate.call("a__t").await.code(), 0);
    }
    assert_eq!(gate.children(), pids);
    // The previous configuration again: no change, which is logged.
    gate.configure(json!({"servers": servers}));
    let again = "the configuration is valid again";
    until("it is told to be good again", async || gate.log().contains(again).then_some(())).await;
    gate.configure(json!({"servers": {"c": fixture(&[])}}));
    until("the corrected file is taken", async || (!lists(&gate, "a__t").await).then_some(()))
        .await;
    assert_eq!(gate.children(), pids);
    assert_eq!(gate.log().matches(again).count(), 1);
}

/// SIGHUP reloads the configuration like in other daemons, without interrupting calls.
#[tokio::test]
async fn a_hangup_reads_the_configuration_again() {
    let one = Upstream::http(modern(&["t"])).await;
    let gate = Gate::start(json!({"servers": {"a": one.config(), "c": fixture(&[])}})).await;
    let pids = gate.children();
    for times in 1..=2 {
        signal(gate.pid(), rustix::process::Signal::HUP);
        until("it is told that nothing has changed", async || {
            let told = "configuration read again after SIGHUP: nothing has changed";
            (gate.log().matches(told).count() == times).then_some(())
        })
        .await;
    }
    gate.write("{");
    until("the mistake is told", async || {
        gate.log().contains("the new one has mistakes").then_some(())
    })
    .await;
    signal(gate.pid(), rustix::process::Signal::HUP);
    until("it is told again", async || {
        (gate.log().matches("the new one has mistakes").count() == 2).then_some(())
    })
    .await;
    assert_eq!((gate.call("a__t").await.code(), gate.children()), (0, pids));
}

/// A configuration with one unusable part has no effect: no server or rule changes.
#[tokio::test]
async fn a_reload_is_all_or_nothing() {
    let (one, two) =
        (Upstream::http(modern(&["t", "u"])).await, Upstream::http(modern(&["v"])).await);
    let kept = fixture(&[]);
    let gate = Gate::start(json!({"servers": {"a": one.config(), "c": kept}})).await;
    let (before, pids) = (gate.tools("/mcp").await.0, gate.children());
    // A path of this length is only rejected when the client is built, and `z` is the last server.
    let endless = json!({"url": format!("http://127.0.0.1:1/{}", "x".repeat(70_000))});
    let rules = json!({"tools": {"deny": ["a__u"]}});
    gate.configure(json!({
        "servers": {"a": two.config(), "b": two.config(), "d": fixture(&["--era", "legacy"]), "z": endless},
        "policy": rules,
    }));
    until("it is refused", async || gate.log().contains("configuration unchanged").then_some(()))
        .await;
    assert_eq!(gate.tools("/mcp").await.0, before);
    assert_eq!(
        (gate.call("a__u").await.code(), gate.call("c__test_simple_text").await.code()),
        (0, 0)
    );
    assert_eq!((gate.children(), two.heard().len()), (pids.clone(), 0), "nothing was begun");
    gate.configure(
        json!({"servers": {"a": one.config(), "b": two.config(), "c": kept}, "policy": rules}),
    );
    until("the next one is taken", async || lists(&gate, "b__v").await.then_some(())).await;
    assert_eq!((gate.call("a__u").await.code(), gate.children()), (-32602, pids));
}

/// list_changed reaches the streams of both eras, only for visible changes.
#[tokio::test]
async fn clients_hear_of_changes_that_they_can_see() {
    let (one, two) = (Upstream::http(modern(&["t"])).await, Upstream::http(modern(&["u"])).await);
    let gate = Gate::start(json!({"servers": {"a": one.config()}})).await;
    let (session, other) = (
        gate.session("/mcp", "2025-11-25").await,
        gate.session("/servers/a/mcp", "2025-11-25").await,
    );
    let mut streams = [session.listen().await, listen(&gate, "/mcp").await];
    let mut still = [other.listen().await, listen(&gate, "/servers/a/mcp").await];
    for stream in streams.iter_mut().chain(&mut still) {
        while within(stream, 500).await.is_some() {} // pending notifications
    }
    gate.configure(json!({"servers": {"a": one.config(), "b": two.config()}}));
    until("b is listed", async || lists(&gate, "b__u").await.then_some(())).await;
    for stream in &mut streams {
        assert_eq!(
            within(stream, 3000).await.expect("a change")["method"],
            "notifications/tools/list_changed"
        );
    }
    let tagged = json!({"io.modelcontextprotocol/subscriptionId": 1});
    gate.configure(json!({"servers": {"a": one.config()}}));
    until("b is gone", async || (!lists(&gate, "b__u").await).then_some(())).await;
    assert_eq!(
        within(&mut streams[0], 3000).await.expect("a change")["method"],
        "notifications/tools/list_changed"
    );
    // F-19
    let told = within(&mut streams[1], 3000).await.expect("a change");
    assert_eq!(told["params"]["_meta"], tagged, "{told}");
    // A reload without a visible change, or with changes elsewhere, sends no notification.
    gate.configure(json!({"servers": {"a": one.config()}, "limits": {"question_rounds": 3}}));
    until("the file is read", async || {
        (gate.log().matches("configuration reloaded").count() >= 3).then_some(())
    })
    .await;
    for stream in streams.iter_mut().chain(&mut still) {
        assert_eq!(within(stream, 200).await, None);
    }
}

#[tokio::test]
async fn a_new_rule_hides_a_tool_at_once() {
    let one = Upstream::http(modern(&["t", "u"])).await;
    let gate = Gate::start(json!({"servers": {"a": one.config()}})).await;
    let session = gate.session("/mcp", "2025-11-25").await;
    let mut stream = listen(&gate, "/mcp").await;
    assert_eq!(session.call("a__u").await.code(), 0);
    gate.configure(
        json!({"servers": {"a": one.config()}, "policy": {"tools": {"deny": ["a__u"]}}}),
    );
    until("u is hidden", async || (!lists(&gate, "a__u").await).then_some(())).await;
    assert_eq!(session.call("a__u").await.code(), -32602);
    assert_eq!(session.call("a__t").await.code(), 0);
    assert_eq!(
        within(&mut stream, 3000).await.expect("a change")["method"],
        "notifications/tools/list_changed"
    );
    assert_eq!(one.count("server/discover"), 1);
    assert!(alive(gate.pid()));
}

/// Used rate-limit allowance survives a reload and counts against a changed limit.
#[tokio::test]
async fn a_reload_gives_nobody_a_fresh_allowance() {
    let (one, two) = (Upstream::http(modern(&["t"])).await, Upstream::http(modern(&["u"])).await);
    let with = |servers: Value, calls: u32| json!({"servers": servers, "policy": {"calls_per_minute": calls}});
    let gate = Gate::start(with(json!({"a": one.config()}), 4)).await;
    for _ in 0..4 {
        assert_eq!(gate.call("a__t").await.code(), 0);
    }
    assert_eq!(gate.call("a__t").await.code(), -31029);
    gate.configure(with(json!({"a": one.config(), "b": two.config()}), 4));
    until("b is listed", async || lists(&gate, "b__u").await.then_some(())).await;
    assert_eq!(gate.call("b__u").await.code(), -31029);
    gate.configure(with(json!({"a": one.config()}), 6));
    until("b is gone", async || (!lists(&gate, "b__u").await).then_some(())).await;
    let mut passed = 0;
    while gate.call("a__t").await.code() == 0 {
        passed += 1;
    }
    // The two additional calls, and a further call every ten seconds on a slow machine.
    assert!((2..5).contains(&passed), "{passed}");
}

/// Policies are reloaded from a folder that reappears and through a link; an unreachable policy
/// keeps the old policies in force.
#[tokio::test]
async fn policies_are_found_again_wherever_they_lead() {
    let one = Upstream::http(modern(&["t", "u"])).await;
    let elsewhere = tempfile::tempdir().unwrap();
    let (away, folder) = (elsewhere.path().join("deny.yaml"), elsewhere.path().join("policies"));
    let allow = "policies:\n  - { name: all, effect: allow }\n";
    let deny = |tool: &str| {
        format!("policies:\n  - {{ name: no, effect: deny, what: {{ tools: [a/{tool}] }} }}\n")
    };
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("a.yaml"), allow).unwrap();
    let gate =
        Gate::start(json!({"servers": {"a": one.config()}, "policy": {"files": [folder]}})).await;
    until("all is listed", async || lists(&gate, "a__t").await.then_some(())).await;
    let mistakes = || gate.log().matches("the new one has mistakes").count();

    std::fs::remove_dir_all(&folder).unwrap();
    until("the folder is missed", async || (mistakes() > 0).then_some(())).await;
    std::fs::create_dir(&folder).unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    std::fs::write(folder.join("a.yaml"), allow).unwrap();
    std::fs::write(&away, deny("nothing")).unwrap();
    std::os::unix::fs::symlink("../deny.yaml", folder.join("b.yaml")).unwrap();
    until("they are read again", async || {
        gate.log().contains("configuration reloaded").then_some(())
    })
    .await;
    std::fs::write(&away, deny("u")).unwrap();
    until("u is hidden", async || (!lists(&gate, "a__u").await).then_some(())).await;

    let before = mistakes();
    std::fs::remove_file(&away).unwrap();
    until("the link is a mistake", async || (mistakes() > before).then_some(())).await;
    assert!(gate.log().contains("`b.yaml` is a broken link"), "{}", gate.log());
    assert!(!lists(&gate, "a__u").await);
    std::fs::write(&away, deny("t")).unwrap();
    until("t is hidden", async || (!lists(&gate, "a__t").await).then_some(())).await;
    assert!(lists(&gate, "a__u").await);
}

/// A change that needs a restart is logged once, and no longer applies once it is reverted.
#[tokio::test]
async fn what_was_changed_back_waits_for_nothing() {
    let one = Upstream::http(modern(&["t"])).await;
    let with =
        |seconds: u32| json!({"servers": {"a": one.config()}, "http": {"keep_alive": seconds}});
    let gate = Gate::start(with(20)).await;
    let waits = "listen, http: this change takes effect at the next start";
    gate.configure(with(21));
    until("it is told", async || gate.log().contains(waits).then_some(())).await;
    gate.configure(with(20));
    let back = "listen, http: same as at the start again";
    until("it is told again", async || gate.log().contains(back).then_some(())).await;
    assert_eq!(gate.log().matches(waits).count(), 1, "{}", gate.log());
}
