//! Forms and lists of the console from outside: after a mistake, for a second click, for callers
//! without the role, and beyond the length of a page.

use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::approvals::{ONE, Rig, modern_call};
use crate::console::{form, get, hidden_field, sign_in};
use crate::principals::{By, gate, key};
use crate::rig::client::Request;
use crate::rig::upstream::modern;
use crate::rig::{Answer, Gate, Say, Upstream, Value, json, until};

/// The field of a secret, after a form was sent.
const LOST: &str = "Enter it again: secrets are not kept in forms.";

async fn open(gate: &Gate, cookie: &str, path: &str) -> Answer {
    get(path).with("Cookie", cookie).send(gate.address).await
}

/// Returns the form of a page, with its hidden fields and these.
fn fill(gate: &Gate, cookie: &str, path: &str, page: &Answer, more: &[(&str, &str)]) -> Request {
    let mut fields = Vec::new();
    for name in ["token", "page", "version"] {
        fields.push((name, hidden_field(page, name)));
    }
    let mut fields: Vec<_> = fields.iter().map(|(name, value)| (*name, &**value)).collect();
    fields.extend(more);
    form(gate.address, path, &fields).with("Cookie", cookie)
}

async fn ask(gate: &Gate, by: &str, verb: &'static str, path: &str, body: &Value) -> Answer {
    Request::bare(verb, &format!("/api{path}"), body.to_string()).by(by).send(gate.address).await
}

#[tokio::test]
async fn pages_refuse_by_role_and_by_agent_on_the_record() {
    let server = Upstream::http(modern(&["t"])).await;
    let gate = gate(&server, json!({"audit": {"output": "file", "file": "audit.jsonl"}})).await;
    let user = key(&gate, "user", &[]).await;
    let made = ask(&gate, &user, "POST", "/agents", &json!({"name": "Desk"})).await.json();
    let agent = made["id"].as_str().unwrap();
    let robot = key(&gate, "robot", &["--agent", agent, "--role", "admin"]).await;
    let (user, robot) = (sign_in(&gate, &user).await, sign_in(&gate, &robot).await);
    let mut page = open(&gate, &user, "/console/access").await;
    for (cookie, path) in [(&user, "/console/access"), (&robot, "/console/keys/new")] {
        page = open(&gate, cookie, path).await;
        assert_eq!(page.status, 403, "{path}: {}", page.text());
    }
    until("both are on the record", async || {
        let trail = std::fs::read_to_string(gate.folder.path().join("audit.jsonl")).unwrap();
        let has = |path: &str| trail.contains(&format!("GET {path}\""));
        (has("/console/access") && has("/console/keys/new")).then_some(())
    })
    .await;
    let leave = fill(&gate, &robot, "/console/sign-out", &page, &[]).send(gate.address).await;
    assert_eq!(leave.status, 303, "{}", leave.text());
}

#[tokio::test]
async fn approvals_are_listed_in_the_order_of_their_calls() {
    let rig = Rig::new(ONE, json!({})).await;
    let (ann, bob) = (rig.person("ann").await, rig.approver("bob").await);
    let mut calls = Vec::new();
    for n in 0..6 {
        let call = modern_call("a__wipe", json!({"arguments": {"n": n}})).by(&ann);
        let mut socket = TcpStream::connect(rig.gate.address).await.unwrap();
        socket.write_all(&call.bytes()).await.unwrap();
        calls.push(socket);
        until("it waits", async || (rig.list(&bob).await.len() == calls.len()).then_some(())).await;
    }
    let cookie = sign_in(&rig.gate, &bob).await;
    let page = open(&rig.gate, &cookie, "/console/approvals").await.text();
    let places = rig.list(&bob).await.into_iter().map(|call| {
        let id = call["id"].as_str().unwrap().to_owned();
        page.find(&format!("id=\"call-{id}\"")).unwrap()
    });
    let places: Vec<usize> = places.collect();
    assert!(places.is_sorted(), "{places:?}");
}

