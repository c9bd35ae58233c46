//! Tests of wrapped calls.

use bytes::Bytes;

use crate::jsonrpc::{Message, Request, SentBy, parse};
use crate::key::Key;
use crate::outbound::Outbound;

fn request(params: &str) -> Request {
    let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
    match parse(Bytes::from(text), 64, SentBy::Client) {
        Ok(Message::Request(request)) => request,
        other => panic!("{other:?}"),
    }
}

fn sent(request: &Request) -> String {
    let outbound = Outbound { request: Some(request), target: Some("own"), ..Outbound::default() };
    let text = outbound.text(7, request.method);
    String::from_utf8(text.to_vec()).unwrap()
}

/// A wrapped call reads and is forwarded like the direct call, whatever stands around it.
#[test]
fn a_wrapped_call_is_the_direct_call() {
    for arguments in [Some(r#"{"a": [1, {"name": "x"}]}"#), Some("{}"), None] {
        for rest in
            [r#""_meta":{"k":1}"#, r#""requestState":"s","inputResponses":{}"#, r#""task":{}"#]
        {
            let inner = match arguments {
                Some(arguments) => format!(r#""name": "t\u0031" , "arguments" : {arguments}"#),
                None => r#""name":"t\u0031""#.to_owned(),
            };
            let direct = request(&format!("{{{inner},{rest}}}"));
            let mut wrapped =
                request(&format!(r#"{{"name":"call_tool","arguments":{{ {inner} }},{rest}}}"#));
            wrapped.unwrap_call().unwrap();
            assert_eq!(wrapped.param_str(Key::Name).unwrap(), "t1");
            assert_eq!(wrapped.param(Key::Arguments), direct.param(Key::Arguments));
            assert_eq!(wrapped.meta_members().len(), direct.meta_members().len());
            assert_eq!(sent(&wrapped), sent(&direct));
        }
    }
}

#[test]
fn other_arguments_are_mistakes() {
    for (arguments, mistake) in [
        ("", "must have the `name`"),
        (r#","arguments":[]"#, "`arguments`: "),
        (r#","arguments":{}"#, "must have the `name`"),
        (r#","arguments":{"arguments":{}}"#, "must have the `name`"),
        (r#","arguments":{"name":7}"#, "must have the `name`"),
        (r#","arguments":{"name":"t","Name":"u"}"#, "`arguments`: "),
        (r#","arguments":{"name":"t","_meta":{}}"#, "unknown member \"_meta\""),
        (r#","arguments":{"name":"t","task":{}}"#, "unknown member \"task\""),
    ] {
        let mut request = request(&format!(r#"{{"name":"call_tool"{arguments}}}"#));
        let before = sent(&request);
        let words = request.unwrap_call().unwrap_err();
        assert!(words.contains(mistake), "{arguments}: {words}");
        assert_eq!(sent(&request), before);
    }
}
