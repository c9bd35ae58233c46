//! Hidden items are byte for byte like missing items, independent of the server's own wording, and
//! a server's errors keep their meaning for the client.

use crate::rig::client::Request;
use crate::rig::upstream::{legacy, modern, tool};
use crate::rig::{Answer, Gate, HeardMessage, Say, Upstream, Value, json, until};

/// Returns the response with the requested URI masked.
fn plain(answer: &Answer, uri: &str) -> (u16, String) {
    (answer.status, answer.text().replace(uri, "URI"))
}

/// Returns a server with one resource and one template, which rejects other URIs with this code.
fn with_resources(
    era: &'static str,
    code: i64,
) -> impl Fn(&HeardMessage) -> Say + Send + Sync + 'static {
    let caps = json!({"resources": {}, "completions": {}});
    let (modern, legacy) = (modern(&[]), legacy("2025-11-25", &[]));
    move |heard| {
        match heard.method() {
        "server/discover" if era == "modern" => Say::Json(heard.result(json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": caps,
            "ttlMs": 0, "cacheScope": "private",
        }))),
        "initialize" if era == "legacy" => Say::Json(heard.result(json!({
            "protocolVersion": "2025-11-25", "capabilities": caps, "serverInfo": {"name": "old", "version": "1"},
        }))),
        "resources/list" => Say::Json(heard.result(json!({
            "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
            "resources": [{"uri": "mem://seen", "name": "seen"}, {"uri": "mem://hidden", "name": "hidden"}],
        }))),
        "resources/templates/list" => Say::Json(heard.result(json!({
            "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
            "resourceTemplates": [{"uriTemplate": "mem://t/{x}", "name": "t"}],
        }))),
        "resources/read" if heard.body["params"]["uri"] == "mem://seen" => Say::Json(heard.result(json!({
            "resultType": "complete", "contents": [{"uri": "mem://seen", "text": "x"}], "ttlMs": 0, "cacheScope": "private",
        }))),
        "resources/read" => {
            let words = format!("no resource {}", heard.body["params"]["uri"]);
            Say::Json(heard.error(code, &words))
        }
        "completion/complete" if heard.body["params"]["ref"]["uri"] == "mem://t/{x}" => {
            Say::Json(heard.result(json!({"resultType": "complete", "completion": {"values": ["a"]}})))
        }
        "completion/complete" => Say::Json(heard.error(-32602, "no such template here")),
        _ if era == "modern" => modern(heard),
        _ => legacy(heard),
    }
    }
}

#[tokio::test]
async fn a_hidden_resource_reads_like_one_that_does_not_exist() {
    for (era, code) in [("modern", -32602), ("legacy", -32002), ("legacy", -32602), ("legacy", 0)] {
        let server = Upstream::http(with_resources(era, code)).await;
        let gate = Gate::start(json!({
            "servers": {"good": server.config()}, "policy": {"resources": {"deny": ["good+mem://hidden"]}},
        }))
        .await;
        for (path, uri) in [("/mcp", "good+mem"), ("/servers/good/mcp", "mem")] {
            let [seen, hidden, nothere] =
                ["seen", "hidden", "nothere"].map(|name| format!("{uri}://{name}"));
            let session = gate.session(path, "2025-11-25").await;
            let read = gate.modern(path, "resources/read", json!({"uri": seen})).await;
            assert_eq!(read.result()["contents"][0]["text"], "x", "{era} {path}");
            for (method, of) in
                [("resources/read", None), ("completion/complete", Some("ref/resource"))]
            {
                let params = |uri: &str| match of {
                    None => json!({"uri": uri}),
                    Some(kind) => {
                        json!({"ref": {"type": kind, "uri": uri}, "argument": {"name": "x", "value": ""}})
                    }
                };
                let (a, b) = (
                    gate.modern(path, method, params(&hidden)).await,
                    gate.modern(path, method, params(&nothere)).await,
                );
                assert_eq!(
                    (a.status, a.code()),
                    (200, -32602),
                    "{era} {code} {path} {method}: {}",
                    a.text()
                );
                assert_eq!(plain(&a, &hidden), plain(&b, &nothere), "{era} {code} {path} {method}");
                let (a, b) = (
                    session.ask(method, params(&hidden)).await,
                    session.ask(method, params(&nothere)).await,
                );
                let wanted = if of.is_none() { -32002 } else { -32602 };
                assert_eq!(a.code(), wanted, "{era} {code} {path} {method}: {}", a.text());
                assert_eq!(plain(&a, &hidden), plain(&b, &nothere), "{era} {code} {path} {method}");
            }
            let template = json!({"ref": {"type": "ref/resource", "uri": format!("{uri}://t/{{x}}")}, "argument": {"name": "x", "value": ""}});
            let completed = gate.modern(path, "completion/complete", template).await.result();
            assert_eq!(completed["completion"]["values"], json!(["a"]), "{era} {path}");
            // The missing support for subscriptions is reported only for visible resources.
            let known = session.ask("resources/subscribe", json!({"uri": seen})).await;
            assert_eq!(known.code(), -32602, "{}", known.text());
            assert!(known.text().contains("good does not offer subscriptions"), "{}", known.text());
            let (a, b) = (
                session.ask("resources/subscribe", json!({"uri": hidden})).await,
                session.ask("resources/subscribe", json!({"uri": nothere})).await,
            );
            assert_eq!(a.code(), -32002, "{}", a.text());
            assert_eq!(plain(&a, &hidden), plain(&b, &nothere));
        }
    }
}

