//! Tests of `future_pool`.

use super::*;

#[tokio::test]
async fn the_box_of_a_future_that_is_done_serves_the_next() {
    let pool = FuturePool::new();
    assert_eq!(pool.run(async { 1 }).await, 1);
    assert_eq!(pool.free.lock().len(), 1);
    let pending = pool.run(async { 2 });
    assert_eq!(pool.free.lock().len(), 0);
    assert_eq!(pool.run(async { [3; 100][0] }).await, 3, "of another size");
    drop(pending);
    assert_eq!(pool.free.lock().len(), 1, "what is cancelled is freed");
}

#[tokio::test]
async fn a_pool_keeps_so_many_and_no_more() {
    let pool = FuturePool::new();
    let all: Vec<_> = (0..KEPT + 10).map(|n| pool.run(async move { n })).collect();
    futures_util::future::join_all(all).await;
    assert_eq!(pool.free.lock().len(), KEPT);
}
