//! Tests of `pool`.

use super::*;
use crate::CallerId;
use crate::ConcurrencyLimit;
use crate::{Bounds, Charge};

fn pools(running: usize, waiting: usize) -> Pools {
    Pools { running: Pool::new(running), waiting: Pool::new(waiting) }
}

fn limit(pools: &Pools) -> Arc<ConcurrencyLimit> {
    ConcurrencyLimit::new(Bounds { running: 8, waiting: 8 }, Charge::Turns, Some(pools.join()))
}

fn limits_of_organisation(pools: &Pools, count: usize) -> Vec<Arc<ConcurrencyLimit>> {
    let part = pools.join_organisation();
    let bounds = Bounds { running: 32, waiting: 128 };
    let limit = |_| ConcurrencyLimit::new(bounds, Charge::Turns, Some(part.clone()));
    (0..count).map(limit).collect()
}

/// Takes permits until a caller would have to wait.
async fn fill(limit: &Arc<ConcurrencyLimit>) -> Vec<crate::Permit> {
    let mut held = Vec::new();
    while let Ok(permit) =
        tokio::time::timeout(std::time::Duration::ZERO, limit.acquire(CallerId::alone(1))).await
    {
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
    let _one = b.acquire(CallerId::alone(2)).await.unwrap();
    let waits = tokio::spawn(async move { b.acquire(CallerId::alone(2)).await.is_ok() });
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
        let mut one = Box::pin(a.acquire(CallerId::alone(1)));
        assert!(futures_poll(&mut one).is_none());
        queue.push(one);
    }
    assert!(matches!(a.acquire(CallerId::alone(1)).await, Err(crate::ConcurrencyError::PoolFull)));
    let mut other = Box::pin(b.acquire(CallerId::alone(1)));
    assert!(futures_poll(&mut other).is_none(), "the other member's share");
    drop(queue);
    let mut again = Box::pin(a.acquire(CallerId::alone(1)));
    assert!(futures_poll(&mut again).is_none());
}

fn futures_poll<T>(future: &mut std::pin::Pin<Box<impl Future<Output = T>>>) -> Option<T> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match future.as_mut().poll(&mut context) {
        std::task::Poll::Ready(value) => Some(value),
        std::task::Poll::Pending => None,
    }
}

#[tokio::test]
async fn integrations_that_nobody_calls_take_no_part() {
    let pools = pools(100, 1000);
    let bounds = Bounds { running: 32, waiting: 128 };
    let shared = ConcurrencyLimit::new(bounds, Charge::Turns, Some(pools.join()));
    let resting: Vec<_> = (0..100).map(|_| limits_of_organisation(&pools, 10)).collect();
    assert_eq!(fill(&shared).await.len(), 32, "beside 1,000 that nobody calls");
    let mut called = Vec::new();
    for organisation in resting.iter().take(50) {
        called.extend(organisation[0].acquire(CallerId::alone(1)).await);
    }
    assert_eq!(called.len(), 50);
    assert!(pools.running.share() >= 25, "the operator's part is none the smaller for how many");
    assert_eq!(fill(&shared).await.len(), 32, "beside 50 that are in use");
    drop(called);
    assert_eq!(pools.running.count_parts(), 1);
}

#[tokio::test]
async fn an_organisation_has_one_part_however_many_integrations_it_calls() {
    let pools = pools(40, 40);
    let many = limits_of_organisation(&pools, 30);
    let few = limits_of_organisation(&pools, 1);
    let first = few[0].acquire(CallerId::alone(1)).await.unwrap();
    let mut greedy = Vec::new();
    for limit in &many {
        greedy.extend(fill(limit).await);
    }
    assert_eq!(greedy.len(), 30, "its share of 10, and the common part of 20");
    assert_eq!(fill(&few[0]).await.len(), 9, "what is left of the other's share");
    drop(first);
}

#[tokio::test]
async fn a_place_of_an_organisation_goes_on_to_another_of_its_integrations() {
    let pools = pools(4, 40);
    let _operator = limit(&pools);
    let limits = limits_of_organisation(&pools, 2);
    let mut held = fill(&limits[0]).await;
    assert_eq!(held.len(), 3, "its share of 1, and the common part");
    let (one, other) = (Arc::clone(&limits[1]), limits[1].acquire(CallerId::alone(3)));
    let waits = tokio::spawn(async move { one.acquire(CallerId::alone(2)).await.is_ok() });
    let mut other = Box::pin(other);
    assert!(futures_poll(&mut other).is_none());
    tokio::task::yield_now().await;
    assert!(!waits.is_finished());
    held.clear();
    assert!(waits.await.unwrap());
    assert!(other.await.is_ok(), "the one after it too");
    drop(held);
    assert_eq!(pools.running.count_parts(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_place_of_organisations_is_lost_between_threads() {
    let pools = pools(6, 10_000);
    let _operator = limit(&pools);
    let mut tasks = tokio::task::JoinSet::new();
    for limits in (0..3).map(|_| limits_of_organisation(&pools, 3)) {
        for n in 0..60_usize {
            let limit = Arc::clone(&limits[n % 3]);
            tasks.spawn(async move {
                for _ in 0..50 {
                    let permit = limit.acquire(CallerId::alone(n as u64 % 5)).await.unwrap();
                    tokio::task::yield_now().await;
                    drop(permit);
                }
            });
        }
    }
    let all = async { while tasks.join_next().await.is_some_and(|done| done.is_ok()) {} };
    tokio::time::timeout(std::time::Duration::from_secs(30), all).await.expect("somebody waits");
    assert!(tasks.is_empty());
    assert_eq!((pools.running.count_parts(), pools.waiting.count_parts()), (1, 1));
}

#[test]
fn shares_follow_the_size_and_the_members() {
    let pools = pools(100, 0);
    let pool = &pools.running;
    let first = pools.join();
    assert_eq!(pool.share(), 50);
    let second = pools.join();
    assert_eq!(pool.share(), 25);
    pool.resize(1);
    assert_eq!(pool.share(), 1);
    assert!(!pool.borrow());
    pool.resize(0);
    assert_eq!(pool.share(), 0);
    drop(second);
    pool.resize(4);
    assert_eq!((pool.share(), pool.borrow(), pool.borrow(), pool.borrow()), (2, true, true, false));
    drop(first);
}
