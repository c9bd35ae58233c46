//! Views of organisation members: shared servers, their own servers, and agents.

use std::sync::Arc;

use lockgate_authn::{Identity, Principal};
use lockgate_protocol::name::Separator;
use lockgate_proxy::directory::{Change, Source};
use lockgate_proxy::transport::Endpoint;
use lockgate_upstream::Event;

use super::rig::{EVENT_TIMEOUT, Rig, agent, resting_server, server, wait_until};

#[tokio::test]
async fn members_see_what_all_share_and_what_is_their_organisations() {
    let (rig, [acme, other]) = Rig::with_two().await;
    for (organisation, own) in [("acme", "dig"), ("other", "fly")] {
        let modern = rig.client(organisation, "ann");
        let legacy = modern.clone().legacy().await;
        for client in [&modern, &legacy] {
            let names = ["ask", own, "who", "work"].map(|tool| format!("github__{tool}"));
            let mut tools = client.tools().await;
            assert_eq!(tools.pop().as_deref(), Some("time__now"));
            tools.sort();
            assert_eq!(tools, names, "{organisation}");
            let answer = client.call("github__who").await.text;
            assert!(answer.contains(&format!("{organisation}/github")), "{answer}");
        }
    }
    for stranger in [rig.client("third", "ann"), rig.client("default", "ann").legacy().await] {
        assert_eq!(stranger.tools().await, ["time__now"]);
    }
    let called = acme.called.lock().len() + other.called.lock().len();
    let ann = rig.client("acme", "ann");
    let foreign = ann.call("github__fly").await.text;
    assert_eq!(foreign, ann.call("github__xyz").await.text.replace("xyz", "fly"));
    assert_eq!(acme.called.lock().len() + other.called.lock().len(), called);
    let mut alone = rig.client("acme", "ann");
    alone.endpoint = Endpoint::Server("github".into());
    assert!(alone.tools().await.contains(&"dig".to_owned()));
    alone.endpoint = Endpoint::Server("time".into());
    assert_eq!(alone.tools().await, ["now"]);
}

