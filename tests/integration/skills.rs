//! Skills (SEP-2640) in both eras: merged and paged, routed by URI, under policy and pins, with
//! bytes and digests unchanged.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::rig::upstream::{legacy, modern};
use crate::rig::{Client, Gate, HeardMessage, Say, Upstream, Value, json, until};
use crate::trust::{lockgate, text};

const SKILLS: &str = "io.modelcontextprotocol/skills";
const TEXT: &str =
    "---\nname: refunds\ndescription: Process refunds\n---\r\nAsk first: naïve, 日本語.\n";

fn file(uri: &str, mark: u8) -> Value {
    json!({"uri": uri, "digest": format!("sha256:{mark:064x}"), "size": TEXT.len()})
}

fn skill(name: &str, mark: u8) -> Value {
    let root = format!("skill://acme/{name}");
    json!({"uri": format!("{root}/SKILL.md"),
        "frontmatter": {"name": name, "description": format!("Process {name}"), "license": "MIT"},
        "resources": [file(&format!("{root}/SKILL.md"), mark), file(&format!("{root}/a/b.md"), 7)]})
}

fn page(heard: &HeardMessage, member: &str, items: Value) -> Say {
    Say::Json(heard.result(json!({"resultType": "complete", "ttlMs": 0, "cacheScope": "public",
        member: items})))
}

/// Answers a method of a server with these skills, the last of which is not listed.
fn answer(heard: &HeardMessage, skills: &[Value]) -> Option<Say> {
    let uri = heard.body["params"]["uri"].as_str().unwrap_or_default();
    let capabilities = json!({"tools": {}, "resources": {"listChanged": true},
        "extensions": {SKILLS: {"directoryRead": true}}});
    Some(match heard.method() {
        "server/discover" => Say::Json(heard.result(json!({"resultType": "complete",
            "supportedVersions": ["2026-07-28"], "ttlMs": 0, "cacheScope": "private",
            "capabilities": capabilities}))),
        "initialize" => Say::Json(heard.result(json!({"protocolVersion": "2025-11-25",
            "serverInfo": {"name": "old", "version": "1"}, "capabilities": capabilities}))),
        "skills/list" => page(heard, "skills", skills[..skills.len() - 1].into()),
        "skills/get" => match skills.iter().find(|skill| skill["uri"] == uri) {
            Some(skill) => page(heard, "skill", skill.clone()),
            None => Say::Json(heard.error(-32602, "no such skill")),
        },
        "resources/list" => page(
            heard,
            "resources",
            json!([{"uri": "skill://acme/refunds/a/b.md", "name": "b.md"}]),
        ),
        "resources/templates/list" => page(heard, "resourceTemplates", json!([])),
        "resources/read" => {
            let mut contents = json!({"uri": uri, "text": TEXT});
            if uri.ends_with("covert.md") {
                contents["text"] = format!("{TEXT}\u{200b}").into();
            } else if uri.ends_with("large.md") {
                contents["text"] = format!("{}\u{e0041}", "x".repeat(400_000)).into();
            } else if uri.ends_with("covert.bin") {
                // "Ask" and a space without width.
                contents = json!({"uri": uri, "blob": "QXNr4oCL"});
            }
            page(heard, "contents", json!([contents]))
        }
        "resources/directory/read" if uri.ends_with(".md") => {
            Say::Json(heard.error(-32602, "not a directory"))
        }
        "resources/directory/read" if uri.contains("/many-") => {
            let count = uri.rsplit('-').next().unwrap().parse().unwrap();
            let child = |at: usize| json!({"uri": format!("{uri}/{at}.md"), "name": "x"});
            page(heard, "resources", (0..count).map(child).collect())
        }
        "resources/directory/read" => {
            let named = |name: &str| json!({"uri": format!("{uri}/{name}"), "name": name});
            let more = &heard.body["params"]["cursor"];
            let (children, next) = match more.as_str() {
                None => (json!([named("a.md"), named("secret.md")]), json!("own-cursor")),
                Some(cursor) => (json!([named(cursor)]), Value::Null),
            };
            let mut result = json!({"resultType": "complete", "resources": children});
            if next.is_string() {
                result["nextCursor"] = next;
            }
            Say::Json(heard.result(result))
        }
        _ => return None,
    })
}

