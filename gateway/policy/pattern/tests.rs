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
