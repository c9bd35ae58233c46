//! The permitted contents of lists, schemas and results (rows E-27, F-06, F-07, F-28, F-29), and no
//! caching of server results.

use crate::rig::upstream::{modern, modern_with};
use crate::rig::{Gate, HeardMessage, Say, Upstream, Value, json};

fn no_more(heard: &HeardMessage) -> Say {
    Say::Status(404, Vec::new(), heard.error(-32601, "no such method"))
}

/// E-27, F-30: schemas of any dialect are forwarded unchanged, and their references are not
/// fetched.
#[tokio::test]
async fn a_schema_is_passed_on_and_never_followed() {
    let trap = Upstream::verbs(|_| Say::Json(json!({"type": "object"}))).await;
    let remote = format!("http://{}/schema.json", trap.address);
    let schemas = [
        json!({"type": "object", "properties": {"x": {"$ref": remote}}}),
        json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "$defs": {"y": {"$ref": remote}}}),
        json!({"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "$id": remote}),
        json!({"$schema": remote, "type": "object", "properties": {"n": {"const": 1.0e300}}}),
    ];
    let tools: Vec<Value> = schemas.iter().enumerate().map(|(n, schema)| {
        json!({"name": format!("t{n}"), "inputSchema": schema, "outputSchema": schema, "x-vendor": {"kept": [1.50]}})
    }).collect();
    let server = Upstream::http(modern_with(tools.clone())).await;
    let gate = Gate::start(json!({"servers": {"a": server.config()}})).await;
    let (_, result) = gate.tools("/servers/a/mcp").await;
    assert_eq!(result["tools"], Value::Array(tools));
    for n in 0..schemas.len() {
        let call = json!({"name": format!("t{n}"), "arguments": {"x": remote}});
        assert_eq!(gate.modern("/servers/a/mcp", "tools/call", call).await.code(), 0);
    }
    assert_eq!(trap.heard().len(), 0);
}

/// F-06: every page of a list has the same cache scope.
#[tokio::test]
async fn all_pages_have_one_scope() {
    let names: Vec<String> = (0..7).map(|n| format!("t{n}")).collect();
    let server =
        Upstream::http(modern(&names.iter().map(String::as_str).collect::<Vec<_>>())).await;
    let gate =
        Gate::start(json!({"servers": {"a": server.config()}, "limits": {"page_items": 3}})).await;
    let (mut scopes, mut params, mut count) = (Vec::new(), json!({}), 0);
    loop {
        let page = gate.modern("/mcp", "tools/list", params).await.result();
        scopes.push(page["cacheScope"].clone());
        count += page["tools"].as_array().unwrap().len();
        match page.get("nextCursor") {
            Some(cursor) => params = json!({"cursor": cursor}),
            None => break,
        }
    }
    assert_eq!((count, scopes), (7, vec![json!("private"); 3]));
}

/// F-07: clients may cache cacheable results privately; the gateway forwards every read.
#[tokio::test]
async fn reads_are_never_answered_from_memory() {
    let server =
        Upstream::http(|heard| match heard.method() {
            "server/discover" => Say::Json(heard.result(json!({
                "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"resources": {}},
                "ttlMs": 0, "cacheScope": "private",
            }))),
            "resources/read" => {
                let scope = if heard.body["params"]["uri"] == "test://public" { "public" } else { "private" };
                let contents = json!([{"uri": heard.body["params"]["uri"], "text": heard.body["id"].to_string()}]);
                Say::Json(heard.result(
                    json!({"resultType": "complete", "contents": contents, "ttlMs": 60_000, "cacheScope": scope}),
                ))
            }
            "resources/list" => Say::Json(
                heard.result(json!({"resultType": "complete", "resources": [], "ttlMs": 0, "cacheScope": "public"})),
            ),
            "resources/templates/list" => Say::Json(heard.result(
                json!({"resultType": "complete", "resourceTemplates": [], "ttlMs": 0, "cacheScope": "public"}),
            )),
            _ => no_more(heard),
        })
        .await;
    let gate = Gate::start(json!({"servers": {"a": server.config()}})).await;
    for uri in ["a+test://public", "a+test://private"] {
        let mut seen = Vec::new();
        for _ in 0..3 {
            let read = gate.modern("/mcp", "resources/read", json!({"uri": uri})).await.result();
            assert_eq!((&read["cacheScope"], &read["ttlMs"]), (&json!("private"), &json!(60_000)));
            seen.push(read["contents"][0]["text"].clone());
        }
        assert!(seen[0] != seen[1] && seen[1] != seen[2], "{seen:?}");
    }
    assert_eq!(server.count("resources/read"), 6);
}

