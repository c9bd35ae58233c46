//! Tests of `holder`.

use crate::Identity;

use super::*;

fn caller(issuer: &str, subject: &str, roles: &[&str]) -> Principal {
    let mut identity = Identity::new(issuer, subject);
    identity.roles = roles.iter().map(|role| (*role).into()).collect();
    Principal::new(identity)
}

#[test]
fn a_holder_names_callers_by_role_or_principal() {
    let ops = caller("https://login.example.com", "ada", &["ops"]);
    let key = caller(KEY, "3f6c0e9a17d2b458", &["operator"]);
    for (text, ops_too, key_too) in [
        ("role:ops", true, false),
        ("role:op*", true, true),
        ("role:op", false, false),
        ("principal:key|3f6c0e9a17d2b458", false, true),
        ("principal:https://login.example.com|*", true, false),
        ("certificate:dns:*", false, false),
    ] {
        let holder = Holder::parse(text).unwrap();
        assert_eq!((holder.names(&ops), holder.names(&key)), (ops_too, key_too), "{text}");
    }
    let default = Holder::of_key("operator");
    assert!(default.names(&key));
    let token = caller("https://login.example.com", "eve", &["operator"]);
    assert!(!default.names(&token), "a role of somebody else's making");
}

#[test]
fn what_names_nobody_or_everybody_is_no_holder() {
    for text in
        ["", "ops", "role:", "role:*", "role:a*b", "principal:ada", "certificate:*", "group:x"]
    {
        assert_eq!(Holder::parse(text), None, "{text}");
    }
}
