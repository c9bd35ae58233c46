//! Tests of `SinglePrincipal`.

use super::*;

#[test]
fn one_is_alone_until_another_comes_and_never_again() {
    let single_principal = SinglePrincipal::default();
    assert!(!single_principal.is(7));
    single_principal.record(7);
    single_principal.record(7);
    assert!(single_principal.is(7) && !single_principal.is(8));
    single_principal.record(8);
    single_principal.record(7);
    assert!(!single_principal.is(7) && !single_principal.is(8));
}

#[test]
fn numbers_that_mean_something_else_are_nobody() {
    for odd in [NO_PRINCIPAL, SEVERAL_PRINCIPALS] {
        let single_principal = SinglePrincipal::default();
        single_principal.record(odd);
        assert!(!single_principal.is(7) && !single_principal.is(SEVERAL_PRINCIPALS));
        single_principal.record(7);
        assert!(!single_principal.is(7));
    }
}
