//! Requests to servers (rows E-04, E-08, E-12, E-26, L-04, L-08, L-10, L-12, F-31): the servers'
//! own names, correct headers, and no hop-by-hop data of the client.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::rig::client::Request;
use crate::rig::upstream::{legacy, modern, modern_with, tool};
use crate::rig::{Gate, HeardMessage, Say, Upstream, Value, json, until};

/// E-08, E-04: every modern POST repeats its body in headers, with the server's own names, encoded
/// if needed.
#[tokio::test]
async fn a_modern_server_gets_its_own_names_in_headers() {
    let names = ["plain", "größe", " padded ", "=?base64?eA==?=", "dotted.name/x"];
    let server = Upstream::http(modern(&names)).await;
    let gate = Gate::start(json!({"servers": {"a": server.config()}})).await;
    for (name, header) in [
        ("plain", "plain"),
        ("größe", "=?base64?Z3LDtsOfZQ==?="),
        (" padded ", "=?base64?IHBhZGRlZCA=?="),
        ("=?base64?eA==?=", "=?base64?PT9iYXNlNjQ/ZUE9PT89?="),
        ("dotted.name/x", "dotted.name/x"),
    ] {
        let params = json!({"name": name, "arguments": {}});
        let call = Request::modern("/servers/a/mcp", "tools/call", params).with("Mcp-Name", header);
        let answer = call.send(gate.address).await;
        assert_eq!(answer.code(), 0, "{name}: {}", answer.text());
        let heard = server.heard_of("tools/call").pop().unwrap();
        assert_eq!(
            (heard.header("mcp-name"), heard.body["params"]["name"].as_str()),
            (Some(header), Some(name))
        );
    }
    for heard in server.heard() {
        let accept = heard.header("accept").unwrap_or_default();
        assert!(
            accept.contains("application/json") && accept.contains("text/event-stream"),
            "{accept}"
        );
        assert_eq!(heard.header("mcp-protocol-version"), Some("2026-07-28"));
        assert_eq!(heard.header("mcp-method"), Some(heard.method()));
        assert_eq!(heard.header("content-type"), Some("application/json"));
        assert!(heard.body.is_object(), "never a batch");
        let meta = &heard.body["params"]["_meta"];
        assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
        assert!(meta["io.modelcontextprotocol/clientCapabilities"].is_object());
    }
}

/// Hop-by-hop data of the client is not forwarded: ids, tokens, session ids, headers, reserved
/// `_meta`. End-to-end data is: arguments byte for byte, vendor `_meta`, trace context (F-31).
#[tokio::test]
async fn nothing_of_the_clients_hop_crosses() {
    let server = Upstream::http(modern(&["t"])).await;
    let config = server.with(json!({"headers": {"X-Configured": "yes"}}));
    let gate = Gate::start(json!({"servers": {"a": config}})).await;
    let arguments = r#"{"z":1.50,"a":[1e2,-0.0],"u":"\u00e9\/","deep":{"b":{}},"big":123456789012345678901234567890}"#;
    let meta = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"secret-client","version":"1"},"progressToken":"client-token","example.com/vendor":{"k":1},"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","baggage":"user=secret","lockgate/own":"x"}"#;
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":"client-id","method":"tools/call","params":{{"name":"a__t","arguments":{arguments},"_meta":{meta}}}}}"#
    );
    let call = Request::modern("/mcp", "tools/call", json!({"name": "a__t"})).body(body);
    let call = call
        .with("Cookie", "c=1")
        .with("X-Forwarded-For", "1.2.3.4")
        .with("X-Anything", "y")
        .with("Mcp-Session-Id", "s")
        .with("Authorization", "Bearer client-secret");
    let answer = call.send(gate.address).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let heard = server.heard_of("tools/call").pop().unwrap();
    assert!(heard.text.contains(arguments), "{}", heard.text);
    for foreign in [
        "client-id",
        "client-token",
        "client-secret",
        "secret-client",
        "user=secret",
        "lockgate/own",
        "a__t",
    ] {
        assert!(!heard.text.contains(foreign), "{foreign}: {}", heard.text);
    }
    assert_eq!(heard.body["params"]["_meta"]["example.com/vendor"], json!({"k": 1}));
    let parent = heard.body["params"]["_meta"]["traceparent"].as_str().unwrap();
    assert!(
        parent.starts_with("00-0af7651916cd43dd8448eb211c80319c-")
            && !parent.contains("b7ad6b7169203331"),
        "{parent}"
    );
    for header in ["cookie", "x-forwarded-for", "x-anything", "mcp-session-id", "authorization"] {
        assert_eq!(heard.header(header), None, "{header}");
    }
    assert_eq!(heard.header("x-configured"), Some("yes"));
}