/// A denied resource cannot be read or subscribed to under another spelling, through any method or
/// endpoint. A listed resource is available exactly as listed.
#[tokio::test]
async fn a_hidden_resource_has_no_other_spelling() {
    let others = with_resources("legacy", -32002);
    let server = Upstream::http(move |heard: &HeardMessage| match heard.method() {
        "initialize" => Say::Json(heard.result(json!({
            "protocolVersion": "2025-11-25", "serverInfo": {"name": "old", "version": "1"},
            "capabilities": {"resources": {"subscribe": true}},
        }))),
        "resources/list" => Say::Json(heard.result(json!({"resources": [{"uri": "File:/odd", "name": "odd"}]}))),
        "resources/templates/list" => Say::Json(heard.result(json!({
            "resourceTemplates": [{"uriTemplate": "note://{+x}", "name": "n"}, {"uriTemplate": "file:{+x}", "name": "f"}],
        }))),
        "resources/subscribe" => Say::Json(heard.result(json!({}))),
        "resources/read" => Say::Json(heard.result(json!({"contents": [{"uri": heard.body["params"]["uri"], "text": "SECRET"}]}))),
        _ => others(heard),
    })
    .await;
    let deny =
        ["https://docs.example.com/private/*", "js+file:///srv/private/*", "js+note://private/*"];
    let gate = Gate::start(json!({
        "servers": {"js": server.config()}, "policy": {"resources": {"allow": ["*"], "deny": deny}, "tools": {"allow": ["*"]}},
    }))
    .await;
    let spellings = [
        "https:/docs.example.com/public/plan",
        "https:/docs.example.com/private/plan",
        "https:docs.example.com:443/private/plan",
        "https:\\\\docs.example.com\\private\\plan",
        "file:/srv/private/plan",
        "file://localhost/srv/private/plan",
        "file:srv/private/plan",
        "file:\\\\\\srv\\private\\plan",
        "file:/public",
        "note://x@private/a",
        "note://private:80/a",
        "note:///private/a",
        "NOTE://private/a",
        "note://private%2Fa",
        "note://PRIVATE/a",
        "note://private/%61;%2fx",
        "note://x//..;/private/a",
        "https://docs.example.com/private/pla%6e;%2fx",
        "https://docs.example.com/a//..;/private/plan",
        "note://public//a",
        "note://public/a;x",
        "note://public/a+b",
    ];
    for (path, mark) in [("/mcp", "js+"), ("/servers/js/mcp", "")] {
        let session = gate.session(path, "2025-11-25").await;
        let (nothere, odd) = (format!("{mark}a:/../b"), format!("{mark}File:/odd"));
        let read = gate.modern(path, "resources/read", json!({"uri": odd})).await;
        assert_eq!(read.result()["contents"][0]["text"], "SECRET", "{path}: {}", read.text());
        // A template value may contain an encoded slash.
        let value =
            gate.modern(path, "resources/read", json!({"uri": format!("{mark}note://A%2FB")}));
        assert_eq!(value.await.result()["contents"][0]["text"], "SECRET", "{path}");
        for uri in spellings.map(|own| format!("{mark}{own}")) {
            let read = gate.modern(path, "resources/read", json!({"uri": uri})).await;
            assert_eq!((read.status, read.code()), (200, -32602), "{uri}: {}", read.text());
            for method in ["resources/read", "resources/subscribe"] {
                let (a, b) = (
                    session.ask(method, json!({"uri": uri})).await,
                    session.ask(method, json!({"uri": nothere})).await,
                );
                assert_eq!(a.code(), -32002, "{method} {uri}: {}", a.text());
                // The message contains the URI escaped as JSON.
                let quoted = json!(uri).to_string();
                let quoted = quoted.trim_matches('"');
                assert_eq!(plain(&a, quoted), plain(&b, &nothere), "{method} {uri}");
            }
            let nested = json!({"name": "system__read_resource", "arguments": {"uri": uri}});
            let nested = gate.modern("/mcp", "tools/call", nested).await;
            assert!(!nested.text().contains("SECRET"), "{uri}: {}", nested.text());
        }
        let wanted = json!({"resourceSubscriptions": spellings.map(|own| format!("{mark}{own}"))});
        let listen =
            Request::modern(path, "subscriptions/listen", json!({"notifications": wanted}));
        let granted = listen.open(gate.address).await.next().await.unwrap();
        assert_eq!(granted["params"]["notifications"], json!({}), "{path}");
    }
    let read: Vec<_> = server
        .heard_of("resources/read")
        .iter()
        .map(|heard| heard.body["params"]["uri"].clone())
        .collect();
    assert_eq!(read, ["File:/odd", "note://A%2FB", "File:/odd", "note://A%2FB"]);
    assert!(server.heard_of("resources/subscribe").is_empty());
}

