//! Tests of `pool`.

use super::*;
use crate::ConcurrencyLimit;
use crate::{Bounds, Charge};

fn pools(running: usize, waiting: usize) -> Pools {
    Pools { running: Pool::new(running), waiting: Pool::new(waiting) }
}

fn limit(pools: &Pools) -> Arc<ConcurrencyLimit> {
    ConcurrencyLimit::new(Bounds { running: 8, waiting: 8 }, Charge::Turns, Some(pools.clone()))
}

/// Takes places until somebody would have to wait.
async fn fill(limit: &Arc<ConcurrencyLimit>) -> Vec<crate::Permit> {
    let mut held = Vec::new();
    while let Ok(permit) = tokio::time::timeout(std::time::Duration::ZERO, limit.acquire(1)).await {
        held.push(permit.unwrap());
    }
    held
}

#[tokio::test]
async fn no_member_takes_the_share_of_another() {
    let pools = pools(10, 10);
    let (a, b) = (limit(&pools), limit(&pools));
    let greedy = fill(&a).await;
    assert_eq!(greedy.len(), 8, "its own bound");
    let other = fill(&b).await;
    assert_eq!(other.len(), 2, "its share");
    let small = Pools { running: Pool::new(4), ..pools };
    let (a, b, c) = (limit(&small), limit(&small), limit(&small));
    assert_eq!([fill(&a).await.len(), fill(&b).await.len(), fill(&c).await.len()], [2, 1, 1]);
}

#[tokio::test]
async fn what_is_given_back_goes_to_a_member_that_waits_for_it() {
    let pools = pools(4, 4);
    let (a, b) = (limit(&pools), limit(&pools));
    let mut greedy = fill(&a).await;
    assert_eq!(greedy.len(), 3);
    let _one = b.acquire(2).await.unwrap();
    let waits = tokio::spawn(async move { b.acquire(2).await.is_ok() });
    tokio::task::yield_now().await;
    assert!(!waits.is_finished());
    greedy.pop();
    assert!(waits.await.unwrap());
}

#[tokio::test]
async fn places_to_wait_are_shared_alike() {
    let pools = pools(2, 4);
    let (a, b) = (limit(&pools), limit(&pools));
    let _running = (fill(&a).await, fill(&b).await);
    let mut queue = Vec::new();
    for _ in 0..3 {
        let mut one = Box::pin(a.acquire(1));
        assert!(futures_poll(&mut one).is_none());
        queue.push(one);
    }
    assert!(matches!(a.acquire(1).await, Err(crate::Refused::PoolFull)));
    let mut other = Box::pin(b.acquire(1));
    assert!(futures_poll(&mut other).is_none(), "the other member's share");
    drop(queue);
    let mut again = Box::pin(a.acquire(1));
    assert!(futures_poll(&mut again).is_none());
}

/// The result of a future that is ready at once.
fn futures_poll<T>(future: &mut std::pin::Pin<Box<impl Future<Output = T>>>) -> Option<T> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match future.as_mut().poll(&mut context) {
        std::task::Poll::Ready(value) => Some(value),
        std::task::Poll::Pending => None,
    }
}

#[test]
fn shares_follow_the_size_and_the_members() {
    let pool = Pool::new(100);
    pool.join();
    assert_eq!(pool.share(), 50);
    pool.join();
    assert_eq!(pool.share(), 25);
    pool.resize(1);
    assert_eq!(pool.share(), 1);
    assert!(!pool.borrow());
    pool.resize(0);
    assert_eq!(pool.share(), 0);
    pool.leave();
    pool.resize(4);
    assert_eq!((pool.share(), pool.borrow(), pool.borrow(), pool.borrow()), (2, true, true, false));
}