/// F-31: the client's trace continues from `_meta`, or from the HTTP headers if `_meta` has no
/// valid context, in both eras.
#[tokio::test]
async fn a_trace_goes_on_from_the_message_or_its_exchange() {
    let server = Upstream::http(modern(&["t"])).await;
    let gate = Gate::start(json!({"servers": {"a": server.config()}})).await;
    let session = gate.session("/mcp", "2025-11-25").await;
    let (of_meta, of_header) =
        ("0af7651916cd43dd8448eb211c80319c", "4bf92f3577b34da6a3ce929d0e0e4736");
    let parent = |trace: &str| format!("00-{trace}-b7ad6b7169203331-01");
    let told = json!({"traceparent": parent(of_meta), "tracestate": "m=1"});
    let broken = json!({"traceparent": "00-nothing-01", "tracestate": "m=1"});
    for (meta, header, trace, state) in [
        (json!({}), true, Some(of_header), json!("h=1,i=2")),
        (told.clone(), true, Some(of_meta), json!("m=1")),
        (told, false, Some(of_meta), json!("m=1")),
        (broken.clone(), true, Some(of_header), json!("h=1,i=2")),
        (broken, false, None, Value::Null),
        (json!({}), false, None, Value::Null),
    ] {
        let params = json!({"name": "a__t", "arguments": {}, "_meta": meta});
        let modern = Request::modern("/mcp", "tools/call", params.clone());
        for mut request in [modern, Request::legacy("/mcp", &session.id, 3, "tools/call", &params)]
        {
            if header {
                request = request.with("traceparent", &parent(of_header)).with("tracestate", "h=1");
                request = request.also("tracestate", "i=2").with("baggage", "user=secret");
            }
            let answer = request.send(gate.address).await;
            assert_eq!((answer.status, answer.code()), (200, 0), "{}", answer.text());
            let heard = server.heard_of("tools/call").pop().unwrap();
            let sent = &heard.body["params"]["_meta"];
            let sent_trace = sent["traceparent"].as_str().map(|sent| &sent[3..35]);
            assert_eq!(
                (sent_trace, &sent["tracestate"]),
                (trace, &state),
                "{meta} {header}: {}",
                heard.text
            );
            assert!(!heard.text.contains("b7ad6b7169203331"), "a span of our own: {}", heard.text);
            assert!(sent.get("baggage").is_none() && heard.header("baggage").is_none());
        }
    }
}

/// E-12: if a server rejects headers of an outdated definition, the tools are refreshed and the
/// call is retried once. A second rejection is an internal error for the client, not a header
/// error.
#[tokio::test]
async fn a_header_mismatch_upstream_is_retried_once() {
    for (refusals, code) in [(1, 0), (9, -32603)] {
        let refused = AtomicUsize::new(0);
        let server = Upstream::http(move |heard: &HeardMessage| match heard.method() {
            "tools/call" if refused.fetch_add(1, Ordering::SeqCst) < refusals => {
                Say::Status(400, Vec::new(), heard.error(-32020, "header mismatch"))
            }
            _ => modern_with(vec![tool("t")])(heard),
        })
        .await;
        let gate = Gate::start(json!({"servers": {"a": server.config()}})).await;
        let lists = server.count("tools/list");
        let answer = gate.call("a__t").await;
        assert_eq!((answer.status, answer.code()), (200, code), "{}", answer.text());
        assert_eq!((server.count("tools/call"), server.count("tools/list")), (2, lists + 1));
    }
}

/// Only a modern HTTP server rejects headers before execution; elsewhere the call may have run.
#[tokio::test]
async fn a_call_to_a_legacy_server_is_never_sent_twice() {
    let server = Upstream::http(|heard: &HeardMessage| match heard.method() {
        "tools/call" => Say::Json(heard.error(-32020, "header mismatch")),
        _ => legacy("2025-11-25", &["t"])(heard),
    })
    .await;
    let gate = Gate::start(json!({"servers": {"a": server.config()}})).await;
    let answer = gate.call("a__t").await;
    assert_eq!((answer.status, answer.code()), (200, -32603), "{}", answer.text());
    assert_eq!(server.count("tools/call"), 1);
}

