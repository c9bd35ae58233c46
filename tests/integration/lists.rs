//! Lists: complete, in a stable order, paged by sealed cursors, cheap when cached, not delayed by a
//! missing server, and without hidden items (rows F-01 to F-10).

use std::time::{Duration, Instant};

use crate::rig::client::Request;
use crate::rig::upstream::{legacy, modern, modern_with, tool};
use crate::rig::{Gate, Say, Upstream, Value, fixture, json, until};

/// Returns a modern server with pages of two tools and cursors that must be returned exactly.
fn paged(
    names: &'static [&'static str],
) -> impl Fn(&crate::rig::HeardMessage) -> Say + Send + Sync {
    // An empty string is a valid cursor too.
    let cursors = ["", "päge \"2\"/=+", "  3  ", "4", "5", "6"];
    move |heard| {
        if heard.method() != "tools/list" {
            return modern(&[])(heard);
        }
        let page = match heard.body["params"]["cursor"].as_str() {
            None => 0,
            Some(cursor) => cursors.iter().position(|c| *c == cursor).map_or(99, |i| i + 1),
        };
        let Some(part) = names.chunks(2).nth(page) else {
            return Say::Json(heard.error(-32602, "bad cursor"));
        };
        let tools: Vec<Value> = part.iter().map(|name| tool(name)).collect();
        let mut result =
            json!({"resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "public"});
        if (page + 1) * 2 < names.len() {
            result["nextCursor"] = cursors[page].into();
        }
        Say::Json(heard.result(result))
    }
}

/// Returns all pages of a list. Restarts on an invalid cursor, as the error instructs.
async fn all(gate: &Gate, path: &str, method: &str, key: &str) -> (Vec<Value>, Vec<String>) {
    let (mut items, mut cursors, mut starts) = (Vec::new(), Vec::<String>::new(), 0);
    loop {
        let params = cursors.last().map_or(json!({}), |cursor| json!({"cursor": cursor}));
        let answer = gate.modern(path, method, params).await;
        if answer.code() == -32602 && starts < 5 {
            (items, cursors, starts) = (Vec::new(), Vec::new(), starts + 1);
            continue;
        }
        let result = answer.result();
        items.extend(result[key].as_array().unwrap().iter().cloned());
        match result["nextCursor"].as_str() {
            Some(next) if cursors.len() < 100 => cursors.push(next.to_owned()),
            _ => return (items, cursors),
        }
    }
}

fn names(items: &[Value]) -> Vec<&str> {
    items.iter().map(|item| item["name"].as_str().unwrap()).collect()
}

/// F-01 to F-04: the list contains every page of every server, with cursors returned unchanged,
/// always in the same order.
#[tokio::test]
async fn a_list_is_complete_over_pages_on_both_sides() {
    let first = Upstream::http(paged(&["zeta", "b", "c", "d", "e", "f", "alpha"])).await;
    let second = Upstream::http(paged(&["one", "two", "three"])).await;
    let servers =
        json!({"b": first.config(), "a": second.config(), "f": fixture(&["--page-size", "3"])});
    let gate = Gate::start(json!({"servers": servers, "limits": {"page_items": 4}})).await;
    let (tools, cursors) = all(&gate, "/mcp", "tools/list", "tools").await;
    let found = names(&tools);
    for name in [
        "a__one",
        "a__two",
        "a__three",
        "b__zeta",
        "b__b",
        "b__f",
        "b__alpha",
        "f__test_simple_text",
        "f__test_error_handling",
    ] {
        assert!(found.contains(&name), "{name}: {found:?}");
    }
    assert_eq!(cursors.len() + 1, found.len().div_ceil(4));
    let mut unique = found.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), found.len());
    assert!(
        found.iter().all(|n| n.len() <= 128
            && n.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-./".contains(&b)))
    );
    let again = all(&gate, "/mcp", "tools/list", "tools").await.0;
    assert_eq!(tools, again);
    // A legacy session lists the same tools, and another gateway has the same order.
    let other = Gate::start(json!({"servers": servers})).await;
    assert_eq!(names(&all(&other, "/mcp", "tools/list", "tools").await.0), found);
    let session = other.session("/mcp", "2025-11-25").await;
    let legacy = session.ask("tools/list", json!({})).await.result();
    assert_eq!(names(legacy["tools"].as_array().unwrap()), found);
    // A single server's own names are unchanged.
    assert_eq!(
        names(&all(&gate, "/servers/a/mcp", "tools/list", "tools").await.0),
        ["one", "two", "three"]
    );
    let (prompts, _) = all(&gate, "/mcp", "prompts/list", "prompts").await;
    let (resources, _) = all(&gate, "/mcp", "resources/list", "resources").await;
    assert!(prompts.len() >= 4 && resources.len() >= 2);
}

/// F-04: cursors that are modified, invented, or of another list, endpoint, era or process are
/// rejected.
#[tokio::test]
async fn a_cursor_is_good_for_its_own_list_alone() {
    let server = Upstream::http(paged(&["t1", "t2", "t3", "t4"])).await;
    let config =
        json!({"servers": {"a": server.config(), "f": fixture(&[])}, "limits": {"page_items": 2}});
    let gate = Gate::start(config.clone()).await;
    let cursor = until("a cursor that is good", async || {
        let cursor = gate.tools("/mcp").await.1["nextCursor"].as_str().unwrap().to_owned();
        let good = gate.modern("/mcp", "tools/list", json!({"cursor": cursor})).await;
        (good.code() == 0).then_some(cursor)
    })
    .await;
    let flip = |i: usize| {
        let mut bytes = cursor.clone().into_bytes();
        bytes[i] = if bytes[i] == b'A' { b'B' } else { b'A' };
        String::from_utf8(bytes).unwrap()
    };
    let mut bad: Vec<Value> = (0..cursor.len()).step_by(7).map(|i| flip(i).into()).collect();
    bad.extend([
        json!(""),
        json!("2"),
        json!("päge"),
        json!(2),
        json!(null),
        json!({}),
        json!(format!("{cursor}A")),
        json!(&cursor[1..]),
    ]);
    bad.push("x".repeat(100_000).into());
    for cursor in bad {
        let answer = gate.modern("/mcp", "tools/list", json!({"cursor": cursor})).await;
        assert_eq!((answer.status, answer.code()), (200, -32602), "{cursor}: {}", answer.text());
    }
    for (path, method) in [
        ("/mcp", "prompts/list"),
        ("/servers/a/mcp", "tools/list"),
        ("/servers/f/mcp", "tools/list"),
    ] {
        let answer = gate.modern(path, method, json!({"cursor": cursor})).await;
        assert_eq!(answer.code(), -32602, "{path} {method}: {}", answer.text());
    }
    let session = gate.session("/mcp", "2025-11-25").await;
    until("a cursor that is good", async || {
        let page = session.ask("tools/list", json!({})).await.result();
        let own = json!({"cursor": page["nextCursor"]});
        (session.ask("tools/list", own).await.code() == 0).then_some(())
    })
    .await;
    assert_eq!(session.ask("tools/list", json!({"cursor": "nonsense"})).await.code(), -32602);
    let other = Gate::start(config).await;
    let foreign = other.modern("/mcp", "tools/list", json!({"cursor": cursor})).await;
    assert_eq!(foreign.code(), -32602, "{}", foreign.text());
}

/// A server with a repeated cursor or endless pages is truncated; the lists of other servers are
/// complete.
#[tokio::test]
async fn endless_pages_of_a_server_end() {
    let repeating =
        Upstream::http(|heard| match heard.method() {
            "tools/list" => Say::Json(heard.result(
                json!({"resultType": "complete", "tools": [tool("r")], "nextCursor": "same"}),
            )),
            _ => modern(&[])(heard),
        })
        .await;
    let counting = Upstream::http(|heard| match heard.method() {
        "tools/list" => {
            let n: u64 = heard.body["params"]["cursor"].as_str().map_or(0, |c| c.parse().unwrap());
            let next = (n + 1).to_string();
            Say::Json(
                heard.result(json!({"resultType": "complete", "tools": [tool(&format!("t{n}"))], "nextCursor": next})),
            )
        }
        _ => modern(&[])(heard),
    })
    .await;
    let good = Upstream::http(modern(&["ok"])).await;
    let servers = json!({
        "r": repeating.config(), "c": counting.with(json!({"limits": {"list_pages": 7}})), "g": good.config(),
        "i": counting.with(json!({"limits": {"list_items": 3}})),
    });
    let gate = Gate::start(json!({"servers": servers})).await;
    let (found, _) = gate.tools("/mcp").await;
    let of = |slug: &str| found.iter().filter(|n| n.starts_with(slug)).count();
    assert_eq!((of("r__"), of("c__"), of("g__"), of("i__")), (1, 7, 1, 3), "{found:?}");
    assert!(repeating.count("tools/list") <= 3);
}

/// An item that client libraries cannot parse would break the whole list, so it is dropped and
/// reported; unambiguous mistakes are repaired.
#[tokio::test]
async fn an_item_that_clients_cannot_read_costs_no_other() {
    let tools = vec![
        tool("good"),
        json!({"name": "noschema"}),
        json!({"name": "strange", "inputSchema": "x"}),
        json!({"name": "typed", "inputSchema": {"type": "object"}, "description": 5}),
        json!({"name": "untyped", "description": null, "inputSchema": {"properties": {}}}),
    ];
    let server = Upstream::http(modern_with(tools)).await;
    let gate = Gate::start(json!({"servers": {"a": server.config()}})).await;
    let (found, result) = gate.tools("/mcp").await;
    assert_eq!(found, ["a__good", "a__untyped"]);
    let repaired = &result["tools"][1];
    assert_eq!(repaired["inputSchema"], json!({"type": "object", "properties": {}}));
    assert!(repaired.get("description").is_none(), "{repaired}");
    let said = gate.log();
    for words in ["has no `inputSchema`", "`description` must be a string"] {
        assert!(said.contains(words), "{words}: {said}");
    }
}

/// A silent or dead server delays a list up to the deadline, and is reported as missing.
#[tokio::test]
async fn a_missing_server_delays_no_list_beyond_the_deadline() {
    let silent = Upstream::http(|_| Say::Nothing).await;
    let mut dead = Upstream::http(modern(&["d"])).await;
    dead.stop().await;
    let good = Upstream::http(modern(&["ok"])).await;
    let servers = json!({
        "silent": silent.config(), "dead": dead.config(), "good": good.config(),
        "none": {"command": "/does/not/exist"}, "ends": {"command": "true"}, "mute": {"command": "sleep", "args": ["600"]},
    });
    let gate =
        Gate::launch(json!({"servers": servers, "limits": {"discovery_deadline": "1s"}})).await;
    let began = Instant::now();
    until("tools are offered", async || {
        let answer = gate.modern("/mcp", "tools/list", json!({})).await;
        (answer.status == 200 && answer.text().contains("good__ok")).then_some(())
    })
    .await;
    let (found, result) = gate.tools("/mcp").await;
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    assert_eq!(found, ["good__ok"]);
    let missing: Vec<_> = result["_meta"]["lockgate/degraded"]
        .as_array()
        .unwrap()
        .iter()
        .map(|d| d["server"].as_str().unwrap())
        .collect();
    assert_eq!(missing, ["dead", "ends", "mute", "none", "silent"], "{result}");
    assert!(
        !result.to_string().contains("/does/not/exist")
            && !result.to_string().contains("127.0.0.1"),
        "{result}"
    );
    // Later lists do not wait, in either era, and calls continue.
    let began = Instant::now();
    let session = gate.session("/mcp", "2025-06-18").await;
    let legacy = session.ask("tools/list", json!({})).await.result();
    assert_eq!(legacy["_meta"]["lockgate/degraded"].as_array().unwrap().len(), 5);
    assert_eq!(gate.call("good__ok").await.status, 200);
    assert!(began.elapsed() < Duration::from_millis(800), "{:?}", began.elapsed());
    assert!(result["ttlMs"].as_u64().unwrap() <= 5_000, "a list with gaps is not kept for long");
    let own = gate.tools("/servers/good/mcp").await.1;
    assert!(own["_meta"].get("lockgate/degraded").is_none(), "{own}");
    // The server is reconnected automatically.
    dead.restart().await;
    until("the dead server is listed", async || {
        gate.tools("/mcp").await.0.contains(&"dead__d".to_owned()).then_some(())
    })
    .await;
}

/// A cached list causes no upstream traffic, for any client in any era.
#[tokio::test]
async fn a_warm_list_asks_no_server() {
    let one = Upstream::http(modern(&["m"])).await;
    let two = Upstream::http(legacy("2025-06-18", &["l"])).await;
    let gate = Gate::start(json!({"servers": {"one": one.config(), "two": two.config()}})).await;
    assert_eq!(gate.tools("/mcp").await.0, ["one__m", "two__l"]);
    let posts = |server: &Upstream| server.heard().iter().filter(|h| h.verb == "POST").count();
    let before = (posts(&one), posts(&two));
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let session = gate.session("/mcp", version).await;
        for method in
            ["tools/list", "prompts/list", "resources/list", "resources/templates/list", "ping"]
        {
            assert_eq!(session.ask(method, json!({})).await.code(), 0, "{method}");
        }
    }
    for path in ["/mcp", "/servers/one/mcp", "/servers/two/mcp"] {
        for _ in 0..5 {
            gate.tools(path).await;
            assert_eq!(gate.modern(path, "server/discover", json!({})).await.code(), 0);
        }
    }
    assert_eq!((posts(&one), posts(&two)), before);
}

