//! Tests of `rights`.

use lockgate_authn::Identity;

use super::*;

#[test]
fn policy_knows_the_organisation_of_callers_whose_credential_names_none() {
    let principal = Principal::new(Identity::new("https://issuer.test", "ann"));
    assert_eq!(subject(&principal).organisation, Some("default"));
}
