//! Tests of `json`.

use serde_json::json;

use super::*;

/// A reader that ignores the case of keys and rejects keys that begin with `_` at the top level.
const LOOSE: Reader = Reader {
    depth: 3,
    members: 4,
    key: |key, outermost| {
        if outermost && key.starts_with('_') {
            Err("no such key at the top")
        } else {
            Ok(key.to_lowercase())
        }
    },
};

#[test]
fn ordinary_json_is_read_as_it_is() {
    let text =
        r#" {"a":[1,-2,2.5,null,true,"\u0041\n"],"b":{"a":{"a":{}}},"n":18446744073709551615} "#;
    let expected =
        json!({"a": [1, -2, 2.5, null, true, "A\n"], "b": {"a": {"a": {}}}, "n": u64::MAX});
    assert_eq!(Reader::exact(64).read(text.as_bytes()), Ok(expected));
}

#[test]
fn a_key_twice_is_refused_at_any_depth_and_however_it_is_written() {
    for text in [r#"{"a":1,"a":1}"#, r#"{"x":[{"a":1,"b":2,"a":3}]}"#, r#"{"a":1,"\u0061":2}"#] {
        assert_eq!(
            Reader::exact(64).read(text.as_bytes()),
            Err("the key `a` occurs twice".into()),
            "{text}"
        );
    }
    assert!(Reader::exact(64).read(br#"{"a":1,"A":1}"#).is_ok());
}

#[test]
fn what_is_no_json_or_too_deep_is_refused() {
    for text in ["{} {}", "{", "", "[1,]", "\"\u{1}\"", "1e999"] {
        assert!(Reader::exact(64).read(text.as_bytes()).is_err(), "{text}");
    }
    assert!(Reader::exact(64).read(b"{\"a\": \"\xff\"}").is_err());
    assert!(Reader::exact(64).read("[".repeat(10_000).as_bytes()).is_err());
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(Reader::exact(64).read(nested(64).as_bytes()).is_ok());
    assert_eq!(
        Reader::exact(64).read(nested(65).as_bytes()),
        Err("it is nested deeper than 64 levels".into())
    );
    assert!(Reader::exact(MAX_DEPTH).read(nested(MAX_DEPTH).as_bytes()).is_ok());
}

#[test]
fn a_reader_may_refuse_keys_and_compare_them_otherwise() {
    for (text, words) in [
        (r#"{"a":{"_b":1}}"#, None),
        (r#"{"_b":1}"#, Some("no such key at the top")),
        (r#"{"a":{"b":1,"B":2}}"#, Some("the key `B` occurs twice")),
        (r#"{"a":1,"b":2,"c":3,"d":4}"#, None),
        (r#"{"a":1,"b":2,"c":3,"d":4,"e":5}"#, Some("too many members")),
        ("[[[1]]]", None),
        ("[[[[1]]]]", Some("nested deeper than 3 levels")),
    ] {
        let read = LOOSE.read(text.as_bytes());
        assert_eq!(read.is_ok(), words.is_none(), "{text}: {read:?}");
        assert!(words.is_none_or(|words| read.unwrap_err().contains(words)), "{text}");
    }
}

#[test]
fn what_is_checked_is_what_is_read_and_nothing_of_it_is_kept() {
    let reader = Reader::exact(3);
    for text in
        ["{\"a\": [1, \"b\"]}", "[1]", "\"text\"", "{\"a\":1,\"a\":2}", "[[[[1]]]]", "{", ""]
    {
        let read = reader.read(text.as_bytes()).map(|_| ());
        assert_eq!(reader.check(text.as_bytes()).map(|_| ()), read, "{text}");
    }
    assert_eq!(reader.check(b"{\"a\": [1, \"b\"]}"), Ok(Value::Object(Map::new())));
    assert_eq!(reader.check(b"[1, 2]"), Ok(Value::Array(Vec::new())));
}

/// Returns a text in which each level is a text within the next.
fn texts_within_texts(levels: usize) -> String {
    let mut text = "1".to_owned();
    for _ in 0..levels {
        let escaped = text.replace('\\', r"\u005c").replace('"', r"\u0022");
        text = format!(r#"{{"{RESERVED_KEY}":"{escaped}"}}"#);
    }
    text
}

#[test]
fn texts_within_texts_are_refused() {
    let text = texts_within_texts(3);
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), 1, "serde_json parses all of them");
    for text in [
        text.clone(),
        texts_within_texts(40),
        format!("[{{\"a\": {text}}}]"),
        text.replacen("RawValue\":", "RawValue\" \n:", 1),
        text.replacen('$', r"\u0024", 1),
        text.replacen("RawValue", r"\u0052awValu\u0065", 1),
        text.replacen("RawValue", r"RawValu\u0065", 1),
    ] {
        let error = from_str::<Value>(&text).unwrap_err().to_string();
        assert!(error.contains("is reserved"), "{text}: {error}");
        assert!(from_slice::<Value>(text.as_bytes()).is_err());
        assert!(Reader::exact(64).read(text.as_bytes()).unwrap_err().contains("is reserved"));
    }
}

#[test]
fn the_reserved_key_is_a_text_like_any_other_elsewhere() {
    for text in [
        format!(r#"["{RESERVED_KEY}", "\u00e9\" :"]"#),
        format!(r#"{{"a": "{RESERVED_KEY}", "\\": "\"{RESERVED_KEY}\":"}}"#),
        r#"{"$serde_json::private::Number": "1", "RawValue": "\u0041"}"#.to_owned(),
    ] {
        let parsed: Value = from_str(&text).unwrap();
        assert_eq!(parsed, serde_json::from_str::<Value>(&text).unwrap());
        assert_eq!(Reader::exact(64).read(text.as_bytes()), Ok(parsed));
    }
}