/// L-04, L-10: a legacy server gets its session and version with every request, and a DELETE at the
/// end.
#[tokio::test]
async fn a_legacy_server_gets_its_session_and_version() {
    for (version, header) in [
        ("2025-11-25", Some("2025-11-25")),
        ("2025-06-18", Some("2025-06-18")),
        ("2025-03-26", None),
    ] {
        let server = Upstream::http(legacy(version, &["t"])).await;
        let mut gate = Gate::start(json!({"servers": {"a": server.config()}})).await;
        assert_eq!(gate.call("a__t").await.result()["resultType"], "complete");
        gate.terminate();
        gate.ended().await;
        let heard = server.heard();
        let after = heard.iter().skip_while(|h| h.method() != "initialize").skip(1);
        for heard in after.clone() {
            assert_eq!(
                heard.header("mcp-session-id"),
                Some("abc"),
                "{version} {} {}",
                heard.verb,
                heard.method()
            );
            assert_eq!(
                heard.header("mcp-protocol-version"),
                header,
                "{version} {} {}",
                heard.verb,
                heard.method()
            );
            assert!(!heard.text.contains("io.modelcontextprotocol/"), "{}", heard.text);
        }
        assert_eq!(after.filter(|h| h.verb == "DELETE").count(), 1, "{version}");
    }
}

/// L-08: a legacy server's broken stream is resumed by GET after the requested delay.
#[tokio::test]
async fn a_broken_upstream_stream_is_resumed() {
    let server = Upstream::http(|heard| match heard.method() {
        "tools/call" => Say::Sse("id: e-1\nretry: 50\ndata:\n\n".into()),
        _ => legacy("2025-11-25", &["t"])(heard),
    })
    .await;
    let gate = Gate::start(json!({"servers": {"a": server.with(json!({"timeout": 3}))}})).await;
    let answer = gate.call("a__t").await;
    let resumed = server
        .heard()
        .into_iter()
        .find(|h| h.verb == "GET" && h.header("last-event-id") == Some("e-1"));
    let resumed = resumed.expect("a GET with Last-Event-ID");
    assert_eq!(resumed.header("mcp-session-id"), Some("abc"));
    // This server returns 405, so the call fails without a retry.
    assert_eq!((answer.code(), server.count("tools/call")), (-32603, 1), "{}", answer.text());
}

/// L-08: a result on the resumed stream is the result of the call.
#[tokio::test]
async fn a_resumed_stream_brings_the_answer() {
    let server = Upstream::verbs(|heard| match (heard.verb.as_str(), heard.method()) {
        ("POST", "tools/call") => Say::Sse("id: e-1\nretry: 50\ndata:\n\n".into()),
        ("GET", _) if heard.header("last-event-id") == Some("e-1") => {
            // The id of the only call is unknown: the handshake and the lists use the first ids.
            let answer = |id: u64| json!({"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": "late"}]}});
            Say::Sse((0..20).map(|id| format!("id: e-2\ndata: {}\n\n", answer(id))).collect())
        }
        ("POST", _) => legacy("2025-11-25", &["t"])(heard),
        _ => Say::Status(405, Vec::new(), Value::Null),
    })
    .await;
    let gate = Gate::start(json!({"servers": {"a": server.config()}})).await;
    let answer = gate.call("a__t").await;
    assert_eq!(answer.result()["content"][0]["text"], "late");
    assert_eq!(server.count("tools/call"), 1, "resumed, not repeated");
}

