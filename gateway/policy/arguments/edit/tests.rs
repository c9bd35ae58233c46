//! Tests of `edit`: text and tree have the same result, in one pass over the text.

use std::time::Duration;

use serde_json::json;

use super::*;
use crate::sql::thread_time;

fn edits(all: &[(&str, Value)]) -> Vec<Edit> {
    let steps = |at: &str| at.split('/').skip(1).map(str::to_owned).collect();
    all.iter().map(|(at, value)| Edit { at: steps(at), value: value.clone() }).collect()
}

fn text(before: &str, all: &[(&str, Value)]) -> Option<String> {
    write(Some(before.as_bytes()), &edits(all)).map(|after| String::from_utf8(after).unwrap())
}

#[test]
fn everything_else_stays_byte_for_byte() {
    let before =
        r#"{ "a" : [1.0, {"b": 1e2, "\u0063":"\u00e4"}, 3 ], "d": 10000000000000000000000 }"#;
    for (all, after) in [
        (vec![], before),
        (
            vec![("/a/1/b", json!(7))],
            r#"{"a":[1.0,{"b":7,"c":"\u00e4"},3],"d":10000000000000000000000}"#,
        ),
        (
            vec![("/a/2", json!(4)), ("/new", json!({})), ("/a/0", json!(2)), ("/new/x", json!(1))],
            r#"{"a":[2,{"b": 1e2, "\u0063":"\u00e4"},4],"d":10000000000000000000000,"new":{"x":1}}"#,
        ),
        // The last edit takes precedence and discards the edits inside its value.
        (
            vec![("/a/1/b", json!(7)), ("/a", json!([5])), ("/a/0", json!(6)), ("/d", json!(1))],
            r#"{"a":[6],"d":1}"#,
        ),
        (vec![("/d", json!(1)), ("", json!({"z": 1})), ("/y", json!(2))], r#"{"z":1,"y":2}"#),
    ] {
        assert_eq!(text(before, &all).as_deref(), Some(after), "{all:?}");
        let mut tree: Value = serde_json::from_str(before).unwrap();
        assert!(edits(&all).iter().all(|edit| put(&mut tree, &edit.at, &edit.value)));
        assert_eq!(serde_json::from_str::<Value>(after).unwrap(), tree, "{all:?}");
    }
}

#[test]
fn what_edits_were_not_made_for_is_refused() {
    for at in ["/a/3", "/a/x", "/a/1/b/c", "/x/y", "/d/e"] {
        assert_eq!(text(r#"{"a": [1, {"b": 1}], "d": 1}"#, &[(at, json!(1))]), None, "{at}");
    }
    assert_eq!(write(None, &edits(&[("/a", json!(1))])).as_deref(), Some(br#"{"a":1}"#.as_slice()));
}

#[test]
fn an_edit_of_every_item_takes_one_pass() {
    let before = format!(r#"{{"a":[{}1]}}"#, r#""x","#.repeat(100_000));
    let all: Vec<Edit> = (0..100_000)
        .map(|n| Edit { at: vec!["a".into(), n.to_string()], value: json!("y") })
        .collect();
    let began = thread_time();
    let after = write(Some(before.as_bytes()), &all).unwrap();
    let took = thread_time() - began;
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert_eq!(String::from_utf8(after).unwrap(), before.replace('x', "y"));
}