/// Subscriptions are forwarded only for listed resources and matches of listed templates, so a
/// server that accepts any subscription does not reveal hidden resources.
#[tokio::test]
async fn a_hidden_resource_is_subscribed_to_like_one_that_does_not_exist() {
    let plain_server = with_resources("legacy", -32002);
    let server = Upstream::http(move |heard: &HeardMessage| match heard.method() {
        "initialize" => Say::Json(heard.result(json!({
            "protocolVersion": "2025-11-25", "serverInfo": {"name": "old", "version": "1"},
            "capabilities": {"resources": {"subscribe": true}},
        }))),
        "resources/subscribe" | "resources/unsubscribe" => Say::Json(heard.result(json!({}))),
        _ => plain_server(heard),
    })
    .await;
    let gate = Gate::start(json!({
        "servers": {"good": server.config()}, "policy": {"resources": {"deny": ["good+mem://hidden"]}},
    }))
    .await;
    for (path, uri) in [("/mcp", "good+mem"), ("/servers/good/mcp", "mem")] {
        let [seen, hidden, nothere, made] =
            ["seen", "hidden", "nothere", "t/5"].map(|name| format!("{uri}://{name}"));
        let session = gate.session(path, "2025-11-25").await;
        let subscribe =
            async |uri: &str| session.ask("resources/subscribe", json!({"uri": uri})).await;
        assert_eq!(
            (subscribe(&seen).await.code(), subscribe(&made).await.code()),
            (0, 0),
            "{path}"
        );
        let (a, b) = (subscribe(&hidden).await, subscribe(&nothere).await);
        assert_eq!(a.code(), -32002, "{path}: {}", a.text());
        assert_eq!(plain(&a, &hidden), plain(&b, &nothere), "{path}");
        let wanted = json!({"resourceSubscriptions": [seen, hidden, nothere, made]});
        let listen =
            Request::modern(path, "subscriptions/listen", json!({"notifications": wanted}));
        let granted = listen.open(gate.address).await.next().await.unwrap();
        assert_eq!(
            granted["params"]["notifications"]["resourceSubscriptions"],
            json!([seen, made]),
            "{path}"
        );
    }
    let mut asked: Vec<String> = server
        .heard_of("resources/subscribe")
        .iter()
        .map(|heard| heard.body["params"]["uri"].to_string())
        .collect();
    asked.sort();
    asked.dedup();
    assert_eq!(asked, [r#""mem://seen""#, r#""mem://t/5""#]);
}

/// E-16, 3.11: a server's -32021 is relayed only to a modern client that lacks the capability.
#[tokio::test]
async fn a_missing_capability_is_relayed_only_where_it_is_missing() {
    let fail = |data: Value| {
        move |heard: &HeardMessage| match heard.method() {
            "tools/call" => {
                let mut error = heard.error(-32021, "needs a client that can sample");
                if !data.is_null() {
                    error["error"]["data"] = data.clone();
                }
                Say::Json(error)
            }
            _ => Say::Nothing,
        }
    };
    let needs = json!({"requiredCapabilities": {"sampling": {}}});
    let with = |script: Value, era: &'static str| {
        let (failing, modern, legacy) =
            (fail(script), modern(&["t"]), legacy("2025-11-25", &["t"]));
        move |heard: &HeardMessage| match heard.method() {
            "tools/call" => failing(heard),
            _ if era == "modern" => modern(heard),
            _ => legacy(heard),
        }
    };
    let a = Upstream::http(with(needs.clone(), "modern")).await;
    let b = Upstream::http(with(json!("sampling"), "modern")).await;
    let c = Upstream::http(with(json!({"requiredCapabilities": ["sampling"]}), "modern")).await;
    let d = Upstream::http(with(Value::Null, "modern")).await;
    let e = Upstream::http(with(needs.clone(), "legacy")).await;
    let f = Upstream::http(with(
        json!({"requiredCapabilities": {"elicitation": {"url": {}}}}),
        "modern",
    ))
    .await;
    let g = Upstream::http(with(
        json!({"requiredCapabilities": {"elicitation": {"form": {}}}}),
        "modern",
    ))
    .await;
    let servers = json!({
        "a": a.config(), "b": b.config(), "c": c.config(), "d": d.config(), "e": e.config(), "f": f.config(),
        "g": g.config(),
    });
    let gate = Gate::start(json!({"servers": servers})).await;
    let declared = async |slug: &str, capabilities: Value| {
        let meta = json!({"io.modelcontextprotocol/clientCapabilities": capabilities});
        let params = json!({"name": format!("{slug}__t"), "arguments": {}, "_meta": meta});
        gate.modern("/mcp", "tools/call", params).await
    };
    for (slug, capabilities, status, code) in [
        ("a", json!({}), 400, -32021),
        ("a", json!({"sampling": false}), 400, -32021),
        ("a", json!({"sampling": {}}), 200, -32603),
        ("b", json!({}), 400, -32021),
        ("b", json!({"sampling": {}}), 200, -32603),
        ("c", json!({}), 400, -32021),
        ("c", json!({"sampling": {}}), 200, -32603),
        // Without a named capability, -32021 is relayed unless the gateway withheld a capability.
        ("d", json!({}), 400, -32021),
        ("d", json!({"sampling": {}, "elicitation": {"form": {}}}), 400, -32021),
        ("d", json!({"experimental": {"x": {}}}), 200, -32603),
        ("e", json!({}), 200, -32603),
        ("f", json!({"elicitation": {}}), 400, -32021),
        ("f", json!({"elicitation": {"url": {}}}), 200, -32603),
        ("g", json!({"elicitation": {}}), 200, -32603),
        ("g", json!({"elicitation": {"url": {}}}), 400, -32021),
    ] {
        let answer = declared(slug, capabilities.clone()).await;
        assert_eq!(
            (answer.status, answer.code()),
            (status, code),
            "{slug} {capabilities}: {}",
            answer.text()
        );
        assert!(
            answer.text().contains("needs a client that can sample"),
            "{slug}: {}",
            answer.text()
        );
        if status == 400 {
            assert!(
                answer.json()["error"]["data"]["requiredCapabilities"].is_object(),
                "{}",
                answer.text()
            );
        }
    }
    let session = gate.session("/mcp", "2025-11-25").await;
    for slug in ["a", "b", "e"] {
        assert_eq!(session.call(&format!("{slug}__t")).await.code(), -32603, "{slug}");
    }
}

/// 3.11: a tool becomes unknown when its server rejects the method, and the lists are refreshed.
#[tokio::test]
async fn a_tool_that_a_server_disowns_is_unknown_and_its_list_is_read_again() {
    for era in ["modern", "legacy"] {
        let script = move |gone: bool| {
            let tools: &[&str] = if gone { &["b"] } else { &["a", "b"] };
            (modern(tools), legacy("2025-11-25", tools))
        };
        let (before, after) = (script(false), script(true));
        let gone = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let flag = std::sync::Arc::clone(&gone);
        let server = Upstream::http(move |heard: &HeardMessage| {
            let gone = flag.load(std::sync::atomic::Ordering::Relaxed);
            let (modern, legacy) = if gone { &after } else { &before };
            match (heard.method(), era) {
                ("tools/call", _) if gone => Say::Status(
                    if era == "modern" { 404 } else { 200 },
                    Vec::new(),
                    heard.error(-32601, "Method not found"),
                ),
                (_, "modern") => modern(heard),
                _ => legacy(heard),
            }
        })
        .await;
        let gate = Gate::start(json!({"servers": {"s": server.config()}})).await;
        assert_eq!(gate.call("s__a").await.code(), 0);
        gone.store(true, std::sync::atomic::Ordering::Relaxed);
        let answer = gate.call("s__a").await;
        assert_eq!((answer.status, answer.code()), (200, -32602), "{era}: {}", answer.text());
        assert_eq!(answer.json()["error"]["message"], "unknown tool: s__a", "{era}");
        until("the list is read again", async || {
            (gate.tools("/mcp").await.0 == ["s__b"]).then_some(())
        })
        .await;
    }
}

/// 3.12: annotations within an argument are not listed or required; the gateway adds their headers
/// itself.
#[tokio::test]
async fn nested_header_annotations_are_ours_alone() {
    let nested = json!({"name": "t", "inputSchema": {"type": "object", "properties": {
        "where": {"type": "object", "properties": {"zone": {"type": "string", "x-mcp-header": "Zone"}}},
        "region": {"type": "string", "x-mcp-header": "Region"},
    }}});
    let server = Upstream::http(crate::rig::upstream::modern_with(vec![nested, tool("u")])).await;
    let gate = Gate::start(json!({"servers": {"a": server.config()}})).await;
    let (_, listed) = gate.tools("/mcp").await;
    let properties = &listed["tools"][0]["inputSchema"]["properties"];
    assert_eq!(properties["region"]["x-mcp-header"], "Region", "{listed}");
    assert_eq!(properties["where"]["properties"]["zone"], json!({"type": "string"}), "{listed}");
    let arguments = json!({"where": {"zone": "z1"}, "region": "eu"});
    let call =
        Request::modern("/mcp", "tools/call", json!({"name": "a__t", "arguments": arguments}));
    let answer = call.clone().with("Mcp-Param-Region", "eu").send(gate.address).await;
    assert_eq!((answer.status, answer.code()), (200, 0), "{}", answer.text());
    let heard = server.heard_of("tools/call");
    assert_eq!(
        (heard[0].header("mcp-param-zone"), heard[0].header("mcp-param-region")),
        (Some("z1"), Some("eu"))
    );
    // Headers without an annotation in the listed definition are ignored.
    let other = call
        .clone()
        .with("Mcp-Param-Region", "eu")
        .with("Mcp-Param-Zone", "other")
        .send(gate.address)
        .await;
    assert_eq!((other.status, other.code()), (200, 0), "{}", other.text());
    assert_eq!(server.heard_of("tools/call")[1].header("mcp-param-zone"), Some("z1"));
    assert_eq!(call.send(gate.address).await.code(), -32020);
}

/// 5.2: a list's TTL is at most the smallest TTL of its servers.
#[tokio::test]
async fn a_list_keeps_no_longer_than_its_servers_say() {
    let keeping = |ttl: u64, told: bool| {
        let usual = modern(&["t"]);
        move |heard: &HeardMessage| {
            match heard.method() {
            "server/discover" => Say::Json(heard.result(json!({
                "resultType": "complete", "supportedVersions": ["2026-07-28"], "ttlMs": ttl, "cacheScope": "private",
                "capabilities": {"tools": {"listChanged": told}},
            }))),
            "tools/list" => Say::Json(heard.result(json!({
                "resultType": "complete", "tools": [tool("t")], "ttlMs": ttl, "cacheScope": "private",
            }))),
            _ => usual(heard),
        }
        }
    };
    let (none, short) =
        (Upstream::http(keeping(0, false)).await, Upstream::http(keeping(5000, false)).await);
    let long = Upstream::http(keeping(3_600_000, true)).await;
    let old = Upstream::http(legacy("2025-11-25", &["t"])).await;
    let gate = Gate::start(json!({"servers": {
        "none": none.config(), "short": short.config(), "long": long.config(), "old": old.config(),
    }}))
    .await;
    for (path, wanted) in [
        ("/mcp", 0),
        ("/servers/none/mcp", 0),
        ("/servers/short/mcp", 5000),
        ("/servers/long/mcp", 60_000),
        ("/servers/old/mcp", 0),
    ] {
        for method in ["tools/list", "server/discover"] {
            let result = gate.modern(path, method, json!({})).await.result();
            assert_eq!(result["ttlMs"], wanted, "{path} {method}: {result}");
        }
    }
}
