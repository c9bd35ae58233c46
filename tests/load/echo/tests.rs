//! Tests of the echo server over real sockets with the benchmark's client: both eras and
//! rejections.

use std::time::Duration;

use anyhow::ensure;

use super::*;
use crate::generate::{Fleet, Limit};
use crate::measure::BodySize;
use crate::peer::{Answer, Peer};
use crate::wire::{Era, Face, Template, expect_echo, expect_result};

async fn face(tools: usize) -> anyhow::Result<Face> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(accept(listener, Arc::new(Echo::new(tools, Eras::Both))));
    Ok(Face { name: "test", address, path: "/mcp", tool: "echo", key: None })
}

async fn post(face: &Face, headers: &[(&str, &str)], body: &'static str) -> anyhow::Result<Answer> {
    let mut request = Request::new(Pieces::one(Bytes::from_static(body.as_bytes())));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = "/mcp".parse()?;
    for (name, value) in headers {
        request
            .headers_mut()
            .insert(HeaderName::from_bytes(name.as_bytes())?, HeaderValue::from_str(value)?);
    }
    Peer::connect(face.address).await?.send(request).await
}

#[tokio::test]
async fn calls_of_both_eras_and_sizes_come_back_right() -> anyhow::Result<()> {
    let face = face(1).await?;
    for era in Era::BOTH {
        for body in BodySize::BOTH {
            let mut fleet = Fleet::connect(&face, era, 4, &body.text()).await?;
            let window = fleet.drive(Limit { time: Duration::from_secs(20), calls: 40 }).await?;
            ensure!((window.nanos.len(), window.wrong) == (40, 0), "{era:?}: {:?}", window.fault);
            fleet.close().await?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn lists_are_complete_in_each_era_and_differ_by_its_fields() -> anyhow::Result<()> {
    let face = face(7).await?;
    for era in Era::BOTH {
        let mut peer = Peer::connect(face.address).await?;
        let session = match era {
            Era::Legacy => Some(peer.open_session(&face).await?),
            Era::Modern => None,
        };
        let answer =
            peer.send(Template::list(&face, era, session.as_ref(), None)?.request(5)).await?;
        expect_result(&answer, 5)?;
        let value: serde_json::Value = serde_json::from_slice(&answer.body)?;
        assert_eq!(
            value.pointer("/result/tools").and_then(|tools| tools.as_array()).map(Vec::len),
            Some(7)
        );
        for field in ["resultType", "ttlMs", "cacheScope"] {
            assert_eq!(value["result"].get(field).is_some(), era == Era::Modern, "{field} {era:?}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn sessions_are_required_known_and_ended() -> anyhow::Result<()> {
    let face = face(1).await?;
    let mut peer = Peer::connect(face.address).await?;
    let session = peer.open_session(&face).await?;
    let text = Bytes::from_static(b"hello");
    let call = Template::call(&face, Era::Legacy, Some(&session), &text)?;
    expect_echo(&peer.send(call.request(3)).await?, 3, &text)?;
    peer.end_session(&face, &session).await?;
    assert_eq!(peer.send(call.request(4)).await?.status, StatusCode::NOT_FOUND);
    let without = Template::call(&face, Era::Legacy, None, &text)?;
    assert_eq!(peer.send(without.request(5)).await?.status, StatusCode::BAD_REQUEST);
    assert_eq!(
        peer.send(Template::get(&face, "/mcp")?.request(0)).await?.status,
        StatusCode::METHOD_NOT_ALLOWED
    );
    Ok(())
}

#[tokio::test]
async fn a_modern_request_must_agree_with_its_headers() -> anyhow::Result<()> {
    let face = face(1).await?;
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"a"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;
    let later = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2031-01-01","io.modelcontextprotocol/clientCapabilities":{}}}}"#;
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;
    let bare = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    let version = ("mcp-protocol-version", MODERN);
    let called = ("mcp-method", "tools/call");
    type Case<'a> = (&'static str, &'a [(&'a str, &'a str)], u16, &'a str);
    let cases: [Case<'_>; 7] = [
        (call, &[version, called, ("mcp-name", "echo")], 200, r#""text":"a""#),
        (call, &[version, called], 400, "-32020"),
        (call, &[called, ("mcp-name", "echo")], 400, "-32020"),
        (call, &[version, ("mcp-method", "tools/list"), ("mcp-name", "echo")], 400, "-32020"),
        (
            later,
            &[("mcp-protocol-version", "2031-01-01"), ("mcp-method", "tools/list")],
            400,
            "-32022",
        ),
        (ping, &[version, ("mcp-method", "ping")], 404, "-32601"),
        (bare, &[version, ("mcp-method", "tools/list")], 400, "-32602"),
    ];
    for (body, headers, status, words) in cases {
        let answer = post(&face, headers, body).await?;
        let shown = String::from_utf8_lossy(&answer.body).into_owned();
        ensure!(
            answer.status.as_u16() == status && shown.contains(words),
            "{headers:?}: {} {shown}",
            answer.status
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_listen_is_acknowledged_and_held() -> anyhow::Result<()> {
    let face = face(1).await?;
    let body = r#"{"jsonrpc":"2.0","id":"L1","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;
    let headers = [("mcp-protocol-version", MODERN), ("mcp-method", "subscriptions/listen")];
    // The response stream stays open, so reading it to the end must time out.
    let held = tokio::time::timeout(Duration::from_millis(200), post(&face, &headers, body)).await;
    assert!(held.is_err(), "the stream ended");
    let event = replies::acknowledged(br#""L1""#);
    let json: serde_json::Value =
        serde_json::from_slice(event.trim_ascii().strip_prefix(b"data: ").unwrap_or_default())?;
    assert_eq!(json["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], "L1");
    Ok(())
}

#[test]
fn every_reply_is_json() -> anyhow::Result<()> {
    let lists = Lists::new(3);
    let id = br#""a""#;
    let call = [&replies::text_before(id)[..], b"x", replies::MODERN_END.as_bytes()].concat();
    let legacy = [&replies::text_before(id)[..], b"x", replies::LEGACY_END.as_bytes()].concat();
    let all = [
        lists.modern(id),
        lists.legacy(id),
        replies::nothing(id),
        replies::error(id, -1, "no"),
        replies::unreadable(),
        replies::unsupported(id, Some(b"x")),
        replies::discover(id),
        replies::initialized(id, LEGACY),
        call.into(),
        legacy.into(),
    ];
    for bytes in all {
        let value: serde_json::Value = serde_json::from_slice(&bytes)?;
        assert_eq!(value["jsonrpc"], "2.0");
    }
    Ok(())
}
