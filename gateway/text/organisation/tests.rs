//! Tests of `organisation`.

use super::*;

#[test]
fn names_that_people_use_are_names() {
    for name in ["default", "acme", "Acme GmbH & Co. KG", "org_01HX", "Müller, Söhne", "日本", "a"]
    {
        assert_eq!(find_mistake(name), None, "{name}");
    }
    assert_eq!(find_mistake(&"x".repeat(256)), None);
}

#[test]
fn names_that_cannot_be_told_apart_are_none() {
    let long = "x".repeat(257);
    for name in [
        "",
        " acme",
        "acme ",
        "a  b",
        "a\tb",
        "acme\0",
        "a\u{a0}b",
        "a\u{200b}b",
        "a\u{2028}b",
        "a/b",
        "a\u{301}",
        "a\u{202e}b",
        "a|b",
        "\"a\"",
        &long,
    ] {
        assert!(find_mistake(name).is_some(), "{name:?}");
    }
}
