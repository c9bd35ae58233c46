//! Tests of `single_principal`.

use super::*;

#[test]
fn one_is_alone_until_another_comes_and_never_again() {
    let sole = SinglePrincipal::default();
    assert!(!sole.is(7));
    sole.record(7);
    sole.record(7);
    assert!(sole.is(7) && !sole.is(8));
    sole.record(8);
    sole.record(7);
    assert!(!sole.is(7) && !sole.is(8));
}

#[test]
fn numbers_that_mean_something_else_are_nobody() {
    for odd in [NOBODY, SEVERAL] {
        let sole = SinglePrincipal::default();
        sole.record(odd);
        assert!(!sole.is(7) && !sole.is(SEVERAL));
        sole.record(7);
        assert!(!sole.is(7));
    }
}