#[tokio::test]
async fn a_form_with_a_mistake_keeps_its_version_and_names_the_lost_secret() {
    let server = Upstream::http(modern(&["t"])).await;
    let gate = gate(&server, json!({})).await;
    let lead = key(&gate, "lead", &["--organisation", "acme", "--role", "admin"]).await;
    let cookie = sign_in(&gate, &lead).await;
    let url = format!("http://{}/mcp", server.address);
    let new = json!({"name": "Notes", "serverUrl": url});
    let made = ask(&gate, &lead, "POST", "/mcp-integrations/custom", &new).await.json();
    let id = made["id"].as_str().unwrap();
    let path = format!("/console/integrations/{id}");
    let mut page = open(&gate, &cookie, &path).await;
    let patch = json!({"name": "Renamed"});
    let patched = ask(&gate, &lead, "PATCH", &format!("/mcp-integrations/{id}"), &patch).await;
    assert_eq!(patched.status, 200, "{}", patched.text());
    let url = url.replace(':', "%3A");
    let mistake = [("name", "Mine"), ("serverUrl", "nonsense"), ("credentials", "s3cret-value")];
    let good = [("name", "Mine"), ("serverUrl", &*url)];
    for (fields, status, version, words) in [
        (&mistake[..], 422, "1", LOST),
        (&good[..], 422, "2", "It was changed elsewhere"),
        (&mistake[..], 422, "2", LOST),
        (&good[..], 303, "", ""),
    ] {
        page = fill(&gate, &cookie, &path, &page, fields).send(gate.address).await;
        let text = page.text();
        assert_eq!((page.status, &*hidden_field(&page, "version")), (status, version), "{text}");
        assert!(text.contains(words) && !text.contains("s3cret-value"), "{text}");
    }
    let page = open(&gate, &cookie, "/console/integrations/new").await;
    let text = fill(&gate, &cookie, "/console/integrations/new", &page, &mistake);
    let text = text.send(gate.address).await.text();
    assert!(text.contains(LOST) && !text.contains("s3cret-value"), "{text}");
}

#[tokio::test]
async fn items_of_an_agent_keep_their_version_after_a_mistake() {
    let server = Upstream::http(modern(&["t"])).await;
    let gate = gate(&server, json!({})).await;
    let user = key(&gate, "user", &[]).await;
    let cookie = sign_in(&gate, &user).await;
    let made = ask(&gate, &user, "POST", "/agents", &json!({"name": "Desk"})).await.json();
    let id = made["id"].as_str().unwrap();
    let path = format!("/console/agents/{id}/items");
    let mut page = open(&gate, &cookie, &path).await;
    let first = hidden_field(&page, "version");
    let patched = ask(&gate, &user, "PATCH", &format!("/agents/{id}"), &json!({"name": "B"})).await;
    let second = patched.json()["version"].to_string();
    assert_ne!(first, second);
    let mistake = [("tools", "*"), ("rename", "formless")];
    for (fields, status, version) in [
        (&mistake[..], 422, &first),
        (&[("tools", "*")][..], 422, &second),
        (&[("tools", "*")][..], 303, &String::new()),
    ] {
        page = fill(&gate, &cookie, &path, &page, fields).send(gate.address).await;
        let found = (page.status, hidden_field(&page, "version"));
        assert_eq!(found, (status, version.clone()), "{}", page.text());
    }
}

#[tokio::test]
async fn a_mistake_in_a_field_that_the_form_lacks_is_shown() {
    let server = Upstream::http(modern(&["t"])).await;
    let url = format!("http://{}/mcp", server.address);
    let catalogue = json!({"catalogue": {"open": {"url": url}}});
    let gate = gate(&server, catalogue).await;
    let lead = key(&gate, "lead", &["--organisation", "acme", "--role", "admin"]).await;
    let cookie = sign_in(&gate, &lead).await;
    let new = json!({"slug": "open"});
    let made = ask(&gate, &lead, "POST", "/mcp-integrations/predefined", &new).await.json();
    let edit = format!("/console/integrations/{}", made["id"].as_str().unwrap());
    for (path, field) in [
        (&*edit, ("serverUrl", "https%3A%2F%2Felsewhere.example")),
        ("/console/catalogue/open", ("credentials", "x")),
        ("/console/keys/new", ("organizationId", "globex")),
    ] {
        let page = open(&gate, &cookie, path).await;
        let fields = [("name", "n"), field];
        let page = fill(&gate, &cookie, path, &page, &fields).send(gate.address).await;
        assert_eq!(page.status, 422, "{path}: {}", page.text());
        assert!(page.text().contains("id=\"form-mistake\""), "{path}: {}", page.text());
    }
}