/// L-08: a server's retry delay is forwarded to the client, before or after the client's stream has
/// started.
#[tokio::test]
async fn a_servers_delay_is_passed_on() {
    for start in [
        "",
        "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"error\",\"data\":\"x\"}}\n\n",
    ] {
        let server = Upstream::verbs(move |heard| match (heard.verb.as_str(), heard.method()) {
            ("POST", "tools/call") => Say::Sse(format!("{start}id: e-1\nretry: 700\ndata:\n\n")),
            ("GET", _) if heard.header("last-event-id") == Some("e-1") => {
                let answer =
                    |id: u64| json!({"jsonrpc": "2.0", "id": id, "result": {"content": []}});
                Say::Sse((0..20).map(|id| format!("id: e-2\ndata: {}\n\n", answer(id))).collect())
            }
            ("POST", _) => legacy("2025-11-25", &["t"])(heard),
            _ => Say::Status(405, Vec::new(), Value::Null),
        })
        .await;
        let gate = Gate::start(json!({"servers": {"a": server.config()}})).await;
        let session = gate.session("/mcp", "2025-11-25").await;
        let params = json!({"name": "a__t", "arguments": {}});
        let call = Request::legacy("/mcp", &session.id, 3, "tools/call", &params);
        let mut stream = call.open(gate.address).await;
        let mut blocks = Vec::new();
        while let Some(block) = stream.block().await {
            blocks.push(block);
        }
        let last = blocks.iter().rfind(|block| block.contains("retry:")).expect("a delay");
        assert!(last.contains("retry: 700"), "{blocks:?}");
        let mut ids = blocks.iter().flat_map(|block| block.lines());
        let id = ids.rfind(|line| line.starts_with("id:")).expect("an id")[3..].trim();
        let resume = Request::bare("GET", "/mcp", "").with("Mcp-Session-Id", &session.id);
        let resume = resume.with("Accept", "text/event-stream").with("Last-Event-ID", id);
        let mut rest = resume.open(gate.address).await;
        // A log message may follow the delay.
        let mut answer = rest.next().await.expect("the answer");
        while answer["method"] == "notifications/message" {
            answer = rest.next().await.expect("the answer");
        }
        assert_eq!((&answer["id"], answer["result"].is_object()), (&json!(3), true), "{answer}");
    }
}

/// E-02: no id is used twice in a session with a server, even for interleaved requests of different
/// clients.
#[tokio::test]
async fn no_id_is_used_twice_in_a_session() {
    for line in [false, true] {
        let script = legacy("2025-11-25", &["t", "u"]);
        let server =
            if line { Upstream::lines(script).await } else { Upstream::http(script).await };
        let gate = Gate::start(json!({"servers": {"a": server.config()}})).await;
        let sessions = [
            gate.session("/mcp", "2025-11-25").await,
            gate.session("/servers/a/mcp", "2025-03-26").await,
        ];
        for n in 0..10 {
            let (one, two, three) =
                tokio::join!(sessions[0].call("a__t"), sessions[1].call("u"), gate.call("a__u"));
            assert_eq!([one.code(), two.code(), three.code()], [0; 3], "{n}");
        }
        let ids: Vec<String> = server
            .heard()
            .iter()
            .filter_map(|h| h.body.get("id").map(ToString::to_string))
            .collect();
        let mut unique = ids.clone();
        unique.sort();
        unique.dedup();
        assert!(ids.len() > 30 && unique.len() == ids.len(), "{ids:?}");
    }
}

/// L-12: over HTTP+SSE, messages are posted to the address of the first event, and responses arrive
/// on the stream.
#[tokio::test]
async fn an_sse_server_is_posted_to_and_answers_on_its_stream() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(async move {
        let mut answers: Option<tokio::net::TcpStream> = None;
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut raw = Vec::new();
            let (head, body) = loop {
                let mut part = [0; 4096];
                let Ok(n @ 1..) = socket.read(&mut part).await else {
                    break (String::new(), String::new());
                };
                raw.extend_from_slice(&part[..n]);
                let text = String::from_utf8_lossy(&raw).into_owned();
                let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
                let length = head
                    .to_lowercase()
                    .lines()
                    .find_map(|l| l.strip_prefix("content-length: ")?.parse().ok());
                if body.len() >= length.unwrap_or(0) {
                    break (head.to_owned(), body.to_owned());
                }
            };
            if head.starts_with("GET /sse ") {
                let first = "event: endpoint\ndata: /inbox?s=7\n\n";
                let text =
                    format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n{first}");
                socket.write_all(text.as_bytes()).await.unwrap();
                answers = Some(socket);
                continue;
            }
            assert!(head.starts_with("POST /inbox?s=7 "), "{head}");
            let heard = HeardMessage {
                verb: "POST".into(),
                headers: Vec::new(),
                text: body.clone(),
                body: serde_json::from_str(&body).unwrap(),
            };
            let accepted =
                "HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            socket.write_all(accepted.as_bytes()).await.unwrap();
            let said = match legacy("2024-11-05", &["t"])(&heard) {
                Say::Json(value) | Say::Status(_, _, value) => value,
                _ => Value::Null,
            };
            if let (Some(answers), false) = (&mut answers, said.is_null()) {
                answers
                    .write_all(format!("event: message\ndata: {said}\n\n").as_bytes())
                    .await
                    .unwrap();
            }
        }
    });
    let gate = Gate::start(
        json!({"servers": {"a": {"url": format!("http://{address}/sse"), "transport": "sse"}}}),
    )
    .await;
    assert_eq!(gate.tools("/mcp").await.0, ["a__t"]);
    for _ in 0..3 {
        assert_eq!(gate.call("a__t").await.result()["content"][0]["text"], "t");
    }
    serving.abort();
}

