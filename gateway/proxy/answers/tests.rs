//! Tests of `answers`.

use serde_json::json;

use super::*;

fn asked() -> Questions {
    let schema = json!({"type": "object", "required": ["ok"], "properties": {
        "ok": {"type": "boolean", "title": "Sure?", "description": "long words that nobody needs to remember"},
        "name": {"type": "string", "minLength": 1, "maxLength": 4},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "share": {"type": "number"},
        "plain": {"type": "string", "enum": ["a", "b"]},
        "titled": {"type": "string", "oneOf": [{"const": "x", "title": "X"}, {"const": "y", "title": "Y"}]},
        "some": {"type": "array", "maxItems": 2, "items": {"anyOf": [{"const": "p", "title": "P"}, {"const": "q"}]}},
    }});
    let requests = json!({
        "form": {"method": "elicitation/create", "params": {"message": "m", "requestedSchema": schema}},
        "url": {"method": "elicitation/create", "params": {"mode": "url", "message": "m", "url": "https://x.example/"}},
        "model": {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 5}},
        "folders": {"method": "roots/list"},
    });
    let asked = Questions::of(requests.to_string().as_bytes()).unwrap();
    let sealed = serde_json::to_string(&asked).unwrap();
    assert!(!sealed.contains("nobody needs") && !sealed.contains("title\":"), "{sealed}");
    let again = serde_json::from_str(&sealed).unwrap();
    assert_eq!(again, asked);
    again
}

fn take(key: &str, answer: &Value) -> Result<Value, String> {
    let taken = asked().take(json!({key: answer}).to_string().as_bytes())?;
    Ok(serde_json::from_slice::<Value>(&taken).unwrap()[key].clone())
}

#[test]
fn what_was_asked_is_taken_and_nothing_else_of_it() {
    let content = json!({"ok": true, "name": "Ada", "age": 36, "share": 0.5, "plain": "b", "titled": "y", "some": ["q", "p"]});
    let sampled = json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": "t"}, "stopReason": "endTurn"});
    for (key, answer, taken) in [
        (
            "form",
            json!({"action": "accept", "content": content, "extra": 1, "_meta": {"a": 1}}),
            json!({"action": "accept", "content": content}),
        ),
        (
            "form",
            json!({"action": "accept", "content": {"ok": true, "other": {"deep": 1}}}),
            json!({"action": "accept", "content": {"ok": true}}),
        ),
        (
            "form",
            json!({"action": "decline", "content": {"any": {}}}),
            json!({"action": "decline"}),
        ),
        ("form", json!({"action": "cancel"}), json!({"action": "cancel"})),
        ("url", json!({"action": "accept", "content": {"ok": true}}), json!({"action": "accept"})),
        ("model", sampled.clone(), sampled),
        (
            "model",
            json!({"role": "user", "model": "m", "content": [{"type": "text", "text": "t"}], "x": 1}),
            json!({"role": "user", "content": [{"type": "text", "text": "t"}], "model": "m"}),
        ),
        (
            "folders",
            json!({"roots": [{"uri": "file:///a", "name": "A", "secret": 1}]}),
            json!({"roots": [{"uri": "file:///a", "name": "A"}]}),
        ),
        ("folders", json!({"roots": []}), json!({"roots": []})),
        ("never", json!({"action": "accept"}), Value::Null),
    ] {
        assert_eq!(take(key, &answer), Ok(taken), "{key} {answer}");
    }
    let exact =
        br#"{"form":{"action":"accept","content":{"ok":true,"share":1.50000000000000000001}}}"#;
    assert_eq!(asked().take(exact).unwrap(), exact, "numbers stay as they were written");
    assert_eq!(asked().take(b"{}").unwrap(), b"{}", "what is missing is asked again by the server");
}

#[test]
fn what_does_not_fit_is_refused() {
    let form = |content: Value| ("form", json!({"action": "accept", "content": content}));
    for (key, answer) in [
        ("form", json!(7)),
        ("form", json!([])),
        ("form", json!({})),
        ("form", json!({"action": "maybe"})),
        ("form", json!({"action": 1})),
        ("form", json!({"action": "accept"})),
        ("form", json!({"action": "accept", "content": []})),
        form(json!({})),
        form(json!({"ok": "true"})),
        form(json!({"ok": true, "name": ""})),
        form(json!({"ok": true, "name": "longer"})),
        form(json!({"ok": true, "name": {"deep": 1}})),
        form(json!({"ok": true, "age": 1.5})),
        form(json!({"ok": true, "age": -1})),
        form(json!({"ok": true, "age": 151})),
        form(json!({"ok": true, "share": "1"})),
        form(json!({"ok": true, "plain": "c"})),
        form(json!({"ok": true, "titled": "X"})),
        form(json!({"ok": true, "some": "p"})),
        form(json!({"ok": true, "some": ["z"]})),
        form(json!({"ok": true, "some": ["p", "q", "p"]})),
        ("url", json!({"action": "yes"})),
        ("url", json!({"role": "user"})),
        ("model", json!({"action": "accept"})),
        ("model", json!({"role": "system", "model": "m", "content": {"type": "text"}})),
        ("model", json!({"role": "user", "content": {"type": "text"}})),
        ("model", json!({"role": "user", "model": "m", "content": "text"})),
        ("model", json!({"role": "user", "model": "m", "content": [{"text": "t"}]})),
        (
            "model",
            json!({"role": "user", "model": "m", "content": {"type": "text"}, "stopReason": 3}),
        ),
        ("folders", json!({"roots": {}})),
        ("folders", json!({"roots": [{"uri": "https://x.example/"}]})),
        ("folders", json!({"roots": [{"uri": "file:///a", "name": 1}]})),
        ("folders", json!({})),
    ] {
        assert!(take(key, &answer).is_err(), "{key} {answer}");
    }
    assert!(asked().take(b"[]").is_err());
    assert!(
        asked().take(br#"{"form":{"action":"accept","action":"decline"}}"#).is_err(),
        "twice the same member"
    );
}

#[test]
fn what_no_token_can_remember_is_not_asked() {
    let many: Vec<String> = (0..2000).map(|at| format!("choice {at}")).collect();
    let schema = json!({"type": "object", "properties": {"one": {"type": "string", "enum": many}}});
    let requests =
        json!({"form": {"method": "elicitation/create", "params": {"requestedSchema": schema}}});
    assert_eq!(Questions::of(requests.to_string().as_bytes()), None);
    assert_eq!(Questions::of(br#"{"x":{"method":"tools/call"}}"#), None);
    assert_eq!(Questions::of(b"[]"), None);
}

#[test]
fn answers_within_a_task_are_answers_to_something() {
    let take = |answer: Value| take_unremembered(json!({"k": answer}).to_string().as_bytes());
    assert!(take(json!({"action": "accept", "content": {"any": "thing", "list": ["a"]}})).is_ok());
    assert!(take(json!({"roots": [{"uri": "file:///a"}]})).is_ok());
    assert!(take(json!({"role": "user", "model": "m", "content": {"type": "text"}})).is_ok());
    for odd in [
        json!(1),
        json!("text"),
        json!({}),
        json!({"action": "x"}),
        json!({"action": "accept", "content": {"deep": {}}}),
    ] {
        assert_eq!(take(odd.clone()).unwrap(), b"{}", "{odd}");
    }
}
