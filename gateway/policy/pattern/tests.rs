//! Tests of matchers against automata.

use super::*;

#[test]
fn a_matcher_fits_what_the_automaton_of_its_pattern_fits() {
    let patterns =
        ["", "a", "a*", "*", "a**", "*b", "a?", "[ab]", "{a,b}c", "a\\*", "tools/*", "é*", "a/"];
    let names =
        ["", "a", "ab", "b", "ac", "a*", "bc", "tools/call", "tools", "éa", "a/b", "A", "a\n"];
    for pattern in patterns {
        let glob = Glob::new(pattern).unwrap();
        let (ours, automaton) = (Matcher::new(&glob), glob.compile_matcher());
        for name in names {
            assert_eq!(ours.fits(name), automaton.is_match(name), "{pattern:?} {name:?}");
        }
    }
}

#[test]
fn patterns_select_by_any_name() {
    let patterns = Patterns::new(&["a/*".into(), "*/secret".into()]).unwrap();
    assert!(patterns.fit(&["x", "a/t"]) && patterns.fit(&["b/secret"]));
    assert!(!patterns.fit(&["b/t", "t"]) && !Patterns::default().fit(&["a/t"]));
    assert!(Patterns::new(&["[".into()]).unwrap_err().contains("not a valid pattern"));
    let many = vec!["a".to_owned(); MAX_PATTERNS];
    assert!(Patterns::new(&many).is_ok());
    assert!(Patterns::new(&[many, vec!["b".to_owned()]].concat()).is_err());
}
