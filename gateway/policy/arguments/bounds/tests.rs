//! Tests of `bounds`: each kind of bound with accepted and refused values.

use serde_json::json;

use super::*;

#[test]
fn a_bound_is_kept_by_its_own_kind_of_value_alone() {
    for (rule, good, bad) in [
        (
            json!({"pattern": "[a-c]+"}),
            vec![json!("abc")],
            vec![json!("abcd"), json!("xab"), json!(""), json!("a\nb")],
        ),
        (json!({"pattern": "a|b"}), vec![json!("a"), json!("b")], vec![json!("ax"), json!("xb")]),
        (
            json!({"pattern": "[0-9]+"}),
            vec![json!("1")],
            vec![json!(1), json!(["1"]), json!(null), json!({"1": 1})],
        ),
        (
            json!({"min": 1}),
            vec![json!(1), json!(1.5)],
            vec![json!(0), json!(-1), json!("2"), json!([2]), json!(true)],
        ),
        (
            json!({"max": 3}),
            vec![json!(3), json!(-9)],
            vec![json!(4), json!(3.5), json!("2"), json!(null), json!({})],
        ),
        (
            json!({"min_length": 2}),
            vec![json!("ab"), json!([1, 2])],
            vec![json!("a"), json!([1]), json!("é"), json!(22)],
        ),
        (
            json!({"max_length": 2}),
            vec![json!("éé"), json!([1, 2])],
            vec![json!("abc"), json!([1, 2, 3]), json!({})],
        ),
        (
            json!({"min_length": 1, "max_length": 1}),
            vec![json!("a")],
            vec![json!(""), json!("ab"), json!(null), json!(1)],
        ),
    ] {
        holds(&rule, &good, &bad);
    }
}

#[test]
fn what_is_equal_is_equal_in_every_part() {
    for (rule, good, bad) in [
        (
            json!({"equals": [1, 2]}),
            vec![json!([1, 2]), json!([1.0, 2])],
            vec![
                json!([1]),
                json!([1, 2, 3]),
                json!([1, 3]),
                json!([3, 2]),
                json!([]),
                json!("12"),
            ],
        ),
        (
            json!({"equals": {"a": 1, "b": [2]}}),
            vec![json!({"b": [2.0], "a": 1})],
            vec![
                json!({"a": 1}),
                json!({"a": 1, "b": [2], "c": 3}),
                json!({"a": 1, "b": [3]}),
                json!({"a": 1, "c": [2]}),
            ],
        ),
        (
            json!({"one_of": ["a", 1]}),
            vec![json!("a"), json!(1)],
            vec![json!("A"), json!("1"), json!(2), json!(null)],
        ),
        (
            json!({"none_of": ["a", [1]]}),
            vec![json!("b"), json!([2])],
            vec![json!("a"), json!([1]), json!([1.0])],
        ),
        (json!({"equals": true}), vec![json!(true)], vec![json!(false), json!("true"), json!(1)]),
    ] {
        holds(&rule, &good, &bad);
    }
}

fn holds(rule: &Value, good: &[Value], bad: &[Value]) {
    let bounds = Bounds::compile(&serde_json::from_value(rule.clone()).unwrap()).unwrap();
    for value in good {
        assert_eq!(bounds.check(value), Ok(()), "{rule} {value}");
    }
    for value in bad {
        assert!(bounds.check(value).is_err(), "{rule} {value}");
    }
}
