//! Tests of `strict`.

use serde_json::json;

use super::read;

#[test]
fn ordinary_json_is_read_as_it_is() {
    let text = r#"{"a":[1,-2,2.5,null,true,"x\n"],"b":{"c":{}},"n":18446744073709551615}"#;
    let expected = json!({"a": [1, -2, 2.5, null, true, "x\n"], "b": {"c": {}}, "n": u64::MAX});
    assert_eq!(read(text.as_bytes()), Ok(expected));
}

#[test]
fn a_key_twice_is_refused_at_any_depth_and_however_it_is_written() {
    for text in [r#"{"a":1,"a":1}"#, r#"{"x":[{"a":1,"b":2,"a":3}]}"#, r#"{"a":1,"\u0061":2}"#] {
        assert_eq!(read(text.as_bytes()), Err("the key `a` stands there twice".into()), "{text}");
    }
}

#[test]
fn what_is_no_json_or_too_deep_is_refused() {
    assert!(read(b"{} {}").is_err());
    assert!(read(b"{").is_err());
    assert!(read("[".repeat(10_000).as_bytes()).is_err());
    let nested = format!("{}{}", "[".repeat(65), "]".repeat(65));
    assert_eq!(read(nested.as_bytes()), Err("it is nested deeper than 64 levels".into()));
}