/// F-09: hidden items are in no list, and calls to them get the same bytes as calls to missing
/// items, at every endpoint and in both eras.
#[tokio::test]
async fn hidden_things_are_like_unknown_ones() {
    let one = Upstream::http(modern(&["open", "hide_x"])).await;
    let two = Upstream::http(modern(&["open"])).await;
    let policy = json!({
        "servers": {"deny": ["zwei"]}, "tools": {"deny": ["one__hide_*", "f__test_error_handling"]},
        "prompts": {"deny": ["f__test_simple_prompt"]}, "resources": {"deny": ["f+test://static-text"]},
    });
    let servers = json!({"one": one.config(), "zwei": two.config(), "f": fixture(&[])});
    let gate = Gate::start(json!({"servers": servers, "policy": policy})).await;
    let (found, result) = gate.tools("/mcp").await;
    assert!(found.contains(&"one__open".to_owned()));
    assert!(
        !found
            .iter()
            .any(|n| n.contains("hide") || n.starts_with("zwei") || n.contains("error_handling")),
        "{found:?}"
    );
    assert!(!result.to_string().contains("zwei"), "{result}");
    assert_eq!(gate.tools("/servers/one/mcp").await.0, ["open"]);
    let before = (one.count("tools/call"), two.heard().len());
    // (endpoint, method, member, hidden, unknown); the last two have equal lengths, so that only
    // the name differs.
    let pairs = [
        ("/mcp", "tools/call", "name", "one__hide_x", "one__none_x"),
        ("/mcp", "tools/call", "name", "one/hide_x", "one/none_x"),
        ("/mcp", "tools/call", "name", "zwei__open", "xxxx__open"),
        ("/servers/one/mcp", "tools/call", "name", "hide_x", "none_x"),
        ("/servers/f/mcp", "tools/call", "name", "test_error_handling", "test_error_handlinX"),
        ("/mcp", "prompts/get", "name", "f__test_simple_prompt", "f__test_simple_prompX"),
        ("/servers/f/mcp", "prompts/get", "name", "test_simple_prompt", "test_simple_prompX"),
    ];
    let sessions =
        [gate.session("/mcp", "2025-11-25").await, gate.session("/mcp", "2025-03-26").await];
    for (path, method, key, hidden, unknown) in pairs {
        let bytes = async |name: &str| {
            let answer = gate.modern(path, method, json!({key: name, "arguments": {}})).await;
            (answer.status, answer.text().replace(name, "NAME"), answer.headers.len())
        };
        let (a, b) = (bytes(hidden).await, bytes(unknown).await);
        assert_eq!(a, b);
        assert_eq!(a.0, 200);
        assert!(a.1.contains("-32602"), "{a:?}");
        if path == "/mcp" {
            for session in &sessions {
                let bytes = async |name: &str| {
                    session
                        .ask(method, json!({key: name, "arguments": {}}))
                        .await
                        .text()
                        .replace(name, "NAME")
                };
                let (a, b) = (bytes(hidden).await, bytes(unknown).await);
                assert_eq!(a, b);
                assert!(a.contains("-32602"), "{a}");
            }
        }
    }
    // A hidden resource equals a resource of a missing server; a hidden endpoint equals a missing
    // endpoint.
    let read = async |uri: &str| {
        gate.modern("/mcp", "resources/read", json!({"uri": uri})).await.text().replace(uri, "URI")
    };
    assert_eq!(read("f+test://static-text").await, read("g+test://static-text").await);
    let at = async |path: &str| {
        let answer = Request::modern(path, "tools/list", json!({})).send(gate.address).await;
        (answer.status, answer.text())
    };
    assert_eq!(at("/servers/zwei/mcp").await, at("/servers/xxxx/mcp").await);
    assert_eq!((one.count("tools/call"), two.count("tools/call")), (before.0, 0));
    let instructions = gate.modern("/mcp", "server/discover", json!({})).await.text();
    assert!(!instructions.contains("zwei"), "{instructions}");
}