async fn serve(is_modern: bool, skills: Vec<Value>) -> Upstream {
    let plain: Box<dyn Fn(&HeardMessage) -> Say + Send + Sync> =
        if is_modern { Box::new(modern(&["t"])) } else { Box::new(legacy("2025-11-25", &["t"])) };
    Upstream::http(move |heard| answer(heard, &skills).unwrap_or_else(|| plain(heard))).await
}

/// Returns policies that deny the resources of a pattern.
fn policies(denied: &str) -> (tempfile::TempDir, Value) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policies.yaml");
    let rules = json!({"policies": [
        {"name": "all", "effect": "allow", "what": {"tools": ["*"], "resources": ["*"]}},
        {"name": "no", "effect": "deny", "what": {"resources": [denied]}},
    ]});
    std::fs::write(&file, rules.to_string()).unwrap();
    (folder, json!({"files": [file]}))
}

/// Returns the URIs of all skills, page by page.
async fn uris(client: &Client<'_>) -> Vec<String> {
    let mut uris = Vec::new();
    let mut params = json!({});
    loop {
        let page = client.ask("skills/list", params).await;
        if page.code() == -32601 {
            return uris;
        }
        let page = page.result();
        for skill in page["skills"].as_array().unwrap() {
            uris.push(skill["uri"].as_str().unwrap().to_owned());
        }
        match &page["nextCursor"] {
            Value::String(cursor) => params = json!({"cursor": cursor}),
            _ => return uris,
        }
    }
}

#[tokio::test]
async fn skills_of_all_servers_are_served_in_both_eras() {
    let new = serve(true, vec![skill("refunds", 1), skill("loans", 2), skill("unlisted", 3)]).await;
    let old = serve(false, vec![skill("refunds", 4), skill("unlisted", 5)]).await;
    let none = Upstream::http(modern(&["t"])).await;
    let config = json!({"servers": {"a": new.config(), "b": old.config(), "c": none.config()},
        "limits": {"page_items": 1}});
    let gate = Gate::start(config).await;
    let announced = json!({SKILLS: {"directoryRead": true}});
    let discovered = gate.modern("/mcp", "server/discover", json!({})).await.result();
    assert_eq!(discovered["capabilities"]["extensions"], announced);
    let session = gate.session("/mcp", "2025-11-25").await;
    assert_eq!(session.welcome["capabilities"]["extensions"], announced);
    for client in [Client::Modern(&gate, "/mcp"), Client::Legacy(session)] {
        assert_eq!(
            uris(&client).await,
            [
                "skill://a/acme/refunds/SKILL.md",
                "skill://a/acme/loans/SKILL.md",
                "skill://b/acme/refunds/SKILL.md",
            ]
        );
        for (server, mark) in [("a", 1), ("b", 4)] {
            let uri = format!("skill://{server}/acme/refunds/SKILL.md");
            let got = client.ask("skills/get", json!({"uri": uri})).await.result();
            let files = [(&uri, mark), (&format!("skill://{server}/acme/refunds/a/b.md"), 7)];
            let files = files.map(|(uri, mark)| file(uri, mark));
            assert_eq!(got["skill"]["resources"], json!(files));
            assert_eq!(got["skill"]["uri"], uri);
            let matter = &skill("refunds", mark)["frontmatter"];
            assert_eq!(got["skill"]["frontmatter"], *matter, "a host compares it with the file");
            let read = client.ask("resources/read", json!({"uri": uri})).await.result();
            assert_eq!(read["contents"], json!([{"uri": uri, "text": TEXT}]));
            let unlisted = json!({"uri": format!("skill://{server}/acme/unlisted/SKILL.md")});
            assert_eq!(
                client.ask("skills/get", unlisted.clone()).await.result()["skill"]["uri"],
                unlisted["uri"]
            );
        }
        for uri in ["skill://a/x/SKILL.md", "skill://c/x/SKILL.md", "skill://d/x/SKILL.md", ""] {
            let refused = client.ask("skills/get", json!({"uri": uri})).await;
            assert_eq!(refused.code(), -32602, "{uri}");
        }
    }
    let single = gate.modern("/servers/a/mcp", "skills/list", json!({})).await.result();
    assert_eq!(single["skills"], json!([skill("refunds", 1)]), "unchanged, page by page");
    let without = gate.modern("/servers/c/mcp", "skills/list", json!({})).await;
    assert_eq!((without.status, without.code()), (404, -32601));
    let session = gate.session("/servers/c/mcp", "2025-11-25").await;
    assert_eq!(session.ask("skills/get", json!({"uri": "x"})).await.code(), -32601);
    assert_eq!(session.welcome["capabilities"].get("extensions"), None);
}

