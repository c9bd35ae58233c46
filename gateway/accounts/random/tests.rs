//! Tests of random texts and of PKCE.

use super::*;

#[test]
fn the_challenge_is_that_of_the_rfc() {
    // RFC 7636, appendix B.
    let challenge = pkce_challenge("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk");
    assert_eq!(challenge, "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    let (one, other) = (random_text().unwrap(), random_text().unwrap());
    assert!(one.len() == 43 && one != other);
}
