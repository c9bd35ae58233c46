//! Extensions (3.10): payload passes without configuration; an extension is announced only if it
//! adds no methods. Hop-by-hop extensions end at the gateway. MCP Apps use the URIs of `/mcp`.

use crate::rig::client::Request;
use crate::rig::upstream::{legacy, modern, modern_with, tool};
use crate::rig::{Gate, HeardMessage, Say, Upstream, Value, json, until};

const MADE_UP: &str = "com.example/made-up";
const OF_HOP: &str = "io.modelcontextprotocol/oauth-client-credentials";
const UI: &str = "io.modelcontextprotocol/ui";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

fn of(side: &str) -> Value {
    json!({MADE_UP: {"of": side}, OF_HOP: {}})
}

/// Returns a tool result with the extension's additions: a `_meta` entry and an unspecified member.
fn answer(heard: &HeardMessage) -> Say {
    let seen = &heard.body["params"]["_meta"][MADE_UP];
    Say::Json(heard.result(json!({"resultType": "complete", "content": [], "made-up": 7,
        "_meta": {MADE_UP: {"seen": seen}}})))
}

async fn servers() -> [Upstream; 2] {
    let plain = modern(&["t"]);
    let new = Upstream::http(move |heard| match heard.method() {
        "server/discover" => Say::Json(heard.result(json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "ttlMs": 0,
            "cacheScope": "private", "capabilities": {"tools": {}, "extensions": of("server")},
        }))),
        "tools/call" => answer(heard),
        _ => plain(heard),
    });
    let plain = legacy("2025-11-25", &["t"]);
    let old = Upstream::http(move |heard| match heard.method() {
        "initialize" => Say::Json(heard.result(json!({
            "protocolVersion": "2025-11-25", "serverInfo": {"name": "old", "version": "1"},
            "capabilities": {"tools": {}, "extensions": of("server")},
        }))),
        "tools/call" => answer(heard),
        _ => plain(heard),
    });
    [new.await, old.await]
}

#[tokio::test]
async fn an_extension_that_nobody_knows_passes() {
    let [new, old] = servers().await;
    let told = json!({MADE_UP: {"of": "client"}});
    for server in [&new, &old] {
        let config = json!({"servers": {"a": server.config()}, "extensions": [MADE_UP]});
        let gate = Gate::start(config).await;
        let declared = json!({"elicitation": {"form": {}}, "extensions": of("client")});
        let announced = json!({MADE_UP: {"of": "server"}});
        let discovered = gate.modern("/mcp", "server/discover", json!({})).await.result();
        assert_eq!(discovered["capabilities"]["extensions"], announced, "{discovered}");
        let call = json!({"name": "a__t", "arguments": {},
            "_meta": {CAPABILITIES: declared, MADE_UP: {"n": 1}}});
        let called = gate.modern("/mcp", "tools/call", call.clone()).await.result();
        let session = gate.session_with("/mcp", "2025-11-25", declared).await;
        assert_eq!(session.welcome["capabilities"]["extensions"], announced);
        for result in [called, session.ask("tools/call", call).await.result()] {
            assert_eq!(result["_meta"][MADE_UP], json!({"seen": {"n": 1}}), "{result}");
            assert_eq!(result["made-up"], 7, "{result}");
        }
        let unknown = gate.modern("/mcp", "com.example/do", json!({})).await;
        assert_eq!((unknown.status, unknown.code()), (404, -32601), "whose it is nobody knows");
    }
    // The extensions of the calling clients, as declared to each server.
    for heard in new.heard_of("tools/call") {
        let mut extensions = heard.body["params"]["_meta"][CAPABILITIES]["extensions"].clone();
        extensions.as_object_mut().unwrap().remove("io.modelcontextprotocol/tasks");
        assert_eq!(extensions, told, "{}", heard.text);
    }
    let opened = old.heard_of("initialize");
    let own = opened.iter().map(|heard| &heard.body["params"]["capabilities"]["extensions"]);
    assert_eq!(own.filter(|extensions| **extensions == told).count(), 2, "one for each client");
}

/// An extension that may add methods is not announced, because its methods are not served. Nor is
/// one with different settings of two servers at the endpoint of both.
#[tokio::test]
async fn an_extension_is_announced_only_if_it_works() {
    let [new, old] = servers().await;
    let servers = json!({"a": new.config(), "b": old.config()});
    let announced = async |gate: &Gate, path: &str| {
        let discovered = gate.modern(path, "server/discover", json!({})).await.result();
        let session = gate.session(path, "2025-11-25").await;
        let both = [discovered, session.welcome];
        both.map(|welcome| welcome["capabilities"].get("extensions").cloned())
    };
    let gate = Gate::start(json!({"servers": servers})).await;
    for path in ["/mcp", "/servers/a/mcp"] {
        assert_eq!(announced(&gate, path).await, [None, None], "{path}");
    }
    let gate = Gate::start(json!({"servers": servers, "extensions": [MADE_UP]})).await;
    let same = Some(json!({MADE_UP: {"of": "server"}}));
    for path in ["/mcp", "/servers/a/mcp"] {
        assert_eq!(announced(&gate, path).await, [same.clone(), same.clone()], "{path}");
    }
    let plain = modern(&["t"]);
    let other = Upstream::http(move |heard| match heard.method() {
        "server/discover" => Say::Json(heard.result(json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "ttlMs": 0,
            "cacheScope": "private", "capabilities": {"tools": {}, "extensions": of("other")},
        }))),
        _ => plain(heard),
    })
    .await;
    let servers = json!({"a": new.config(), "b": other.config()});
    let gate = Gate::start(json!({"servers": servers, "extensions": [MADE_UP]})).await;
    assert_eq!(announced(&gate, "/mcp").await, [None, None]);
    assert_eq!(announced(&gate, "/servers/a/mcp").await, [same.clone(), same]);
}

