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

const TIME: Duration = Duration::from_secs(30);

#[tokio::test(start_paused = true)]
async fn slow_bodies_are_bounded_per_connection_and_per_principal() {
    let (all, one, two) = (account(), ConnectionUsage::default(), ConnectionUsage::default());
    let mut bodies: Vec<_> = [(&one, 1), (&one, 1), (&one, 2)]
        .map(|(connection, who)| all.begin(connection, who))
        .into();
    let slow = |body: &mut UnfinishedBody<'_>| body.mark_slow(Instant::now() + TIME);
    for body in bodies.iter_mut().take(2) {
        assert_eq!(slow(body), Ok(()));
        tokio::time::advance(Duration::from_secs(5)).await;
    }
    // Ten of the first body's thirty seconds have passed.
    let retry_after = Duration::from_secs(20);
    assert_eq!(slow(&mut bodies[2]), Err(ListenerError::ConnectionBodies { retry_after }));
    drop(bodies.pop());
    let mut third = all.begin(&two, 1);
    assert_eq!((slow(&mut third), slow(&mut third)), (Ok(()), Ok(())));
    let mut fourth = all.begin(&two, 1);
    assert_eq!(slow(&mut fourth), Err(ListenerError::PrincipalBodies { retry_after }));
    drop(bodies.swap_remove(0));
    assert_eq!(slow(&mut fourth), Ok(()), "as soon as one has ended");
    drop(fourth);
    let mut other = all.begin(&two, 2);
    assert_eq!(slow(&mut other), Ok(()), "another principal has its own");
    drop((bodies, third, other));
    assert!(all.principals.lock().is_empty());
    assert!(one.into_inner().slow.is_empty() && two.into_inner().slow.is_empty());
}

#[test]
fn bytes_are_bounded_per_connection_and_per_principal() {
    let (all, one, two) = (account(), ConnectionUsage::default(), ConnectionUsage::default());
    let (mut first, mut second, mut third) =
        (all.begin(&one, 1), all.begin(&one, 1), all.begin(&two, 1));
    assert_eq!((first.add_bytes(60), second.add_bytes(40)), (Ok(()), Ok(())));
    assert_eq!(third.add_bytes(50), Ok(()));
    assert_eq!(third.add_bytes(1), Err(ListenerError::PrincipalBytes));
    assert_eq!(all.begin(&one, 2).add_bytes(1), Err(ListenerError::ConnectionBytes));
    assert_eq!(all.begin(&two, 2).add_bytes(49), Ok(()), "another principal has its own");
    drop((first, second, third));
    assert!(all.principals.lock().is_empty());
    assert_eq!(all.begin(&one, 1).add_bytes(100), Ok(()));
    assert_eq!(all.least_bytes(5), 50);
}
