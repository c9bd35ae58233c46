//! Tests of `principal`.

use std::collections::HashSet;

use super::*;
use crate::identity::{KEY, LOCAL};

fn principal(issuer: &str, subject: &str) -> Principal {
    Principal::new(Identity::new(issuer, subject))
}

#[test]
fn issuer_subject_and_organisation_alone_make_the_principal() {
    let of = |organisation| Identity::new("key", "a").in_organisation(organisation);
    let mut other = of(Some("default"));
    other.scopes = ["x".into()].into();
    let mut set = HashSet::from([principal("key", "a")]);
    assert!(!set.insert(Principal::new(other)), "who says nothing is in the default one");
    for different in [("key", "b"), ("local", "a"), ("ke", "ya"), ("keya", ""), ("", "keya")] {
        assert!(set.insert(principal(different.0, different.1)), "{different:?}");
    }
    assert!(set.insert(Principal::new(of(Some("acme")))));
    assert!(set.insert(Principal::new(of(Some("other")))), "in another one it is another caller");
    assert!(!set.insert(Principal::new(of(Some("acme")))));
    let keys: HashSet<u64> = set.iter().map(|principal| principal.key()).collect();
    assert_eq!(keys.len(), set.len());
    assert_eq!(of(None).organisation(), "default");
    assert_eq!((of(Some("acme")).organisation(), of(None).named_organisation()), ("acme", None));
}

#[test]
fn only_the_local_user_has_every_scope() {
    assert!(principal(LOCAL, "user").has_scope("anything"));
    assert!(!principal(KEY, "local").has_scope("anything"));
    let mut identity = Identity::new(KEY, "a");
    identity.scopes = ["read".into()].into();
    assert!(
        identity.has_scope("read") && !identity.has_scope("rea") && !identity.has_scope("READ")
    );
}

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
