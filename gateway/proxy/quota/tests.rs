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

#[test]
fn each_principal_has_places_of_its_own() {
    let streams = Arc::new(Streams::default());
    let [one, two] = ["one", "two"].map(|subject| Principal::new(Identity::new("key", subject)));
    let held: Vec<_> = (0..3).map(|_| streams.open(&one, 3, 8).unwrap()).collect();
    let refused = streams.open(&one, 3, 8).err();
    assert_eq!(refused, Some(Exhausted::Principal), "the limit is reached");
    let other = streams.open(&two, 3, 8).unwrap();
    let call = streams.of_call();
    assert_eq!(streams.len(), 5);
    drop(held.into_iter().next());
    assert!(
        streams.open(&Principal::new(Identity::new("key", "one")), 3, 8).is_ok(),
        "an equal principal, a place is free"
    );
    drop((other, call));
    assert_eq!((streams.len(), streams.waiting.holders()), (0, 0), "nothing is left behind");
    assert!(streams.open(&one, 0, 8).is_err());
    assert_eq!(streams.waiting.holders(), 0, "nor by somebody who got none");
}

#[test]
fn places_are_given_back_from_any_thread() {
    let streams = Arc::new(Streams::default());
    let principal = Principal::new(Identity::new("key", "one"));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..1000 {
                    drop(streams.open(&principal, 4, 8).unwrap());
                }
            });
        }
    });
    assert_eq!((streams.len(), streams.waiting.holders()), (0, 0));
}

#[test]
fn an_organisation_with_many_keys_leaves_half_of_an_address_to_others() {
    let streams = Arc::new(Streams::default());
    let member = |organisation: &str, number: usize| {
        let identity = Identity::new("key", &format!("key {number}"));
        Principal::new(identity.in_organisation(Some(organisation)))
    };
    let open = |organisation: &str, number| streams.open(&member(organisation, number), 64, 100);
    let held: Vec<_> = (0..50).map(|number| open("acme", number).unwrap()).collect();
    assert_eq!(open("acme", 50).err(), Some(Exhausted::Organisation));
    assert_eq!(open("acme", 0).err(), Some(Exhausted::Organisation), "whoever asks");
    let others: Vec<_> = (0..50).map(|number| open("other", number).unwrap()).collect();
    let own: Vec<_> = (0..100).map(|number| open("default", number).unwrap()).collect();
    drop(held);
    assert!(open("acme", 50).is_ok());
    drop((others, own));
    assert_eq!((streams.len(), streams.waiting.holders()), (0, 0), "nothing is left behind");
}
