//! Tests of `pointer`: ambiguous input is refused, even in arguments that no rule names.

use super::*;

#[test]
fn what_readers_disagree_on_is_refused() {
    let nested = |depth: usize| format!("{{\"a\":{}1{}}}", "[".repeat(depth), "]".repeat(depth));
    let members = |count: usize| {
        let all: Vec<String> = (0..count).map(|n| format!("\"a{n}\":1")).collect();
        format!("{{\"o\":{{{}}}}}", all.join(","))
    };
    for (text, why) in [
        (r#"{"a\u0000": 1}"#.to_owned(), "control characters"),
        (r#"{"o": {"a\n": 1}}"#.to_owned(), "control characters"),
        (r#"{"\u017fql": 1}"#.to_owned(), "read as others"),
        (r#"{"o": [{"\u017fql": 1}]}"#.to_owned(), "read as others"),
        (r#"{"o": {"\u212aey": 1}}"#.to_owned(), "read as others"),
        (r#"{"é": 1}"#.to_owned(), "read as others"),
        (r#"{"a": 1, "a": 1}"#.to_owned(), "`a` occurs twice"),
        (r#"{"a": 1, "A": 1}"#.to_owned(), "`A` occurs twice"),
        (r#"{"o": [{"é": 1, "É": 1}]}"#.to_owned(), "`É` occurs twice"),
        (r#"{"a": 1} {"a": 2}"#.to_owned(), "trailing characters"),
        (nested(MAX_DEPTH), "nested deeper than 64 levels"),
        (members(MAX_MEMBERS + 1), "too many members"),
        ("[]".to_owned(), "must be an object"),
        ("null".to_owned(), "must be an object"),
    ] {
        let refusal = read(Some(text.as_bytes())).unwrap_err().0;
        let shown: String = text.chars().take(40).collect();
        assert!(refusal.contains(why), "{shown}: {refusal}");
    }
    for text in [
        r#"{"o": {"é": 1, "a": {"a": 1}}, "a b": 1}"#.to_owned(),
        nested(MAX_DEPTH - 1),
        members(MAX_MEMBERS),
    ] {
        assert!(read(Some(text.as_bytes())).is_ok());
    }
    assert_eq!(read(None), Ok(Value::Object(Map::new())));
}