/// L-12: an endpoint event with another origin is rejected.
#[tokio::test]
async fn an_sse_endpoint_on_another_origin_is_refused() {
    let trap = Upstream::http(modern(&["t"])).await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, elsewhere) =
        (listener.local_addr().unwrap(), format!("http://{}/mcp", trap.address));
    let serving = tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let text = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\nevent: endpoint\ndata: {elsewhere}\n\n"
            );
            let _ = tokio::io::AsyncWriteExt::write_all(&mut socket, text.as_bytes()).await;
            tokio::spawn(async move {
                tokio::time::sleep(std::time::Duration::from_secs(5)).await;
                drop(socket);
            });
        }
    });
    let servers = json!({"a": {"url": format!("http://{address}/sse"), "transport": "sse"}});
    let gate = Gate::launch(json!({"servers": servers, "limits": {"discovery_deadline": 1}})).await;
    until("it has failed", async || gate.log().contains("state=\"failed\"").then_some(())).await;
    assert_eq!(trap.heard().len(), 0);
    serving.abort();
}

/// L-11: a server's ping is answered immediately, and its other requests on a shared connection are
/// rejected rather than left open.
#[tokio::test]
async fn a_servers_ping_is_answered() {
    let server = Upstream::lines(|heard| {
        let answer = match legacy("2025-11-25", &["t"])(heard) {
            Say::Json(value) | Say::Status(_, _, value) => value,
            _ => Value::Null,
        };
        if heard.method() != "tools/call" {
            return Say::Json(answer);
        }
        let ping = json!({"jsonrpc": "2.0", "id": "ping-1", "method": "ping"});
        let odd = json!({"jsonrpc": "2.0", "id": 5, "method": "no/such"});
        Say::Text("", format!("{ping}\n{odd}\n{answer}").into())
    })
    .await;
    let gate = Gate::start(json!({"servers": {"a": server.config()}})).await;
    assert_eq!(gate.call("a__t").await.code(), 0);
    until("both are answered", async || {
        (server.heard().iter().filter(|h| h.method().is_empty()).count() >= 2).then_some(())
    })
    .await;
    let answers: Vec<_> =
        server.heard().into_iter().filter(|h| h.method().is_empty()).map(|h| h.body).collect();
    assert!(
        answers.contains(&json!({"jsonrpc": "2.0", "id": "ping-1", "result": {}})),
        "{answers:?}"
    );
    assert!(answers.iter().any(|a| a["id"] == 5 && a["error"]["code"] == -32601), "{answers:?}");
}

/// Configured trace export is independent of the environment variables of OpenTelemetry.
#[tokio::test]
async fn variables_of_the_environment_do_not_steer_traces() {
    let collector = Upstream::http(|_| Say::Json(Value::Null)).await;
    let server = Upstream::http(modern(&["t"])).await;
    let otlp = format!("http://{}/v1/traces", collector.address);
    let elsewhere = format!("http://{}", server.address);
    let gate = Gate::launch_with(
        json!({"servers": {"a": server.config()}, "telemetry": {"otlp": otlp}}),
        &[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", &elsewhere),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", &elsewhere),
            ("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=mallory"),
            ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "authorization=Bearer%20mallory"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "0"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_SERVICE_NAME", "mallory"),
            ("OTEL_RESOURCE_ATTRIBUTES", "host.name=mallory"),
            ("HTTP_PROXY", &elsewhere),
            ("http_proxy", &elsewhere),
        ],
    )
    .await;
    gate.ready().await;
    assert_eq!(gate.call("a__t").await.code(), 0);
    let sent = until("a batch of spans", async || collector.heard().into_iter().next()).await;
    assert_eq!(
        (sent.header("content-type"), sent.header("content-encoding")),
        (Some("application/x-protobuf"), None)
    );
    assert!(sent.text.contains("lockgate") && sent.text.contains("a__t"), "{}", sent.text);
    assert!(!format!("{sent:?}").contains("mallory"), "{sent:?}");
    assert!(server.heard().iter().all(|h| !h.text.contains("service.name")));
}

