//! Tests of `config`.

use super::*;
use crate::{Identity, KEY};

fn caller(issuer: &str, role: &str) -> Principal {
    let mut identity = Identity::new(issuer, "somebody");
    identity.roles = [role.into()].into();
    Principal::new(identity)
}

#[test]
fn a_role_is_what_the_configuration_says_and_not_what_a_credential_calls_itself() {
    let holders = RoleHolders {
        trusts_local: false,
        operators: vec![Holder::of_key("operator")],
        admins: vec![Holder::of_key("admin")],
    };
    for (issuer, name, role) in [
        (KEY, "operator", Role::Operator),
        (KEY, "admin", Role::Admin),
        (KEY, "reader", Role::User),
        ("https://login.example.com", "operator", Role::User),
        ("https://login.example.com", "admin", Role::User),
        (LOCAL, "operator", Role::User),
    ] {
        assert_eq!(holders.role_of(&caller(issuer, name)), role, "{issuer} {name}");
    }
    let trusting = RoleHolders { trusts_local: true, ..holders };
    assert_eq!(trusting.role_of(&caller(LOCAL, "any")), Role::Operator);
    assert_eq!(trusting.role_of(&caller(LOCAL, "any").forwarded(true)), Role::User);
}
