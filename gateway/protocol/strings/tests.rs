//! Tests of `strings`: escapes hide nothing, unchanged text is kept.

use super::*;

fn rewritten(text: &str) -> Option<String> {
    let mut change = |place: StringRole<'_>, text: &str| {
        (place != StringRole::Key && text.contains("SECRET")).then(|| "\"x\"".into())
    };
    rewrite(text.as_bytes(), &mut change).map(|out| String::from_utf8(out).unwrap())
}

#[test]
fn strings_are_seen_decoded_and_written_encoded() {
    let cases = [
        (
            r#"{"a": "\u0053ECRET", "b":[ "SEC\u0052ET" ,1] }"#,
            r#"{"a": "\"x\"", "b":[ "\"x\"" ,1] }"#,
        ),
        (r#"["\"SECRET\\"]"#, r#"["\"x\""]"#),
        (r#""SECRET""#, r#""\"x\"""#),
    ];
    for (text, out) in cases {
        assert_eq!(rewritten(text).as_deref(), Some(out));
    }
    for text in [r#"{"SECRET": "a\\", "b": "\"" }"#, "1", "", r#"{"a": "#, r#"["SECRET"#, r#"["\"#]
    {
        assert_eq!(rewritten(text), None, "{text}");
    }
}

#[test]
fn a_value_knows_its_member() {
    let mut seen = Vec::new();
    let text = br#"["z", {"a": "1", "b\u0063" : ["2", {"c":"3"}]}]"#;
    let _ = rewrite(text, &mut |place, text| {
        if let StringRole::Value(key) = place {
            seen.push(format!("{key}={text}"));
        }
        None
    });
    assert_eq!(seen, ["=z", "a=1", "bc=2", "c=3"]);
}