/// F-10: a missing resource yields the error code of the client's era, and never empty contents.
#[tokio::test]
async fn a_missing_resource_is_an_error_of_the_clients_era() {
    for era in ["modern", "legacy"] {
        let gate = Gate::start(json!({"servers": {"f": fixture(&["--era", era])}})).await;
        let session = gate.session("/mcp", "2025-11-25").await;
        for uri in [
            "f+test://no-such-resource",
            "other+test://static-text",
            "no-scheme",
            "https://example.com/x",
        ] {
            let params = json!({"uri": uri});
            let answer = gate.modern("/mcp", "resources/read", params.clone()).await;
            assert_eq!(
                (answer.status, answer.code()),
                (200, -32602),
                "{era} {uri}: {}",
                answer.text()
            );
            let answer = session.ask("resources/read", params).await;
            assert_eq!(answer.code(), -32002, "{era} {uri}: {}", answer.text());
        }
    }
}

/// E-10: over HTTP a tool with an invalid header annotation is dropped and logged, and the others
/// stay; over stdio, where the annotations have no effect, it stays.
#[tokio::test]
async fn a_tool_with_an_invalid_header_annotation_is_left_out() {
    let annotated = |name: &str, header: Value| json!({"name": name, "inputSchema": {"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": header}}}});
    let tools = || {
        vec![
            tool("good"),
            annotated("fine", json!("Region")),
            annotated("space", json!("a b")),
            annotated("empty", json!("")),
            annotated("number", json!(5)),
            annotated("line", json!("a\r\nb")),
        ]
    };
    let (http, stdio) =
        (Upstream::http(modern_with(tools())).await, Upstream::lines(modern_with(tools())).await);
    let gate = Gate::start(json!({"servers": {"h": http.config(), "s": stdio.config()}})).await;
    assert_eq!(gate.tools("/servers/h/mcp").await.0, ["good", "fine"]);
    assert_eq!(gate.tools("/servers/s/mcp").await.0.len(), 6);
    for name in ["space", "empty", "number", "line"] {
        assert!(
            gate.log().contains(&format!("left out: tool \\\"{name}\\\""))
                || gate.log().contains(&format!("left out: tool \"{name}\"")),
            "{name}"
        );
    }
}