#[tokio::test]
async fn directories_are_read_by_uri_with_own_cursors() {
    let [new, old] = [true, false].map(|is_modern| serve(is_modern, vec![skill("refunds", 1)]));
    let (new, old) = (new.await, old.await);
    let (_folder, policy) = policies("*secret*");
    let gate = Gate::start(json!({"servers": {"a": new.config(), "b": old.config()},
        "policy": policy}))
    .await;
    let session = gate.session("/mcp", "2025-11-25").await;
    for client in [Client::Modern(&gate, "/mcp"), Client::Legacy(session)] {
        for server in ["a", "b"] {
            let uri = format!("skill://{server}/acme/refunds");
            let read = client.ask("resources/directory/read", json!({"uri": uri})).await.result();
            assert_eq!(read["resources"], json!([{"uri": format!("{uri}/a.md"), "name": "a.md"}]));
            let cursor = &read["nextCursor"];
            assert!(cursor.as_str().unwrap().len() > 40, "sealed: {cursor}");
            let more = json!({"uri": uri, "cursor": cursor});
            let more = client.ask("resources/directory/read", more).await.result();
            assert_eq!(more["resources"][0]["uri"], format!("{uri}/own-cursor"));
            for (uri, cursor) in [(&*uri, json!("own-cursor")), ("skill://a/acme", cursor.clone())]
            {
                let refused = json!({"uri": uri, "cursor": cursor});
                let refused = client.ask("resources/directory/read", refused).await;
                assert_eq!(refused.code(), -32602);
            }
            for uri in [format!("{uri}/SKILL.md"), format!("{uri}/secret")] {
                let refused = client.ask("resources/directory/read", json!({"uri": uri})).await;
                let error = &refused.json()["error"];
                assert_eq!(error["code"], -32602, "hidden as unknown");
                assert_eq!(error["message"], "resource not found");
            }
        }
    }
    let client = Client::Modern(&gate, "/mcp");
    for (count, shown) in [(1000, 1000), (1001, 0)] {
        let uri = format!("skill://a/acme/refunds/many-{count}");
        let read = client.ask("resources/directory/read", json!({"uri": uri})).await;
        assert_eq!(read.code(), if shown > 0 { 0 } else { -32603 }, "{}", read.text());
        let children = read.json()["result"]["resources"].as_array().map_or(0, Vec::len);
        assert_eq!(children, shown);
    }
    assert!(new.heard_of("resources/directory/read").iter().all(|heard| {
        heard.body["params"]["uri"].as_str().unwrap().starts_with("skill://acme/refunds")
    }));
}

#[tokio::test]
async fn broken_and_hidden_skills_are_left_out() {
    let mut renamed = skill("refunds", 1);
    renamed["frontmatter"]["name"] = json!("other");
    let mut covert = skill("covert", 1);
    covert["frontmatter"]["description"] = json!("Refunds\u{200b}\u{e0041}");
    let mut large = skill("large", 1);
    large["resources"][1]["size"] = json!(16 << 20);
    let secret = skill("secret", 1);
    let server = serve(true, vec![renamed, covert, large, secret, skill("fine", 1), skill("x", 1)]);
    let server = server.await;
    let (_folder, policy) = policies("skill://acme/secret/*");
    let gate = Gate::start(json!({"servers": {"a": server.config()}, "policy": policy})).await;
    let client = Client::Modern(&gate, "/mcp");
    assert_eq!(uris(&client).await, ["skill://a/acme/fine/SKILL.md"]);
    for name in ["secret", "covert"] {
        for method in ["skills/get", "resources/read"] {
            let uri = json!({"uri": format!("skill://a/acme/{name}/SKILL.md")});
            let refused = client.ask(method, uri).await;
            assert_eq!(refused.code(), -32602, "{method} {name}: {}", refused.text());
        }
    }
}

