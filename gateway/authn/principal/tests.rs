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
