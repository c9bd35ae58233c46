//! Tests of `header`.

#![allow(clippy::unwrap_used)]
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

#[test]
fn values_are_encoded_as_the_specification_shows() {
    let table = [
        ("us-west1", "us-west1"),
        ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
        (" padded ", "=?base64?IHBhZGRlZCA=?="),
        ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
        ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        ("", ""),
        ("a b  c", "a b  c"),
        ("~!\"", "~!\""),
        ("a\tb", "=?base64?YQli?="),
        ("\t", "=?base64?CQ==?="),
        (" ", "=?base64?IA==?="),
        ("a\r\nX: y", "=?base64?YQ0KWDogeQ==?="),
        ("\u{7f}", "=?base64?fw==?="),
        ("=?base64?", "=?base64?"),
        ("=?base64?x", "=?base64?x"),
        ("=?BASE64?x?=", "=?BASE64?x?="),
    ];
    for (value, header) in table {
        assert_eq!(encode_value(value), header, "{value:?}");
        assert_eq!(decode_value(header.as_bytes()).unwrap(), value);
    }
}

#[test]
fn decoding_takes_literals_and_refuses_broken_sentinels() {
    let table: [(&[u8], Result<&str, BadSentinel>); 18] = [
        (b"  a b\t", Ok("a b")),
        (b"a\tb", Ok("a\tb")),
        (b" =?base64?YQ==?= ", Ok("a")),
        (b"=?base64??=", Ok("")),
        (b"=?base64?=", Ok("=?base64?=")),
        (b"=?Base64?YQ==?=", Ok("=?Base64?YQ==?=")),
        (b"=?base64?YQ==", Ok("=?base64?YQ==")),
        (b"YQ==?=", Ok("YQ==?=")),
        (b"x=?base64?YQ==?=", Ok("x=?base64?YQ==?=")),
        (b"=?base64?YQ?=", Err(BadSentinel)),
        (b"=?base64?YQ=?=", Err(BadSentinel)),
        (b"=?base64?YR==?=", Err(BadSentinel)),
        (b"=?base64?Y Q==?=", Err(BadSentinel)),
        (b"=?base64?-_-_?=", Err(BadSentinel)),
        (b"=?base64?/w==?=", Err(BadSentinel)),
        (b"a\nb", Err(BadSentinel)),
        ("ä".as_bytes(), Err(BadSentinel)),
        (b"\xff", Err(BadSentinel)),
    ];
    for (header, expected) in table {
        assert_eq!(
            decode_value(header).as_deref(),
            expected.as_ref().copied(),
            "{:?}",
            String::from_utf8_lossy(header)
        );
    }
}

fn read(schema: &Value) -> Result<Vec<(String, String)>, AnnotationFault> {
    let text = schema.to_string();
    let read = ParamHeaders::from_schema(text.as_bytes()).map_err(|e| e.fault);
    read.map(|headers| headers.0.into_iter().map(|h| (h.name, h.path.join("."))).collect())
}

#[test]
fn annotations_on_properties_are_found_at_any_depth() {
    let schema = json!({"type": "object", "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "limit": {"x-mcp-header": "Limit", "type": "integer"},
        "dry": {"type": ["boolean", "null"], "x-mcp-header": "method"},
        "free": {"type": "number"},
        "nested": {"type": "object", "properties": {"properties": {"properties": {
            "deep": {"type": "string", "x-mcp-header": "!#$%&'*+-.^_`|~9aZ"}}}}},
        "x-mcp-header": {"type": "string", "x-mcp-header": "Self"},
        "data": {"type": "string", "default": {"x-mcp-header": "a"}, "enum": [{"x-mcp-header": 1}],
                 "const": {"x-mcp-header": 1}, "examples": [{"x-mcp-header": 1}]},
    }, "required": ["x-mcp-header"]});
    let found = [
        ("Mcp-Param-Region", "region"),
        ("Mcp-Param-Limit", "limit"),
        ("Mcp-Param-method", "dry"),
        ("Mcp-Param-!#$%&'*+-.^_`|~9aZ", "nested.properties.deep"),
        ("Mcp-Param-Self", "x-mcp-header"),
    ];
    assert_eq!(
        read(&schema).unwrap(),
        found.map(|(name, path)| (name.to_owned(), path.to_owned()))
    );
}