/// Files of skills cannot be cleaned, because clients compare them with their digests.
#[tokio::test]
async fn files_of_skills_with_invisible_characters_are_refused_or_reported() {
    let server = serve(true, vec![skill("refunds", 1), skill("x", 1)]).await;
    for (setting, is_shown) in [("strip", false), ("quarantine", false), ("report", true)] {
        let config = json!({"servers": {"a": server.config()}, "pins": {"hidden_text": setting}});
        let gate = Gate::start(config).await;
        for client in Client::both(&gate, "/mcp").await {
            for name in ["covert.md", "large.md", "covert.bin"] {
                let uri = json!({"uri": format!("skill://a/acme/refunds/{name}")});
                let read = client.ask("resources/read", uri).await;
                let is_refused = read.code() == -32603 && read.text().contains("invisible");
                assert_eq!(is_refused, !is_shown, "{setting} {name}: {:.300}", read.text());
                assert_eq!(read.code() == 0, is_shown);
            }
            for name in ["SKILL.md", "a/b.md"] {
                let uri = json!({"uri": format!("skill://a/acme/refunds/{name}")});
                let read = client.ask("resources/read", uri).await.result();
                assert_eq!(read["contents"][0]["text"], TEXT, "unchanged, to the byte");
            }
        }
        assert!(gate.log().contains("a file of a skill has invisible characters"));
    }
}

/// A changed skill is a changed instruction: neither listed, nor returned, nor readable.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pins_cover_the_files_of_skills() {
    let mark = Arc::new(AtomicU8::new(1));
    let now = Arc::clone(&mark);
    let plain = modern(&["t"]);
    let server = Upstream::http(move |heard| {
        let skills = [skill("refunds", now.load(Ordering::SeqCst)), skill("x", 1)];
        answer(heard, &skills).unwrap_or_else(|| plain(heard))
    })
    .await;
    let pins = tempfile::tempdir().unwrap();
    let lock = pins.path().join("lockgate.pins.json");
    let gate =
        Gate::start(json!({"servers": {"a": server.config()}, "pins": {"file": lock}})).await;
    let client = Client::Modern(&gate, "/mcp");
    let uri = json!({"uri": "skill://a/acme/refunds/SKILL.md"});
    assert_ne!(client.ask("skills/get", uri.clone()).await.code(), 0, "not approved");
    let approved = lockgate(gate.folder.path(), &["pins", "approve", "--all"]);
    assert!(text(&approved).contains("approved a/skill://acme/refunds/SKILL.md"), "{approved:?}");
    until("the skill is there", async || (uris(&client).await.len() == 1).then_some(())).await;
    assert!(client.ask("skills/get", uri.clone()).await.result()["skill"].is_object());
    assert_eq!(client.ask("resources/read", uri.clone()).await.code(), 0);
    let unlisted = json!({"uri": "skill://a/acme/x/SKILL.md"});
    assert_eq!(client.ask("skills/get", unlisted).await.code(), -32602, "never approved");
    mark.store(2, Ordering::SeqCst);
    assert_eq!(client.ask("skills/get", uri.clone()).await.code(), -32602, "changed");
    // Reconnected, so that the lists are refreshed immediately.
    gate.configure(json!({"servers": {"a": server.with(json!({"headers": {"x-new": "1"}}))},
        "pins": {"file": lock}}));
    until("the skill is gone", async || uris(&client).await.is_empty().then_some(())).await;
    for name in ["SKILL.md", "a/b.md", "a"] {
        let uri = json!({"uri": format!("skill://a/acme/refunds/{name}")});
        for method in ["resources/read", "resources/directory/read"] {
            assert_eq!(client.ask(method, uri.clone()).await.code(), -32602, "{method} {name}");
        }
    }
    let listed = client.ask("resources/list", json!({})).await.result();
    assert_eq!(listed["resources"], json!([]));
    let diff = text(&lockgate(gate.folder.path(), &["pins", "diff"]));
    assert!(diff.contains("changed  a/skill://acme/refunds/SKILL.md@"), "{diff}");
    assert!(diff.contains("resources"), "{diff}");
}
