//! Tests of `template`.

use super::*;

/// Checks RFC 6570, appendix A.
#[test]
fn operators_are_those_of_the_standard() {
    for (inside, first, between, reserved, named, equals) in [
        ("x", "", ',', false, false, false),
        ("+x", "", ',', true, false, false),
        ("#x", "#", ',', true, false, false),
        (".x", ".", '.', false, false, false),
        ("/x", "/", '/', false, false, false),
        (";x", ";", ';', false, true, false),
        ("?x", "?", '&', false, true, true),
        ("&x", "&", '&', false, true, true),
    ] {
        let Expression { operator, variables } = Expression::parse(inside).unwrap();
        assert_eq!((operator.first(), operator.between()), (first, between), "{inside}");
        let signs = (operator.allows_reserved(), operator.is_named(), operator.keeps_equals());
        assert_eq!(signs, (reserved, named, equals), "{inside}");
        assert_eq!(variables, [Variable { name: "x", modifier: Modifier::None }], "{inside}");
    }
}

#[test]
fn variables_have_a_name_and_a_modifier() {
    let parsed = Expression::parse("?a,b_1:9999,user-id*,c.d:1").unwrap();
    let expected = [
        ("a", Modifier::None),
        ("b_1", Modifier::Prefix(9999)),
        ("user-id", Modifier::Explode),
        ("c.d", Modifier::Prefix(1)),
    ];
    assert_eq!(parsed.variables, expected.map(|(name, modifier)| Variable { name, modifier }));
    for inside in ["", "+", "a,", ",a", "=x", "|x", "a b", "x:3*", "x**", "*", ":3", "a,?b", "ü"] {
        assert_eq!(Expression::parse(inside), Err(ExpressionError::Name), "{inside}");
    }
    for inside in ["x:0", "x:", "x:-1", "x:10000", "x:y", "a,x:99999999999999999999999"] {
        assert_eq!(Expression::parse(inside), Err(ExpressionError::Prefix), "{inside}");
    }
}