#[test]
fn schemas_without_annotations_need_no_headers() {
    for text in [
        "{}",
        "true",
        "",
        "not json",
        r#"{"properties":{"a":{"type":"number"}}}"#,
        r#"{"pattern":"\u0041"}"#,
    ] {
        assert!(ParamHeaders::from_schema(text.as_bytes()).unwrap().is_empty(), "{text}");
    }
    let none = ParamHeaders::from_schema(b"{}").unwrap();
    assert_eq!(none.values(br#"{"a":1}"#), []);
}

#[test]
fn annotations_that_break_a_rule_refuse_the_tool() {
    use AnnotationFault::{Duplicate, Misplaced, Name, NotJson, TooDeep, TooMany, Type};
    let on = |property: Value| json!({"type": "object", "properties": {"a": property}});
    let named = |name: Value| on(json!({"type": "string", "x-mcp-header": name}));
    let good = json!({"type": "string", "x-mcp-header": "A"});
    let two = |a: &str, b: &str| json!({"properties": {"a": {"type": "string", "x-mcp-header": a}, "b": {"properties": {"c": {"type": "string", "x-mcp-header": b}}}}});
    let typed = |kind: Value| on(json!({"type": kind, "x-mcp-header": "A"}));
    let mut deep = good.clone();
    for _ in 0..33 {
        deep = on(deep);
    }
    let many: serde_json::Map<String, Value> = (0..=MAX_HEADERS)
        .map(|n| (format!("p{n}"), json!({"type": "string", "x-mcp-header": format!("H{n}")})))
        .collect();
    let mut table = vec![
        (named(json!("")), Name),
        (named(json!("a b")), Name),
        (named(json!("a:b")), Name),
        (named(json!("ä")), Name),
        (named(json!("a\r\nb")), Name),
        (named(json!("a\u{0}")), Name),
        (named(json!("a".repeat(MAX_NAME + 1))), Name),
        (named(json!(1)), Name),
        (named(json!(null)), Name),
        (named(json!({"x": 1})), Name),
        (two("Region", "Region"), Duplicate),
        (two("MyField", "myfield"), Duplicate),
        (typed(json!("number")), Type),
        (typed(json!("object")), Type),
        (typed(json!("array")), Type),
        (typed(json!("null")), Type),
        (typed(json!(["string", "integer"])), Type),
        (typed(json!(["null"])), Type),
        (typed(json!([])), Type),
        (typed(json!(7)), Type),
        (on(json!({"x-mcp-header": "A"})), Type),
        (on(json!({"$ref": "#/$defs/x", "x-mcp-header": "A"})), Type),
        (json!({"type": "string", "x-mcp-header": "A"}), Misplaced),
        (on(json!({"type": "array", "items": good})), Misplaced),
        (on(json!({"type": "array", "items": [good]})), Misplaced),
        (on(json!({"type": "array", "items": on(good.clone())})), Misplaced),
        (json!({"x-vendor": {"deep": [good]}}), Misplaced),
        (json!({"properties": [good]}), Misplaced),
        (deep, TooDeep),
        (json!({"properties": many}), TooMany),
    ];
    for keyword in ["allOf", "anyOf", "oneOf", "prefixItems"] {
        table.push((json!({keyword: [on(good.clone())]}), Misplaced));
        table.push((on(json!({keyword: [good]})), Misplaced));
    }
    let single = [
        "not",
        "if",
        "then",
        "else",
        "contains",
        "additionalProperties",
        "propertyNames",
        "unevaluatedProperties",
    ];
    for keyword in single {
        table.push((json!({keyword: on(good.clone())}), Misplaced));
        table.push((on(json!({keyword: good})), Misplaced));
    }
    for keyword in ["$defs", "definitions", "patternProperties", "dependentSchemas", "dependencies"]
    {
        table.push((json!({keyword: {"x-mcp-header": good}}), Misplaced));
        table.push((json!({keyword: {"x": on(good.clone())}}), Misplaced));
    }
    for (schema, fault) in table {
        assert_eq!(read(&schema), Err(fault), "{schema}");
    }
    let texts = [
        (
            r#"{"properties":{"a":{"type":"string","x-mcp-header":"A","x-mcp-header":"B"}}}"#,
            Duplicate,
        ),
        (r#"{"properties":{"a":{"type":"string","type":"number","x-mcp-header":"A"}}}"#, Type),
        (
            r#"{"properties":{"a":{"type":"string","x-mcp-header":"A"},"a":{"type":"string","x-mcp-header":"B"}}}"#,
            Duplicate,
        ),
        (r#"{"properties":{"a":{"type":"string","x-mcp-he\u0061der":""}}}"#, Name),
        (r#"{"x-mcp-header":"A""#, NotJson),
        ("\"x-mcp-header\" \u{1}", NotJson),
    ];
    for (text, fault) in texts {
        assert_eq!(ParamHeaders::from_schema(text.as_bytes()).unwrap_err().fault, fault, "{text}");
    }
}

#[test]
fn a_refusal_says_where() {
    let schema =
        json!({"properties": {"a": {"properties": {"b": {"type": "number", "x-mcp-header": "A"}}}}}).to_string();
    let refusal = ParamHeaders::from_schema(schema.as_bytes()).unwrap_err();
    assert_eq!(refusal.at, "a/b");
    let expected =
        "x-mcp-header is on a property that is not of type string, integer or boolean (at \"a/b\")";
    assert_eq!(refusal.to_string(), expected);
}

fn one(path: &[&str]) -> ParamHeaders {
    let mut schema = json!({"type": "string", "x-mcp-header": "A"});
    for step in path.iter().rev() {
        schema = json!({"properties": {*step: schema}});
    }
    ParamHeaders::from_schema(schema.to_string().as_bytes()).unwrap()
}

#[test]
fn argument_values_become_header_values() {
    let table = [
        (r#"{"a":"us-west1"}"#, Some("us-west1")),
        (r#" { "b" : [ {"a":1} , "}" ] , "a" : "x" } "#, Some("x")),
        (r#"{"a":""}"#, Some("")),
        (r#"{"a":"caf\u00e9"}"#, Some("=?base64?Y2Fmw6k=?=")),
        (r#"{"a":"a\r\nb"}"#, Some("=?base64?YQ0KYg==?=")),
        (r#"{"a":"\"q\\"}"#, Some("\"q\\")),
        (r#"{"\u0061":"x"}"#, Some("x")),
        (r#"{"a":true}"#, Some("true")),
        (r#"{"a":false}"#, Some("false")),
        (r#"{"a":42}"#, Some("42")),
        (r#"{"a":-7}"#, Some("-7")),
        (r#"{"a":-0}"#, Some("0")),
        (r#"{"a":42.0}"#, Some("42")),
        (r#"{"a":1e3}"#, Some("1000")),
        (r#"{"a":-0.0}"#, Some("0")),
        (r#"{"a":9007199254740991}"#, Some("9007199254740991")),
        (r#"{"a":-9007199254740991}"#, Some("-9007199254740991")),
        (r#"{"a":9007199254740992}"#, None),
        (r#"{"a":-9007199254740992}"#, None),
        (r#"{"a":9007199254740992.0}"#, None),
        (r#"{"a":99999999999999999999}"#, None),
        (r#"{"a":1e999}"#, None),
        (r#"{"a":3.5}"#, None),
        (r#"{"a":null}"#, None),
        (r#"{"a":{"a":"x"}}"#, None),
        (r#"{"a":["x"]}"#, None),
        (r#"{"b":{"a":"x"},"A":"x"}"#, None),
        (r#"{"a":"\ud800"}"#, None),
        (r#"{"a":"x","a":"y"}"#, Some("y")),
        (r#"{"a":"x","a":null}"#, None),
        ("{}", None),
        ("[]", None),
        ("\"a\"", None),
        ("", None),
        (r#"{"a":"x""#, None),
    ];
    for (arguments, expected) in table {
        let expected: Vec<_> =
            expected.map(|value| ("Mcp-Param-A", value.to_owned())).into_iter().collect();
        assert_eq!(one(&["a"]).values(arguments.as_bytes()), expected, "{arguments}");
    }
    let nested = [
        (r#"{"a":{"b":"x"}}"#, Some("x")),
        (r#"{"a":{"b":"x"},"a":{"c":1}}"#, None),
        (r#"{"a":{"c":1},"b":"x"}"#, None),
        (r#"{"a":[{"b":"x"}]}"#, None),
        (r#"{"a":"b"}"#, None),
    ];
    for (arguments, expected) in nested {
        let expected: Vec<_> =
            expected.map(|value| ("Mcp-Param-A", value.to_owned())).into_iter().collect();
        assert_eq!(one(&["a", "b"]).values(arguments.as_bytes()), expected, "{arguments}");
    }
}

#[test]
fn headers_come_in_the_order_of_the_schema() {
    let schema = json!({"properties": {
        "z": {"type": "string", "x-mcp-header": "Z"},
        "o": {"properties": {"i": {"type": "integer", "x-mcp-header": "I"}, "n": {"type": "string", "x-mcp-header": "N"}}},
        "b": {"type": "boolean", "x-mcp-header": "B"},
    }});
    let headers = ParamHeaders::from_schema(schema.to_string().as_bytes()).unwrap();
    let values = headers.values(br#"{"b":true,"o":{"i":5},"z":"zed"}"#);
    assert_eq!(
        values,
        [
            ("Mcp-Param-Z", "zed".into()),
            ("Mcp-Param-I", "5".into()),
            ("Mcp-Param-B", "true".into())
        ]
    );
}

#[test]
fn stripping_takes_the_members_and_nothing_else() {
    let table = [
        (r#"{"properties":{"a":{"x-mcp-header":"A"}}}"#, r#"{"properties":{"a":{}}}"#),
        (r#"{"a":{ "x-mcp-header" : "A" }}"#, r#"{"a":{  }}"#),
        (r#"{"a":{"x-mcp-header":"A","type":"string"}}"#, r#"{"a":{"type":"string"}}"#),
        (
            r#"{"a":{"type":"string" , "x-mcp-header":"A" , "b":1}}"#,
            r#"{"a":{"type":"string" , "b":1}}"#,
        ),
        (r#"{"a":{"type":"string",  "x-mcp-header":"A"}}"#, r#"{"a":{"type":"string"}}"#),
        (r#"{"x-mcp-header":1,"x-mcp-header":2}"#, "{}"),
        (r#"{"x-mcp-header":1, "x-mcp-header":2, "c":3}"#, r#"{"c":3}"#),
        (r#"{"c":3,"x-mcp-header":1,"x-mcp-header":2,"d":4}"#, r#"{"c":3,"d":4}"#),
        (r#"{"x-mcp-header":[{"x-mcp-header":1},"}"],"c":3}"#, r#"{"c":3}"#),
        (r#"{"x-mcp-he\u0061der":"A","c":3}"#, r#"{"c":3}"#),
        (r#"{"items":[{"x-mcp-header":"A"},{"x-mcp-header":"B"}]}"#, r#"{"items":[{},{}]}"#),
        (
            r#"{"properties":{"x-mcp-header":{"type":"string"}}}"#,
            r#"{"properties":{"x-mcp-header":{"type":"string"}}}"#,
        ),
        (r#"{"default":{"x-mcp-header":1}}"#, r#"{"default":{"x-mcp-header":1}}"#),
        (
            r#"{"description":"x-mcp-header é \u00e9","b": 1.0}"#,
            r#"{"description":"x-mcp-header é \u00e9","b": 1.0}"#,
        ),
        (r#"{"x-mcp-header":"#, r#"{"x-mcp-header":"#),
        ("true", "true"),
        ("", ""),
    ];
    for (schema, expected) in table {
        let stripped = strip(schema.as_bytes());
        assert_eq!(std::str::from_utf8(&stripped).unwrap(), expected);
        assert_eq!(matches!(stripped, Cow::Borrowed(_)), schema == expected, "{schema}");
    }
}

/// Generates a schema with annotations inserted as text.
fn schema_text() -> impl Strategy<Value = String> {
    let annotation = r#""x-mcp-header" ?: ?("[A-C]{0,2}"|1|\{"x-mcp-header":"A"\})"#;
    let leaf = prop_oneof![
        r#""type": ?"(string|number|object)""#.prop_map(String::from),
        annotation.prop_map(String::from),
        r#""(default|enum)":\{"x-mcp-header":\[1,"\\\\"\]\}"#.prop_map(String::from),
        Just(r#""d":"é\"{""#.to_owned()),
    ];
    leaf.prop_recursive(5, 60, 5, |inner| {
        let members = prop::collection::vec(inner, 0..5).prop_map(|members| members.join(" , "));
        prop_oneof![
            ("(properties|items|not|\\$defs)", members.clone())
                .prop_map(|(key, m)| format!(r#""{key}":{{"p":{{{m}}}}}"#)),
            members.prop_map(|m| format!(r#""anyOf":[{{{m}}},true]"#)),
        ]
    })
    .prop_map(|member| format!("{{{member}}}"))
}

fn annotations(schema: &Value) -> usize {
    match schema {
        Value::Object(members) => members
            .iter()
            .filter(|(key, _)| !matches!(key.as_str(), "default" | "enum"))
            .map(|(key, value)| usize::from(key == annotation::MEMBER) + annotations(value))
            .sum(),
        Value::Array(all) => all.iter().map(annotations).sum(),
        _ => 0,
    }
}

proptest! {
    #[test]
    fn what_is_encoded_is_safe_and_decodes(value in "(\\PC|[ -~]|\\t|\\r|\\n|=\\?base64\\?|\\?=){0,20}") {
        let header = encode_value(&value);
        prop_assert!(header.bytes().all(|b| (b' '..=b'~').contains(&b)));
        prop_assert_eq!(header.trim(), &*header);
        prop_assert_eq!(decode_value(header.as_bytes()).unwrap(), &*value);
    }

    #[test]
    fn a_stripped_schema_is_json_without_annotations(text in schema_text()) {
        let stripped = strip(text.as_bytes());
        let value: Value = serde_json::from_slice(&stripped).unwrap();
        prop_assert_eq!(annotations(&value), 0);
        prop_assert_eq!(strip(&stripped), &stripped[..]);
        prop_assert!(ParamHeaders::from_schema(&stripped).unwrap().is_empty());
    }

    #[test]
    fn no_text_panics(text in "(x-mcp-header|properties|type|[\\[\\]{}:,\"\\\\ ]|\\PC){0,30}") {
        let quoted = format!("{{\"x-mcp-header\":{text}");
        for text in [&text, &quoted] {
            let _ = ParamHeaders::from_schema(text.as_bytes());
            let _ = strip(text.as_bytes());
            let _ = one(&["a", "b"]).values(text.as_bytes());
            let _ = strip_nested(text.as_bytes());
        }
    }

    #[test]
    fn values_agree_with_a_parsed_tree(text in "\\PC{0,12}", number in any::<i64>(), shape in 0usize..6) {
        let (value, expected) = match shape {
            0 => (json!(text), Some(encode_value(&text).into_owned())),
            1 => (json!(number), (number.abs() <= MAX_INTEGER).then(|| number.to_string())),
            2 => (json!(number >> 12), Some((number >> 12).to_string())),
            3 => (json!([text]), None),
            4 => (json!({"b": text}), None),
            _ => (json!(true), Some("true".into())),
        };
        let arguments = json!({"c": [text, {"a": 1}], "a": {"b": value, "d": text}, "b": 3}).to_string();
        let expected: Vec<_> = expected.map(|value| ("Mcp-Param-A", value)).into_iter().collect();
        let headers = one(&["a", "b"]);
        prop_assert_eq!(headers.values(arguments.as_bytes()), expected);
    }
}
