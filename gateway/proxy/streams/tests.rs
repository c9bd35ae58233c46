//! Tests of `streams`.

use lockgate_authn::Identity;

use super::*;

#[test]
fn each_principal_has_places_of_its_own() {
    let streams = Arc::new(Streams::default());
    let [one, two] = ["one", "two"].map(|subject| Principal::new(Identity::new("key", subject)));
    let held: Vec<_> = (0..3).map(|_| streams.open(&one, 3).unwrap()).collect();
    assert!(streams.open(&one, 3).is_none(), "the limit is reached");
    let other = streams.open(&two, 3).unwrap();
    let call = streams.of_call();
    assert_eq!(streams.len(), 5);
    drop(held.into_iter().next());
    assert!(
        streams.open(&Principal::new(Identity::new("key", "one")), 3).is_some(),
        "an equal principal, a place is free"
    );
    drop((other, call));
    assert_eq!((streams.len(), streams.waiting.holders()), (0, 0), "nothing is left behind");
    assert!(streams.open(&one, 0).is_none());
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
                    drop(streams.open(&principal, 4).unwrap());
                }
            });
        }
    });
    assert_eq!((streams.len(), streams.waiting.holders()), (0, 0));
}
