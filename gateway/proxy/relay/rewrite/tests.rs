//! Tests of `rewrite`: each response whole and in pieces of every size.

use lockgate_protocol::scan::StreamScanner;
use serde_json::{Value, json};

use super::*;

fn shape(modern: bool, slug: Option<&str>) -> Shape {
    Shape {
        client_id: Bytes::from_static(b"\"c\""),
        server_id: 7,
        has_ttl: false,
        slug: slug.map(Into::into),
        info: modern.then(|| br#"{"name":"gate"}"#.as_slice().into()),
    }
}

/// Rewrites a response that arrives in pieces of this size.
fn rewritten(shape: Shape, answer: &[u8], size: usize) -> Result<Vec<u8>, RewriteError> {
    let (mut scanner, mut rewriter) = (StreamScanner::new(16), Rewriter::new(shape));
    let mut out = Vec::new();
    for piece in answer.chunks(size) {
        scanner.push(piece, &mut rewriter)?;
        out.extend_from_slice(&rewriter.take_output());
    }
    scanner.finish()?;
    Ok(out)
}

fn answer(result: &str) -> String {
    format!(r#" {{ "result" : {result} , "jsonrpc":"2.0","id": 7 }} "#)
}

/// Returns the result, after checking that it does not depend on the size of the pieces.
fn result(shape: &Shape, result: &str) -> Value {
    let answer = answer(result);
    let whole = rewritten(shape.clone(), answer.as_bytes(), answer.len()).unwrap();
    for size in 1..answer.len() {
        let cut = rewritten(shape.clone(), answer.as_bytes(), size).unwrap();
        assert_eq!(
            String::from_utf8(cut).unwrap(),
            String::from_utf8(whole.clone()).unwrap(),
            "in pieces of {size}"
        );
    }
    let whole: Value = serde_json::from_slice(&whole).unwrap();
    assert_eq!((&whole["jsonrpc"], &whole["id"]), (&json!("2.0"), &json!("c")));
    whole["result"].clone()
}

const META: &str = r#"{"a/b":1,"io.modelcontextprotocol/serverInfo":{"name":"server"},"lockgate/x":2,"baggage":"z"}"#;

#[test]
fn a_result_gets_the_envelope_of_its_clients_era() {
    let text = format!(
        r#"{{"_meta":{META},"resultType":"complete","content":[{{"type":"text","text":"a\"\\é"}}],"isError":true,"ttlMs":5,"cacheScope":"public","x":[1,{{}},[]]}}"#
    );
    let content = json!([{"type": "text", "text": "a\"\\é"}]);
    let ours = json!({"io.modelcontextprotocol/serverInfo": {"name": "gate"}, "a/b": 1});
    let modern = json!({"resultType": "complete", "content": content, "isError": true, "x": [1, {}, []], "_meta": ours});
    assert_eq!(result(&shape(true, None), &text), modern);
    let legacy =
        json!({"content": content, "isError": true, "x": [1, {}, []], "_meta": {"a/b": 1}});
    assert_eq!(result(&shape(false, None), &text), legacy);
    assert_eq!(result(&shape(false, None), r#"{"content":[]}"#), json!({"content": []}));
    assert_eq!(result(&shape(false, None), "{}"), json!({}));
    let read = Shape { has_ttl: true, ..shape(true, None) };
    let kept = result(&read, r#"{"contents":[],"ttlMs":60}"#);
    assert_eq!((&kept["ttlMs"], &kept["cacheScope"]), (&json!(60), &json!("private")));
    assert_eq!(result(&read, r#"{"contents":[],"ttlMs":"x"}"#)["ttlMs"], json!(0));
}

#[test]
fn uris_of_blocks_are_namespaced_and_no_others() {
    let text = r#"{"content":[
        {"type":"text","text":"t","uri":"file:///a"},
        {"uri":"file:///b","name":"n","type":"resource_link"},
        {"type":"resource","resource":{"uri":"file:///c","text":"t","x":{"uri":"file:///d"}},"uri":"file:///e"},
        {"resource":[{"uri":"file:\/\/\/f"}]},
        {"type":"resource_link","uri":5},"uri"],
      "contents":[{"blob":"QQ==","uri":"https://x.example/g"},{"uri":"data:,"}],
      "messages":[{"role":"user","content":{"type":"resource","resource":{"uri":"file:///h"}}}],
      "other":{"uri":"file:///i"},"structuredContent":{"uri":"file:///j"}}"#;
    let expected = json!({
        "content": [
            {"type": "text", "text": "t", "uri": "file:///a"},
            {"uri": "s+file:///b", "name": "n", "type": "resource_link"},
            {"type": "resource", "resource": {"uri": "s+file:///c", "text": "t", "x": {"uri": "file:///d"}}, "uri": "file:///e"},
            {"resource": [{"uri": "s+file:///f"}]},
            {"type": "resource_link", "uri": 5}, "uri",
        ],
        "contents": [{"blob": "QQ==", "uri": "https://x.example/g"}, {"uri": "s+data:,"}],
        "messages": [{"role": "user", "content": {"type": "resource", "resource": {"uri": "s+file:///h"}}}],
        "other": {"uri": "file:///i"}, "structuredContent": {"uri": "file:///j"},
    });
    assert_eq!(result(&shape(false, Some("s")), text), expected);
    let own: Value = serde_json::from_str(text).unwrap();
    assert_eq!(result(&shape(false, None), text), own);
}

#[test]
fn legacy_clients_get_structured_content_that_is_an_object() {
    let text = |content| format!(r#"{{"structuredContent":{content},"content":[]}}"#);
    for content in ["[1]", "\"x\"", "null", "-1.5e3"] {
        assert_eq!(result(&shape(false, None), &text(content)), json!({"content": []}));
        assert!(result(&shape(true, None), &text(content)).get("structuredContent").is_some());
    }
    assert_eq!(
        result(&shape(false, None), &text("{\"a\":[]}"))["structuredContent"],
        json!({"a": []})
    );
}

#[test]
fn what_is_no_result_for_us_is_refused() {
    let error = |answer: &str| rewritten(shape(true, Some("s")), answer.as_bytes(), 3).unwrap_err();
    let envelope = |members: &str| error(&format!("{{{members}}}"));
    assert_eq!(envelope(r#""jsonrpc":"2.0","id":8,"result":{}"#), RewriteError::OtherId);
    assert_eq!(envelope(r#""jsonrpc":"2.0","id":"7","result":{}"#), RewriteError::OtherId);
    assert_eq!(envelope(r#""jsonrpc":"2.0","result":{}"#), RewriteError::OtherId);
    assert_eq!(envelope(r#""jsonrpc":"1.0","id":7,"result":{}"#), RewriteError::Version);
    assert_eq!(envelope(r#""id":7,"result":{}"#), RewriteError::Version);
    assert_eq!(envelope(r#""jsonrpc":"2.0","id":7"#), RewriteError::NotResult);
    assert_eq!(envelope(r#""jsonrpc":"2.0","id":7,"result":[]"#), RewriteError::NotResult);
    assert_eq!(envelope(r#""jsonrpc":"2.0","id":7,"result":1"#), RewriteError::NotResult);
    assert_eq!(
        envelope(r#""jsonrpc":"2.0","id":7,"result":{},"error":{}"#),
        RewriteError::NotResult
    );
    assert_eq!(
        envelope(r#""jsonrpc":"2.0","id":7,"result":{},"result":{}"#),
        Fault::Duplicate.into()
    );
    assert_eq!(envelope(r#""jsonrpc":"2.0","id":7,"id":7"#), Fault::Duplicate.into());
    assert_eq!(error("[]"), Fault::NotObject.into());
    let within = |result: &str| error(&answer(result));
    assert_eq!(within(r#"{"content":[],"resultType":"task"}"#), RewriteError::OtherKind);
    assert_eq!(within(r#"{"content":[],"inputRequests":{}}"#), RewriteError::OtherKind);
    assert_eq!(within(r#"{"content":[],"\u0063ontent":[]}"#), Fault::Duplicate.into());
    assert_eq!(within(r#"{"content":[{"uri":"a","uri":"b"}]}"#), Fault::Duplicate.into());
    assert_eq!(within(r#"{"content":[1 2]}"#), Fault::Syntax.into());
    let many: Vec<_> = (0..129).map(|n| format!("\"m{n}\":1")).collect();
    assert_eq!(within(&format!("{{{}}}", many.join(","))), Fault::Members.into());
    assert_eq!(within(&format!("{{\"{}\":1}}", "k".repeat(2000))), Fault::Length.into());
    assert_eq!(
        within(&format!("{{\"_meta\":{{\"a\":\"{}\"}}}}", "k".repeat(70_000))),
        Fault::Length.into()
    );
}

#[test]
fn an_answer_is_passed_on_from_within_its_content() {
    let begins = |start: &str| {
        let (mut scanner, mut rewriter) =
            (StreamScanner::new(16), Rewriter::new(shape(true, Some("s"))));
        scanner.push(start.as_bytes(), &mut rewriter).is_ok() && rewriter.is_within_content()
    };
    assert!(begins(r#"{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"xx"#));
    assert!(begins(r#"{"result":{"content":[{"text":"xx"#));
    assert!(begins(r#"{"result":{"structuredContent":{"a":"#));
    assert!(begins(r#"{"result":{"structuredContent":"xx"#));
    assert!(!begins(r#"{"result":{"content":[]"#));
    assert!(!begins(r#"{"result":{"_meta":{"a":"xx"#));
    assert!(!begins(r#"{"x":"xx"#));
    assert!(!begins(r#"{"id":8,"result":{"content":[{"text":"xx"#));
    assert!(!begins(r#"{"jsonrpc":"2.0","id":7,"error":{"message":"xx"#));
}
