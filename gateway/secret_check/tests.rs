//! Tests of `secret_check`.

use super::*;

fn marks(all: &[(&str, &str)]) -> Vec<GatewayMark> {
    let mark = |&(id, fingerprint): &(&str, &str)| GatewayMark {
        id: id.to_owned(),
        fingerprint: fingerprint.to_owned(),
    };
    all.iter().map(mark).collect()
}

/// Returns the verdict of the gateway `own` with this ring. `all` starts with the earliest gateway.
fn found(ring: &[&str], all: &[(&str, &str)]) -> Verdict {
    let ring: Vec<String> = ring.iter().map(|&one| one.to_owned()).collect();
    compare("own", &ring, &marks(all))
}

#[test]
fn the_later_one_of_two_with_different_secrets_is_the_one_that_differs() {
    assert_eq!(found(&["a"], &[("own", "a")]), Verdict::Agrees);
    assert_eq!(found(&["a"], &[("first", "a"), ("own", "a"), ("last", "a")]), Verdict::Agrees);
    assert_eq!(found(&["b"], &[("first", "a"), ("own", "b")]), Verdict::DiffersFromEarlier);
    assert_eq!(found(&["a"], &[("own", "a"), ("last", "b")]), Verdict::DiffersFromLater);
    let both = [("first", "b"), ("own", "a"), ("last", "c")];
    assert_eq!(found(&["a"], &both), Verdict::DiffersFromEarlier);
}

/// The steps of changing the secret.
#[test]
fn a_ring_with_the_secret_of_the_others_agrees() {
    assert_eq!(found(&["a", "b"], &[("first", "a"), ("own", "a")]), Verdict::Agrees);
    assert_eq!(found(&["b", "a"], &[("first", "a"), ("own", "b")]), Verdict::Agrees);
    assert_eq!(found(&["a", "b"], &[("own", "a"), ("last", "b")]), Verdict::Agrees);
    assert_eq!(found(&["b"], &[("first", "b"), ("own", "b")]), Verdict::Agrees);
    assert_eq!(found(&["b"], &[("first", "a"), ("own", "b")]), Verdict::DiffersFromEarlier);
}