#[tokio::test]
async fn a_definition_arrives_as_it_was_written() {
    let definition = json!({
        "name": "t", "title": "T\u{1F980}", "description": "d", "vendor": {"x": [1, 2.50, "x"]},
        "inputSchema": {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "$defs": {"a": {"type": "string"}},
            "properties": {"a": {"$ref": "#/$defs/a"}, "b": {"$ref": "http://127.0.0.1:1/never"}}, "unevaluatedProperties": false},
        "annotations": {"readOnlyHint": true, "other": null}, "icons": [{"src": "https://example.com/i.png"}],
        "_meta": {"example.com/x": {"y": "z"}},
    });
    let server = Upstream::http(modern_with(vec![definition.clone()])).await;
    let gate = Gate::start(json!({"servers": {"a": server.config()}})).await;
    assert_eq!(gate.tools("/servers/a/mcp").await.1["tools"][0], definition);
    let session = gate.session("/mcp", "2025-11-25").await;
    let mut shown = session.ask("tools/list", json!({})).await.result()["tools"][0].clone();
    assert_eq!(shown["name"], "a__t");
    shown["name"] = "t".into();
    for key in ["inputSchema", "annotations", "icons", "title", "description"] {
        assert_eq!(shown[key], definition[key], "{key}");
    }
}

