//! Tests of `unfinished`.

#![allow(clippy::unwrap_used)]

use super::*;

fn account() -> UnfinishedBodies {
    UnfinishedBodies::new(BodyLimits {
        rate: 10,
        slow_per_connection: 2,
        slow_per_principal: 3,
        bytes_per_connection: 100,
        bytes_per_principal: 150,
    })
}

#[test]
fn slow_bodies_are_bounded_per_connection_and_per_principal() {
    let (all, one, two) = (account(), ConnectionUsage::default(), ConnectionUsage::default());
    let mut bodies: Vec<_> =
        [(&one, 1), (&one, 1), (&one, 2)].map(|(connection, who)| all.begin(connection, who)).into();
    assert!(bodies.iter_mut().take(2).all(|body| body.mark_slow().is_ok()));
    assert_eq!(bodies[2].mark_slow(), Err(Refusal::ConnectionBodies));
    drop(bodies.pop());
    let mut third = all.begin(&two, 1);
    assert_eq!((third.mark_slow(), third.mark_slow()), (Ok(()), Ok(())));
    let mut fourth = all.begin(&two, 1);
    assert_eq!(fourth.mark_slow(), Err(Refusal::PrincipalBodies));
    drop(fourth);
    let mut other = all.begin(&two, 2);
    assert_eq!(other.mark_slow(), Ok(()), "another principal has its own");
    drop((bodies, third, other));
    assert!(all.principals.lock().is_empty());
    assert_eq!((one.slow.into_inner(), two.slow.into_inner()), (0, 0));
}

#[test]
fn bytes_are_bounded_per_connection_and_per_principal() {
    let (all, one, two) = (account(), ConnectionUsage::default(), ConnectionUsage::default());
    let (mut first, mut second, mut third) = (all.begin(&one, 1), all.begin(&one, 1), all.begin(&two, 1));
    assert_eq!((first.add_bytes(60), second.add_bytes(40)), (Ok(()), Ok(())));
    assert_eq!(third.add_bytes(50), Ok(()));
    assert_eq!(third.add_bytes(1), Err(Refusal::PrincipalBytes));
    assert_eq!(all.begin(&one, 2).add_bytes(1), Err(Refusal::ConnectionBytes));
    assert_eq!(all.begin(&two, 2).add_bytes(49), Ok(()), "another principal has its own");
    drop((first, second, third));
    assert!(all.principals.lock().is_empty());
    assert_eq!(all.begin(&one, 1).add_bytes(100), Ok(()));
    assert_eq!(all.least_bytes(5), 50);
}
