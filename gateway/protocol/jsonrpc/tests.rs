//! Tests of `jsonrpc`.

mod wrapped;

use super::*;

fn read(text: &str) -> Result<Message, MessageError> {
    parse(Bytes::copy_from_slice(text.as_bytes()), 64, SentBy::Client)
}

#[test]
fn a_request_is_indexed() {
    let text = r#"{"jsonrpc":"2.0","id":"q7","method":"tools/call","params":{"name":"a","arguments":{"x":[1]},"_meta":{"progressToken":3,"a\/b":"c"}}}"#;
    let Ok(Message::Request(r)) = read(text) else { panic!("not a request") };
    assert_eq!((r.id(), r.method), (&b"\"q7\""[..], Method::ToolsCall));
    assert_eq!(r.param_str(Key::Name).unwrap(), "a");
    assert_eq!(r.param(Key::Arguments).unwrap(), br#"{"x":[1]}"#);
    assert_eq!(r.meta(Key::ProgressToken).unwrap(), b"3");
    assert_eq!(scan::find_str(r.meta_members(), &r.text, "a/b").unwrap(), "c");
}

#[test]
fn ids_keep_their_type_and_bad_ones_are_refused() {
    for id in ["1", "-1", "\"1\"", "0", "18446744073709551616"] {
        let Ok(Message::Request(r)) =
            read(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#))
        else {
            panic!("{id}")
        };
        assert_eq!(r.id(), id.as_bytes());
    }
    let long = format!("\"{}\"", "x".repeat(MAX_ID));
    for id in ["null", "1.5", "1e2", "true", "[]", "{}", long.as_str()] {
        let refusal =
            read(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#)).unwrap_err();
        assert_eq!(refusal, MessageError::Invalid { what: EnvelopeError::Id, id: None }, "{id}");
    }
}

#[test]
fn broken_messages_are_refused_for_the_right_reason() {
    let what = |text: &str| match read(text).unwrap_err() {
        MessageError::Parse(_) => "parse".to_owned(),
        MessageError::Invalid { what, .. } => what.to_string(),
    };
    assert_eq!(what("{"), "parse");
    assert_eq!(what(r#"{"jsonrpc":"2.0","id":1,"method":"x"} x"#), "parse");
    assert_eq!(what("[]"), EnvelopeError::Batch.to_string());
    assert_eq!(what("[{]"), "parse");
    assert!(what("1").starts_with("not an object"));
    assert_eq!(what(r#"{"id":1,"method":"x"}"#), EnvelopeError::Version.to_string());
    assert_eq!(what(r#"{"jsonrpc":"2.0","id":1,"method":7}"#), EnvelopeError::Method.to_string());
    assert_eq!(what(r#"{"jsonrpc":"2.0","id":1}"#), EnvelopeError::Shape.to_string());
    assert_eq!(
        what(r#"{"jsonrpc":"2.0","id":1,"method":"x","result":{}}"#),
        EnvelopeError::Shape.to_string()
    );
    assert_eq!(
        what(r#"{"jsonrpc":"2.0","id":1,"method":"x","params":[]}"#),
        EnvelopeError::Params.to_string()
    );
    assert_eq!(
        what(r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"_meta":1}}"#),
        EnvelopeError::Meta.to_string()
    );
    assert!(
        what(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","Name":"b"}}"#)
            .starts_with("keys that differ")
    );
    assert!(
        what(
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","Arguments":{}}}"#
        )
        .starts_with("keys that differ")
    );
    assert!(what(r#"{"jsonrpc":"2.0","id":1,"Method":"x"}"#).starts_with("keys that differ"));
    assert!(what(r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"x"}"#).starts_with("duplicate key"));
    assert!(
        what(r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"_meta":{"a":1,"A":1}}}"#)
            .starts_with("keys that differ")
    );
}

#[test]
fn an_invalid_request_still_says_its_id() {
    let text = r#"{"jsonrpc":"2.0","id":5,"method":"x","params":{"a":1,"a":2}}"#;
    let MessageError::Invalid { id: Some(id), .. } = read(text).unwrap_err() else {
        panic!("no id")
    };
    assert_eq!(id.of(text.as_bytes()), b"5");
}

#[test]
fn responses_are_read() {
    let text = r#"{"jsonrpc":"2.0","id":71,"result":{"content":[],"résumé":1}}"#;
    let Message::Response(r) = parse(Bytes::from(text), 64, SentBy::Server).unwrap() else {
        panic!()
    };
    assert_eq!(r.number(), Some(71));
    let Outcome::Result(_, members) = &r.outcome else { panic!() };
    assert_eq!(scan::find(members, &r.text, "content").unwrap().of(&r.text), b"[]");
    let text = r#"{"jsonrpc":"2.0","error":{"code":-32601,"message":"no \"x\"","data":{"a":1}}}"#;
    let Message::Response(r) = parse(Bytes::from(text), 64, SentBy::Server).unwrap() else {
        panic!()
    };
    let Outcome::Error(e) = r.outcome else { panic!() };
    assert_eq!(
        (e.code, &*e.message(&r.text), e.data(&r.text)),
        (-32601, "no \"x\"", Some(&br#"{"a":1}"#[..]))
    );
    assert_eq!(r.id(), None);
}

#[test]
fn batches_are_split_up_to_a_bound() {
    let text = Bytes::from_static(b" [ {\"a\":1} , 2 ] ");
    assert_eq!(split_batch(&text, 64, 2).unwrap(), [&b"{\"a\":1}"[..], b"2"]);
    assert_eq!(split_batch(&text, 64, 1).unwrap_err().what, Fault::Members);
}