#[tokio::test]
async fn a_call_whose_visitor_left_at_once_is_made_once() {
    let late = modern(&["t"]);
    let server = Upstream::http(move |heard| match (heard.method(), late(heard)) {
        ("tools/call", Say::Json(result)) => Say::Late(Duration::from_millis(800), result),
        (_, other) => other,
    });
    let server = server.await;
    let gate = gate(&server, json!({})).await;
    let cookie = sign_in(&gate, &key(&gate, "user", &[]).await).await;
    let path = "/console/tools/a__t";
    let page = until("the tool is there", async || {
        let page = open(&gate, &cookie, path).await;
        (page.status == 200).then_some(page)
    })
    .await;
    let call = fill(&gate, &cookie, path, &page, &[]);
    let mut socket = TcpStream::connect(gate.address).await.unwrap();
    socket.write_all(&call.bytes()).await.unwrap();
    until("it is called", async || (server.count("tools/call") == 1).then_some(())).await;
    drop(socket);
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert_eq!(call.send(gate.address).await.status, 409);
    assert_eq!(server.count("tools/call"), 1);
}

#[tokio::test]
async fn all_servers_of_an_organisation_are_within_reach() {
    let server = Upstream::http(modern(&["t"])).await;
    let gate = gate(&server, json!({})).await;
    let lead = key(&gate, "lead", &["--organisation", "acme", "--role", "admin"]).await;
    let boss = key(&gate, "boss", &["--role", "operator"]).await;
    let url = format!("http://{}/mcp", server.address);
    let named = |at| json!({"name": format!("Server {at:03}"), "serverUrl": url});
    let servers: Vec<Value> = (0..201).map(named).collect();
    let set = ask(&gate, &lead, "PUT", "/servers", &json!({"servers": servers})).await;
    assert_eq!(set.status, 200, "{}", set.text());
    let cookie = sign_in(&gate, &boss).await;
    let first = open(&gate, &cookie, "/console/organisations/acme").await.text();
    assert!(first.contains("Server 199<") && !first.contains("Server 200<"), "{first}");
    let link = first.split("\">Next page<").next().unwrap().rsplit('"').next().unwrap();
    let next = open(&gate, &cookie, link.split('#').next().unwrap()).await.text();
    assert!(next.contains("Server 200<") && !next.contains("Server 199<"), "{next}");
}

#[tokio::test]
async fn the_explanation_of_a_denied_call_has_its_arguments_but_not_in_its_address() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policies.json");
    let policies = json!({"policies": [
        {"name": "all", "effect": "allow"},
        {"name": "no-rm", "effect": "deny", "what": {"tools": ["a/t"]},
            "when": "arguments.text == 'private-7'"},
    ]});
    std::fs::write(&file, policies.to_string()).unwrap();
    let server = Upstream::http(modern(&["t"])).await;
    let gate = gate(&server, json!({"policy": {"files": [file]}})).await;
    let cookie = sign_in(&gate, &key(&gate, "boss", &["--role", "operator"]).await).await;
    let path = "/console/tools/a__t";
    let page = until("the tool is there", async || {
        let page = open(&gate, &cookie, path).await;
        (page.status == 200).then_some(page)
    })
    .await;
    let json = [("json", "%7B%22text%22%3A%22private-7%22%7D")];
    let called = fill(&gate, &cookie, path, &page, &json).send(gate.address).await;
    let result = called.header("location").unwrap_or_default().split('#').next().unwrap();
    let shown = open(&gate, &cookie, result).await.text();
    let link = shown.split("\">Explain the decision<").next().unwrap().rsplit('"').next().unwrap();
    assert!(link.starts_with("/console/access?") && !link.contains("private-7"), "{link}");
    let link = link.replace("&#38;", "&").replace("&amp;", "&");
    let page = open(&gate, &cookie, &link).await;
    let text = page.text();
    assert!(page.status == 200 && text.contains(">no-rm<"), "{text}");
    assert!(text.contains("private-7") && text.contains("Denied"), "{text}");
    let case = text.split("\">Create a test case<").next().unwrap().rsplit('"').next().unwrap();
    assert!(!case.contains("private-7"), "{case}");
    let case = case.replace("&#38;", "&").replace("&amp;", "&");
    assert!(open(&gate, &cookie, &case).await.text().contains("private-7"));
}
