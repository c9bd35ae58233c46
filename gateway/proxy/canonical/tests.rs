//! The canonical form is equal for equivalent JSON only.

use proptest::prelude::*;
use serde_json::Value;

use super::*;

fn canonical(text: &str) -> String {
    let mut out = Vec::new();
    write_json(text.as_bytes(), None, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn order_and_spelling_make_no_difference_and_everything_else_does() {
    let same = r#"{"a": [1, {"b": "x\u0041"}], "c": null}"#;
    for other in
        [r#"{"c":null,"a":[1,{"b":"xA"}]}"#, "{ \"c\" : null, \"a\" : [ 1 , {\"b\":\"xA\"} ] }"]
    {
        assert_eq!(canonical(same), canonical(other));
    }
    let texts = [
        r#"{"a":[1,{"b":"xA"}],"c":0}"#,
        r#"{"a":[{"b":"xA"},1],"c":null}"#,
        r#"{"a":[1],"b":"xA","c":null}"#,
        r#"{"a":"[1,{\"b\":\"xA\"}]","c":null}"#,
        r#"{"a":1}"#,
        r#"{"a":1.0}"#,
        r#"{"a":9007199254740993}"#,
        r#"{"a":9007199254740992}"#,
        r#"{"a":"1"}"#,
        r#"{"a,":1}"#,
    ];
    let mut forms: Vec<String> = texts.iter().map(|text| canonical(text)).collect();
    forms.push(canonical(same));
    let count = forms.len();
    forms.sort();
    forms.dedup();
    assert_eq!(forms.len(), count, "{forms:?}");
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-c\"\\\\\u{e9}]{0,4}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 20, 4, |inner| {
        let object = proptest::collection::btree_map("[a-c]{1,2}", inner.clone(), 0..4);
        let object = object.prop_map(|all| Value::Object(all.into_iter().collect()));
        prop_oneof![proptest::collection::vec(inner, 0..4).prop_map(Value::from), object]
    })
}

proptest! {
    #[test]
    fn two_values_have_one_form_only_when_they_are_the_same(a in json_value(), b in json_value()) {
        let spaced = serde_json::to_string_pretty(&a).unwrap();
        prop_assert_eq!(canonical(&spaced), canonical(&a.to_string()));
        prop_assert_eq!(canonical(&a.to_string()) == canonical(&b.to_string()), a == b);
    }
}