/// A credential echoed by its server is redacted in every response, in both eras.
#[tokio::test]
async fn a_credential_that_its_server_echoes_is_redacted() {
    const CANARY: &str = "canary/5d1c0a77e2+K9";
    const LARGE: &str =
        r#" canary/5d1c0a77e2+K9"}],"isError":false,"resultType":"complete"},"jsonrpc":"2.0"}"#;
    let plain = modern(&["t"]);
    let server = Upstream::http(move |heard: &HeardMessage| {
        if heard.method() != "tools/call" {
            return plain(heard);
        }
        let sent = heard.header("authorization").unwrap_or_default();
        let content = json!([{"type": "text", "text": format!("you sent {sent}")}]);
        let result = heard.result(json!({"resultType": "complete", "content": content}));
        match heard.body["params"]["arguments"]["by"].as_str() {
            Some("error") => Say::Json(heard.error(-32000, &format!("bad {sent}"))),
            Some("status") => Say::Status(400, Vec::new(), heard.error(-32000, sent)),
            Some("stream") => Say::Sse(format!("data: {result}\n\n")),
            Some("large") => {
                let id = &heard.body["id"];
                let start =
                    format!(r#"{{"id":{id},"result":{{"content":[{{"type":"text","text":"{sent} "#);
                Say::Long(start.into_bytes(), 2 << 20, LARGE)
            }
            _ => Say::Json(result),
        }
    })
    .await;
    let headers = json!({"authorization": format!("Bearer {CANARY}")});
    let gate =
        Gate::start(json!({"servers": {"a": server.with(json!({"headers": headers}))}})).await;
    let session = gate.session("/mcp", "2025-11-25").await;
    for by in ["result", "error", "status", "stream", "large"] {
        let params = json!({"name": "a__t", "arguments": {"by": by}});
        let modern = gate.modern("/mcp", "tools/call", params.clone()).await;
        let legacy = session.ask("tools/call", params).await;
        for answer in [modern, legacy] {
            let text = answer.text();
            let shown = &text[..text.len().min(300)];
            assert!(!text.contains(CANARY), "{by}: {shown}");
            assert!(text.contains("[redacted]"), "{by}: {shown}");
        }
    }
    assert_eq!(server.count("tools/call"), 10);
}

/// `validate_arguments`: arguments that violate the tool's schema are rejected with the location of
/// the error, in both eras. Otherwise arguments are forwarded unchecked.
#[tokio::test]
async fn arguments_are_held_against_the_schema_where_the_operator_wants_that() {
    let place = json!({"type": "object", "properties": {"mail": {"type": "string"}}});
    let schema = json!({
        "type": "object", "required": ["to"], "$defs": {"place": place},
        "properties": {"to": {"type": "array", "items": {"$ref": "#/$defs/place"}}},
    });
    let itself = json!({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]});
    let tools = || {
        vec![
            json!({"name": "send", "inputSchema": schema.clone()}),
            json!({"name": "loop", "inputSchema": itself.clone()}),
        ]
    };
    let checked = Upstream::http(modern_with(tools())).await;
    let open = Upstream::http(modern_with(tools())).await;
    let with = |on: bool| {
        let checked = checked.with(json!({"validate_arguments": on}));
        json!({"servers": {"checked": checked, "open": open.config()}})
    };
    let gate = Gate::start(with(true)).await;
    let call = async |tool: &str, arguments: Value| {
        let params = json!({"name": tool, "arguments": arguments});
        gate.modern("/mcp", "tools/call", params).await.result()
    };
    let wrong = json!({"to": [{}, {"mail": 7}]});
    let refused = call("checked__send", wrong.clone()).await;
    assert_eq!(refused["isError"], true, "{refused}");
    let words = refused["content"][0]["text"].as_str().unwrap();
    assert!(words.contains("/to/1/mail"), "{words}");
    let rest = Request::bare("POST", "/api/tools/checked__send/execute", "{}");
    assert!(rest.send(gate.address).await.text().contains("to\\\" is a required property"));
    assert_eq!(checked.count("tools/call"), 0);
    assert!(call("checked__send", json!({"to": [{"mail": "a@b"}]})).await["isError"].is_null());
    assert!(call("checked__loop", json!({})).await["isError"].is_null());
    assert!(gate.log().contains("arguments of this tool are not checked"), "{}", gate.log());
    assert!(call("open__send", wrong.clone()).await["isError"].is_null());
    assert_eq!((checked.count("tools/call"), open.count("tools/call")), (2, 1));
    // The setting can change at runtime.
    gate.configure(with(false));
    until("the setting is in force", async || {
        call("checked__send", wrong.clone()).await["isError"].is_null().then_some(())
    })
    .await;
}