#[tokio::test]
async fn a_server_of_the_operator_hides_one_of_an_organisation() {
    let (rig, _) = Rig::with_two().await;
    let ann = rig.client("acme", "ann");
    assert!(ann.tools().await.contains(&"github__dig".to_owned()));
    assert!(!rig.gateway.has_shared("github"));
    rig.share(&[server(None, "github", &["pull"])]);
    let has_come = || async { ann.tools().await == ["github__pull"] };
    wait_until(has_come).await;
    assert!(rig.gateway.has_shared("github"));
    let answer = ann.call("github__pull").await.text;
    assert!(answer.contains(r#""text":"github""#), "{answer}");
    rig.share(&[]);
    wait_until(|| async { ann.tools().await.contains(&"github__dig".to_owned()) }).await;
}

#[tokio::test]
async fn an_organisation_renames_nothing_of_the_operators() {
    let rig = Rig::with_separator(Separator::Hyphen);
    rig.share(&[server(None, "a", &["b-c"])]);
    rig.set("acme", &[server(Some("acme"), "a-b", &["c"])], Vec::new()).await;
    let ann = rig.client("acme", "ann");
    wait_until(|| async { ann.tools().await.len() == 2 }).await;
    assert_eq!(rig.client("default", "ann").tools().await, ["a-b-c"]);
    let tools = ann.tools().await;
    assert_eq!(tools[0], "a-b-c");
    assert!(tools[1].starts_with("a-b-c_"), "{tools:?}");
    for (tool, server) in tools.iter().zip(["a", "acme/a-b"]) {
        let answer = ann.call(tool).await.text;
        assert!(answer.contains(&format!(r#""text":"{server}""#)), "{answer}");
    }
}

#[tokio::test]
async fn an_agent_is_there_for_its_owner_and_for_administrators_alone() {
    let (rig, [acme, _]) = Rig::with_two().await;
    let second = server(Some("acme"), "second", &["run"]);
    let agents =
        vec![agent("a1", "ann", &["acme/github", "acme/nowhere"]), agent("a2", "ann", &["time"])];
    rig.set("acme", &[acme, second], agents).await;
    let ann = rig.client_at("acme", "ann", Endpoint::agent("a1"));
    wait_until(|| async { ann.tools().await.len() == 4 }).await;
    for client in [ann.clone(), ann.clone().legacy().await] {
        assert!(client.tools().await.iter().all(|name| name.starts_with("github__")));
        assert!(client.call("github__who").await.text.contains("acme/github"));
        let unassigned = client.call("second__run").await.text;
        assert_eq!(unassigned, client.call("second__xyz").await.text.replace("xyz", "run"));
    }
    let second = rig.client_at("acme", "ann", Endpoint::agent("a2"));
    assert_eq!(second.tools().await, ["time__now"]);
    let root = rig.client_at("acme", "root", Endpoint::agent("a1")).with_role("admin");
    assert_eq!(root.tools().await.len(), 4);

    let unknown = rig.client_at("acme", "ann", Endpoint::agent("a3"));
    let unknown = unknown.ask("tools/list", serde_json::json!({})).await;
    assert_eq!(unknown.status, 404);
    for (organisation, subject, role) in
        [("acme", "bob", "user"), ("other", "ann", "admin"), ("default", "ann", "admin")]
    {
        let foreign = rig.client_at(organisation, subject, Endpoint::agent("a1")).with_role(role);
        let got = foreign.ask("tools/list", serde_json::json!({})).await;
        assert_eq!((got.status, &got.text), (404, &unknown.text), "{organisation} {subject}");
        let initialize = foreign.clone().initialize().await;
        let none = rig.client_at("acme", "ann", Endpoint::agent("a3")).initialize().await;
        assert_eq!((initialize.status, initialize.text), (none.status, none.text));
    }
    let session = rig.client_at("acme", "ann", Endpoint::agent("a1")).legacy().await;
    rig.set("acme", &[], Vec::new()).await;
    wait_until(|| async { session.call("github__who").await.status == 404 }).await;
    assert_eq!(rig.client("acme", "ann").tools().await, ["time__now"]);
}

#[tokio::test]
async fn an_agent_does_not_reach_a_server_of_the_operator_that_takes_a_slug() {
    let (rig, [acme, _]) = Rig::with_two().await;
    rig.set("acme", &[acme], vec![agent("a1", "ann", &["acme/github"])]).await;
    let ann = rig.client_at("acme", "ann", Endpoint::agent("a1"));
    wait_until(|| async { ann.tools().await.len() == 4 }).await;
    let taker = server(None, "github", &["who", "admin"]);
    rig.share(&[server(None, "time", &["now"]), taker]);
    let everything = rig.client("acme", "ann");
    wait_until(|| async { everything.tools().await.contains(&"github__admin".into()) }).await;
    let tools = ann.tools().await;
    assert_eq!(tools.len(), 4, "{tools:?}");
    for tool in tools.iter().filter(|tool| tool.starts_with("github__who")) {
        let answer = ann.call(tool).await.text;
        assert!(answer.contains(r#""text":"acme/github""#), "{tool}: {answer}");
    }
    let unassigned = ann.call("github__admin").await.text;
    assert_eq!(unassigned, ann.call("github__xyz").await.text.replace("xyz", "admin"));
}

#[tokio::test]
async fn a_request_wakes_only_the_servers_that_it_is_about() {
    let rig = Rig::new();
    let names = ["git", "mail", "time", "wiki"];
    let own = names.map(|slug| resting_server(&rig, "acme", slug, &["run"]));
    let assigned = vec![agent("a1", "ann", &["acme/mail"])];
    let servers =
        own.iter().map(|server| Arc::clone(server) as Arc<dyn lockgate_upstream::Upstream>);
    rig.gateway.set_organisation("acme", servers.collect(), assigned);
    let resting = || own.each_ref().map(|server| server.rests());
    let ann = rig.client("acme", "ann");
    assert!(ann.call("git__run").await.text.contains("acme/git"));
    assert_eq!(resting(), [false, true, true, true]);
    let at_mail = rig.client_at("acme", "ann", Endpoint::agent("a1"));
    assert_eq!(at_mail.tools().await, ["mail__run"]);
    assert_eq!(resting(), [false, false, true, true]);
    let at_time = rig.client_at("acme", "ann", Endpoint::Server("time".into())).legacy().await;
    assert_eq!(at_time.tools().await, ["run"]);
    assert_eq!(resting(), [false, false, false, true]);
    assert_eq!(ann.tools().await.len(), 4);
}

#[tokio::test]
async fn a_server_that_is_unassigned_loses_its_connections_to_sessions_of_the_agent() {
    let (rig, [acme, _]) = Rig::with_two().await;
    let own = std::slice::from_ref(&acme);
    rig.set("acme", own, vec![agent("a1", "ann", &["acme/github"])]).await;
    let ann = rig.client_at("acme", "ann", Endpoint::agent("a1")).legacy().await;
    assert_eq!(ann.tools().await.len(), 4);
    rig.set("acme", own, vec![agent("a1", "ann", &[])]).await;
    wait_until(|| async { acme.forgotten.lock().len() == 1 }).await;
}

#[tokio::test]
async fn a_key_of_an_agent_opens_no_other_endpoint_whatever_lists_its_account_has() {
    let (rig, [acme, _]) = Rig::with_two().await;
    let time = server(None, "time", &["now"]);
    time.offer_in_private("then");
    rig.share(std::slice::from_ref(&time));
    let own = rig.client("acme", "ann");
    wait_until(|| async { own.tools().await.contains(&"time__then".to_owned()) }).await;
    rig.set("acme", &[acme], vec![agent("agt_1", "ann", &["acme/github", "time"])]).await;
    let mut identity = Identity::new("key", "of agent").in_organisation(Some("acme"));
    identity.agent = Some("agt_1".into());
    let principal = Principal::new(identity);
    for (endpoint, status) in [
        (Endpoint::agent("agt_1"), 200),
        (Endpoint::agent("agt_2"), 404),
        (Endpoint::All, 404),
        (Endpoint::Server("time".into()), 404),
    ] {
        let mut client = rig.client_at("acme", "ann", endpoint.clone());
        client.principal = principal.clone();
        let got = client.ask("tools/list", serde_json::json!({})).await;
        assert_eq!(got.status, status, "{endpoint:?} {}", got.text);
    }
}

#[tokio::test]
async fn other_agents_merge_no_servers() {
    let (rig, [acme, _]) = Rig::with_two().await;
    let directory = &rig.gateway.directory;
    let source: Source = Some("acme".into());
    let before = directory.catalog_of(source.as_deref()).unwrap();
    let mut changes = directory.changes.subscribe("acme");
    rig.set("acme", &[acme], vec![agent("a1", "ann", &["acme/github"])]).await;
    let heard = tokio::time::timeout(EVENT_TIMEOUT, changes.recv()).await.unwrap().unwrap();
    assert!(matches!(heard, Change::Catalog(_)), "whoever listens looks again: {heard:?}");
    assert_eq!(rig.client_at("acme", "ann", Endpoint::agent("a1")).tools().await.len(), 4);
    assert!(Arc::ptr_eq(&before, &directory.catalog_of(source.as_deref()).unwrap()));
}

#[tokio::test]
async fn a_change_of_one_organisation_merges_nothing_of_another() {
    let (rig, [acme, other]) = Rig::with_two().await;
    let directory = &rig.gateway.directory;
    let of = |name: Option<&str>| directory.catalog_of(name).unwrap();
    let view = |organisation: &str| {
        let snapshot = rig.gateway.snapshot();
        let principal = rig.client(organisation, "ann").principal;
        let rights = snapshot.rights_of(principal, &Endpoint::All);
        rig.gateway.view(&[], &snapshot, &rights).unwrap()
    };
    let before = [of(None), of(Some("other")), of(Some("acme"))];
    let views = [view("default"), view("other"), view("acme")];
    acme.offer(2, &["who", "more"]);
    let id = lockgate_upstream::ServerId::of(&*acme);
    rig.tell(Event::Changed { server: id });
    wait_until(|| async { rig.client("acme", "ann").tools().await.len() == 3 }).await;
    assert!(Arc::ptr_eq(&of(None), &before[0]) && Arc::ptr_eq(&of(Some("other")), &before[1]));
    assert!(Arc::ptr_eq(&view("default"), &views[0]) && Arc::ptr_eq(&view("other"), &views[1]));
    assert!(!Arc::ptr_eq(&view("acme"), &views[2]));

    // Replaced views are dropped with their last reader: an organisation's and the operator's.
    let gone = Arc::downgrade(&views[2]);
    let [shared, own, _] = before;
    drop((views, shared));
    wait_until(|| async { gone.upgrade().is_none() }).await;
    let idle = Arc::downgrade(&view("other"));
    rig.share(&[server(None, "clock", &["now"])]);
    wait_until(|| async { rig.client("default", "ann").tools().await == ["clock__now"] }).await;
    wait_until(|| async { idle.upgrade().is_none() }).await;
    assert!(Arc::ptr_eq(&of(Some("other")), &own), "and nothing of it was merged");
    drop(other);
}

#[tokio::test]
async fn a_list_connects_what_nothing_is_known_of_and_nobody_elses() {
    let rig = Rig::new();
    rig.share(&[server(None, "time", &["now"])]);
    let mut servers = Vec::new();
    for organisation in ["acme", "other"] {
        let server = resting_server(&rig, organisation, "github", &["who"]);
        rig.gateway.set_organisation(organisation, vec![server.clone()], Vec::new());
        servers.push(server);
    }
    assert!(servers.iter().all(|server| server.rests()));
    wait_until(|| async { rig.client("third", "ann").tools().await == ["time__now"] }).await;
    assert!(servers.iter().all(|server| server.rests()));
    for client in [rig.client("acme", "ann"), rig.client("acme", "bob").legacy().await] {
        assert_eq!(client.tools().await, ["github__who", "time__now"]);
    }
    assert!(!servers[0].rests() && servers[1].rests(), "a stranger's list woke it");
    let answer = rig.client("other", "ann").call("github__who").await.text;
    assert!(answer.contains("other/github"), "the first call finds it: {answer}");
}

#[tokio::test]
async fn servers_are_announced_when_they_are_added_or_removed_and_not_if_they_stay() {
    let rig = Rig::new();
    let mut events = rig.gateway.directory.events.subscribe();
    let time = server(None, "time", &["now"]);
    rig.share(std::slice::from_ref(&time));
    assert!(matches!(events.try_recv(), Ok(Event::Changed { server }) if &*server.slug == "time"));
    rig.share(std::slice::from_ref(&time));
    assert!(events.try_recv().is_err());
    rig.share(&[]);
    assert!(matches!(events.try_recv(), Ok(Event::Changed { server }) if &*server.slug == "time"));
}
