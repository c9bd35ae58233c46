//! Tests of `quota`.

use lockgate_authn::Identity;

use super::*;

fn member(organisation: &str, name: usize) -> Principal {
    let identity = Identity::new("https://issuer.test", &format!("caller {name}"));
    Principal::new(identity.in_organisation(Some(organisation)))
}

#[test]
fn an_organisation_with_many_keys_leaves_half_to_others() {
    let quotas = Arc::new(Quotas::default());
    let mut held = Vec::new();
    for name in 0..10 {
        held.extend(quotas.take_of_all(&member("acme", name), 5, 10));
    }
    assert_eq!(held.len(), 5);
    let refused = quotas.take_of_all(&member("acme", 10), 5, 10);
    assert_eq!(refused.err(), Some(Exhausted::Organisation));
    assert!(quotas.take_of_all(&member("other", 1), 5, 10).is_ok());
    let own: Vec<_> =
        (0..10).map(|name| quotas.take_of_all(&member("default", name), 5, 10)).collect();
    assert!(own.iter().all(Result::is_ok), "the operator's own have no others to leave any to");
    drop((held, own));
    assert_eq!(quotas.holders(), 0, "nothing is left behind");
}
