//! Tests of the prepared requests, and of telling correct from wrong responses.

use super::*;

fn face() -> Face {
    Face {
        name: "test",
        address: SocketAddr::from(([127, 0, 0, 1], 1)),
        path: "/mcp",
        tool: "echo__echo",
        key: None,
    }
}

fn json(template: &Template, id: u64) -> anyhow::Result<serde_json::Value> {
    let bytes = [&template.before[..], id.to_string().as_bytes(), &template.after[..]].concat();
    Ok(serde_json::from_slice(&bytes)?)
}

#[test]
fn a_call_carries_its_era() -> anyhow::Result<()> {
    let text = Bytes::from_static(b"hello");
    let modern = Template::call(&face(), Era::Modern, None, &text)?;
    let body = json(&modern, 100_000_001)?;
    assert_eq!(body["id"], 100_000_001);
    assert_eq!(body["params"]["arguments"]["text"], "hello");
    assert_eq!(body["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"], MODERN);
    assert_eq!(modern.headers[REVISION], MODERN);
    assert_eq!(modern.headers[METHOD], "tools/call");
    assert_eq!(modern.headers[NAME], "echo__echo");

    let session = HeaderValue::from_static("s1");
    let legacy = Template::call(&face(), Era::Legacy, Some(&session), &text)?;
    assert_eq!(json(&legacy, 1)?["params"].get("_meta"), None);
    assert_eq!(legacy.headers[REVISION], LEGACY);
    assert_eq!(legacy.headers[SESSION], "s1");
    assert!(!legacy.headers.contains_key(METHOD));
    Ok(())
}

#[test]
fn lists_page_and_a_handshake_has_no_version_header() -> anyhow::Result<()> {
    let list = Template::list(&face(), Era::Modern, None, Some("c1"))?;
    assert_eq!(json(&list, 1)?["params"]["cursor"], "c1");
    let first = Template::list(&face(), Era::Legacy, None, None)?;
    assert_eq!(json(&first, 1)?["params"], serde_json::json!({}));
    let initialize = Template::initialize(&face())?;
    assert_eq!(json(&initialize, 1)?["params"]["protocolVersion"], LEGACY);
    assert!(!initialize.headers.contains_key(REVISION));
    Ok(())
}

#[test]
fn wrong_answers_are_told_from_right_ones() {
    let judge = |status: StatusCode, body: &'static str| {
        let answer =
            Answer { status, headers: HeaderMap::new(), body: Bytes::from_static(body.as_bytes()) };
        expect_echo(&answer, 12, b"hello").is_ok()
    };
    let right =
        r#"{"jsonrpc":"2.0","id":12,"result":{"content":[{"type":"text","text":"hello"}]}}"#;
    assert!(judge(StatusCode::OK, right));
    let streamed = r#"data: {"result":{"content":[{"type":"text","text": "hello"}]},"jsonrpc":"2.0","id": 12}"#;
    assert!(judge(StatusCode::OK, streamed));
    assert!(!judge(StatusCode::BAD_REQUEST, right));
    for wrong in [
        "",
        r#"{"id":1,"result":{"content":[{"text":"hello"}]}}"#,
        r#"{"id":123,"result":{"content":[{"text":"hello"}]}}"#,
        r#"{"id":"12","result":{"content":[{"text":"hello"}]}}"#,
        r#"{"id":12,"result":{"content":[{"text":"hell"}]}}"#,
        r#"{"id":12,"result":{"content":[{"text":"hello "}]}}"#,
        r#"{"id":12,"error":{"code":-32603,"message":"hello"}}"#,
    ] {
        assert!(!judge(StatusCode::OK, wrong), "{wrong}");
    }
}