/// Icons that point into the client's own network or contain scripts are removed, and an item with
/// an excessive description is dropped; both are reported.
#[tokio::test]
async fn what_an_item_shows_is_screened() {
    let icons =
        |sources: &[&str]| sources.iter().map(|source| json!({"src": source})).collect::<Value>();
    let mut shown = tool("shown");
    shown["icons"] =
        icons(&["javascript:alert(1)", "https://cdn.example.com/a.png", "https://127.1/a.png"]);
    let mut bare = tool("bare");
    bare["icons"] = icons(&["http://cdn.example.com/a.png", "https://localhost/a.png"]);
    let (mut most, mut long, mut deep) = (tool("most"), tool("long"), tool("deep"));
    most["description"] = "x".repeat(32 * 1024).into();
    long["description"] = "x".repeat(32 * 1024 + 1).into();
    deep["inputSchema"]["properties"] = json!({"a": {"description": "x".repeat(40_000)}});
    let server = Upstream::http(modern_with(vec![shown, bare, most, long, deep])).await;
    let gate = Gate::start(json!({"servers": {"a": server.config()}})).await;
    let session = gate.session("/mcp", "2025-11-25").await;
    for result in [gate.tools("/mcp").await.1, session.ask("tools/list", json!({})).await.result()]
    {
        let tools = result["tools"].as_array().unwrap();
        assert_eq!(names(tools), ["a__shown", "a__bare", "a__most"]);
        assert_eq!(tools[0]["icons"], icons(&["https://cdn.example.com/a.png"]));
        assert!(tools[1].get("icons").is_none());
    }
    let log = gate.log();
    for words in ["limits.description_bytes", "2 icons that are"] {
        assert!(log.contains(words), "{words}");
    }
}