/// F-28: a completion is sent to the server under its own name for the item; at most 100 values are
/// returned, and the rate limit applies.
#[tokio::test]
async fn completions_are_routed_bounded_and_rated() {
    let values: Vec<String> = (0..250).map(|n| format!("v{n}")).collect();
    let server = Upstream::http(move |heard| match heard.method() {
        "server/discover" => Say::Json(heard.result(json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "ttlMs": 0, "cacheScope": "private",
            "capabilities": {"prompts": {}, "completions": {}},
        }))),
        "prompts/list" => Say::Json(heard.result(json!({
            "resultType": "complete", "prompts": [{"name": "p"}], "ttlMs": 0, "cacheScope": "private",
        }))),
        "completion/complete" => {
            let completion = json!({"values": values, "total": 250, "hasMore": false});
            Say::Json(heard.result(json!({"resultType": "complete", "completion": completion})))
        }
        _ => no_more(heard),
    })
    .await;
    let rates = json!({"completions_per_minute": 4});
    let gate = Gate::start(json!({"servers": {"a": server.config()}, "policy": rates})).await;
    let ask = async |name: &str| {
        let params = json!({"ref": {"type": "ref/prompt", "name": name}, "argument": {"name": "x", "value": "v"}});
        gate.modern("/mcp", "completion/complete", params).await
    };
    let completion = ask("a__p").await.result()["completion"].clone();
    assert_eq!(completion["values"].as_array().unwrap().len(), 100);
    assert_eq!((&completion["hasMore"], &completion["total"]), (&json!(true), &json!(250)));
    let heard = server.heard_of("completion/complete");
    assert_eq!(heard[0].body["params"]["ref"]["name"], "p");
    assert_eq!(heard[0].body["params"]["argument"], json!({"name": "x", "value": "v"}));
    assert_eq!(ask("p").await.code(), -32602, "own names are not exposed here");
    let mut codes = Vec::new();
    for _ in 0..6 {
        codes.push(ask("a__p").await.code());
    }
    // Requests for unknown prompts count too.
    assert_eq!(codes.iter().filter(|code| **code == 0).count(), 2, "{codes:?}");
    assert!(codes.iter().all(|code| [0, -31029].contains(code)), "{codes:?}");
    assert_eq!(server.count("completion/complete"), 3);
}

/// F-29: structured content is sent only in revisions that define it, together with its schema.
#[tokio::test]
async fn structured_content_fits_the_revision() {
    let server = Upstream::http(|heard| {
        let tool = |name: &str, root: &str| {
            json!({"name": name, "inputSchema": {"type": "object"}, "outputSchema": {"type": root}})
        };
        if heard.method() != "tools/call" {
            return modern_with(vec![tool("object", "object"), tool("array", "array")])(heard);
        }
        let value = if heard.body["params"]["name"] == "object" { json!({"n": 1}) } else { json!([1, 2]) };
        let content = json!([{"type": "text", "text": value.to_string()}]);
        Say::Json(heard.result(json!({"resultType": "complete", "content": content, "structuredContent": value})))
    })
    .await;
    let gate = Gate::start(json!({"servers": {"a": server.config()}})).await;
    for (revision, tool, structured) in [
        ("2026-07-28", "a__object", true),
        ("2026-07-28", "a__array", true),
        ("2025-11-25", "a__object", true),
        ("2025-11-25", "a__array", false),
        ("2025-06-18", "a__object", true),
        ("2025-06-18", "a__array", false),
        ("2025-03-26", "a__object", false),
        ("2025-03-26", "a__array", false),
        ("2024-11-05", "a__object", false),
    ] {
        let (list, called) = if revision == "2026-07-28" {
            (gate.tools("/mcp").await.1, gate.call(tool).await.result())
        } else {
            let session = gate.session("/mcp", revision).await;
            (session.ask("tools/list", json!({})).await.result(), session.call(tool).await.result())
        };
        let listed = list["tools"].as_array().unwrap().iter().find(|t| t["name"] == tool).unwrap();
        assert_eq!(listed.get("outputSchema").is_some(), structured, "{revision} {tool}: {listed}");
        assert_eq!(
            called.get("structuredContent").is_some(),
            structured,
            "{revision} {tool}: {called}"
        );
        assert!(called["content"][0]["text"].is_string(), "{revision} {tool}: {called}");
    }
}

/// B5: completions work in both eras, even if the server does not announce them. A server without
/// completions yields no values, and unknown references stay errors.
#[tokio::test]
async fn what_completes_without_saying_so_completes_for_everybody() {
    let with_prompt = |completes: bool| {
        let plain = modern(&["t"]);
        move |heard: &HeardMessage| match heard.method() {
            "server/discover" => Say::Json(heard.result(json!({
                "resultType": "complete", "supportedVersions": ["2026-07-28"], "ttlMs": 0,
                "cacheScope": "private", "capabilities": {"tools": {}, "prompts": {}},
            }))),
            "prompts/list" => Say::Json(heard.result(json!({
                "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
                "prompts": [{"name": "p", "arguments": [{"name": "x"}]}],
            }))),
            "completion/complete" if completes => Say::Json(
                heard.result(json!({"resultType": "complete", "completion": {"values": ["one"]}})),
            ),
            _ => plain(heard),
        }
    };
    let (does, does_not) =
        (Upstream::http(with_prompt(true)).await, Upstream::http(with_prompt(false)).await);
    let servers = json!({"does": does.config(), "doesnot": does_not.config()});
    let gate = Gate::start(json!({"servers": servers})).await;
    let session = gate.session("/mcp", "2025-06-18").await;
    let wanted = |name: &str| json!({"ref": {"type": "ref/prompt", "name": name}, "argument": {"name": "x", "value": ""}});
    for (name, values) in [("does__p", json!(["one"])), ("doesnot__p", json!([]))] {
        let modern = gate.modern("/mcp", "completion/complete", wanted(name)).await;
        let legacy = session.ask("completion/complete", wanted(name)).await;
        assert_eq!(modern.result()["resultType"], "complete", "{}", modern.text());
        for answer in [modern, legacy] {
            assert_eq!(answer.result()["completion"]["values"], values, "{}", answer.text());
        }
    }
    let unknown = gate.modern("/mcp", "completion/complete", wanted("does__no")).await;
    assert_eq!(unknown.code(), -32602, "{}", unknown.text());
}