/// A tool names its page by the URI of the endpoint, and a host can read the page under that URI.
#[tokio::test]
async fn pages_of_apps_have_the_uris_of_the_endpoint() {
    let mut shown = tool("show");
    shown["_meta"] = json!({"ui": {"resourceUri": "ui://board/main", "visibility": ["app"]},
        "ui/resourceUri": "ui://board/main"});
    let plain = modern_with(vec![shown]);
    let page =
        |uri: &str| json!({"uri": uri, "name": "board", "mimeType": "text/html;profile=mcp-app"});
    let server = Upstream::http(move |heard| match heard.method() {
        "server/discover" => Say::Json(heard.result(json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "ttlMs": 0,
            "cacheScope": "private",
            "capabilities": {"tools": {}, "resources": {}, "extensions": {UI: {}}},
        }))),
        "resources/list" => Say::Json(heard.result(json!({"resultType": "complete", "ttlMs": 0,
            "cacheScope": "private", "resources": [page("ui://board/main")]}))),
        "resources/templates/list" => Say::Json(heard.result(json!({"resultType": "complete",
            "ttlMs": 0, "cacheScope": "private", "resourceTemplates": []}))),
        "resources/read" => {
            let uri = heard.body["params"]["uri"].as_str().unwrap();
            Say::Json(heard.result(json!({"resultType": "complete", "ttlMs": 0,
                "cacheScope": "private", "contents": [{"uri": uri, "text": "<p>"}]})))
        }
        _ => plain(heard),
    })
    .await;
    let gate = Gate::start(json!({"servers": {"a": server.config()}})).await;
    let discovered = gate.modern("/mcp", "server/discover", json!({})).await.result();
    assert_eq!(discovered["capabilities"]["extensions"], json!({UI: {}}));
    for (path, prefix) in [("/mcp", "ui://a+"), ("/servers/a/mcp", "ui://")] {
        let session = gate.session(path, "2025-11-25").await;
        let ask = async |is_modern: bool, method: &str, params: Value| {
            let answer = if is_modern {
                Request::modern(path, method, params).send(gate.address).await
            } else {
                session.ask(method, params).await
            };
            answer.result()
        };
        for is_modern in [true, false] {
            let tools = ask(is_modern, "tools/list", json!({})).await;
            let meta = &tools["tools"][0]["_meta"];
            let main = format!("{prefix}board/main");
            assert_eq!(meta["ui"], json!({"resourceUri": main, "visibility": ["app"]}));
            assert_eq!(meta["ui/resourceUri"], json!(main));
            let listed = ask(is_modern, "resources/list", json!({})).await;
            assert_eq!(listed["resources"], json!([page(&main)]));
            // Unlisted pages can be read too.
            for name in ["main", "part"] {
                let uri = format!("{prefix}board/{name}");
                let read = ask(is_modern, "resources/read", json!({"uri": uri})).await;
                assert_eq!(read["contents"], json!([{"uri": uri, "text": "<p>"}]));
                let asked = server.heard_of("resources/read").pop().unwrap();
                assert_eq!(asked.body["params"]["uri"], format!("ui://board/{name}"));
            }
        }
    }
}

/// A method of an extension reaches the only server of an endpoint if the operator names it, with a
/// record.
#[tokio::test]
async fn methods_of_extensions_pass_to_a_single_server() {
    let plain_new = modern(&["t"]);
    let new = Upstream::http(move |heard| match heard.method() {
        "com.example/do" => Say::Json(heard.result(json!({"resultType": "complete", "n": 1}))),
        _ => plain_new(heard),
    });
    let plain = legacy("2025-11-25", &["t"]);
    let old = Upstream::http(move |heard| match heard.method() {
        "com.example/do" => Say::Json(heard.result(json!({"n": 1}))),
        _ => plain(heard),
    });
    let (new, old) = (new.await, old.await);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("audit.jsonl");
    let gate = Gate::start(json!({"servers": {"a": new.config(), "b": old.config()},
        "methods": ["com.example/do"], "audit": {"file": file}}))
    .await;
    let params = json!({"x": {"deep": [1, "ä"]}});
    for server in ["a", "b"] {
        let path = format!("/servers/{server}/mcp");
        let session = gate.session(&path, "2025-11-25").await;
        for answer in [
            gate.modern(&path, "com.example/do", params.clone()).await,
            session.ask("com.example/do", params.clone()).await,
        ] {
            assert_eq!(answer.result()["n"], 1, "{server}");
        }
        assert_eq!(gate.modern(&path, "com.example/other", json!({})).await.code(), -32601);
        assert_eq!(session.ask("com.example/other", json!({})).await.code(), -32601);
    }
    for server in [&new, &old] {
        let heard = server.heard_of("com.example/do");
        assert_eq!(heard.len(), 2);
        assert!(heard.iter().all(|heard| heard.body["params"]["x"] == params["x"]));
    }
    assert_eq!(
        gate.modern("/mcp", "com.example/do", params).await.code(),
        -32601,
        "several servers"
    );
    until("the records are there", async || {
        let records = std::fs::read_to_string(&file).unwrap();
        let named = records.matches("com.example/do").count();
        (records.contains("\"extension\"") && named >= 4).then_some(())
    })
    .await;
}
