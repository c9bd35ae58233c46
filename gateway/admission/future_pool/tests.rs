//! Tests of `future_pool`.

use super::*;

#[tokio::test]
async fn the_future_that_is_done_serves_the_next() {
    let pool = FuturePool::new(|slots: Arc<Slots<usize, usize>>| async move {
        let n = slots.take_input().unwrap();
        if n == 0 {
            std::future::pending::<()>().await;
        }
        tokio::task::yield_now().await;
        n + 1
    });
    assert_eq!(pool.run(1).await, 2);
    assert_eq!(pool.free.lock().len(), 1);
    let mut pending = Box::pin(pool.run(0));
    assert_eq!(pool.free.lock().len(), 0, "it is at work");
    let waker = std::task::Waker::noop();
    assert!(pending.as_mut().poll(&mut Context::from_waker(waker)).is_pending());
    assert_eq!(pool.run(3).await, 4, "another one");
    drop(pending);
    assert_eq!(pool.free.lock().len(), 1, "what is cancelled is freed");
    assert_eq!(pool.run(5).await, 6, "and nothing of it is left");
}

#[tokio::test]
async fn a_pool_keeps_so_many_and_no_more() {
    let pool =
        FuturePool::new(
            |slots: Arc<Slots<usize, usize>>| async move { slots.take_input().unwrap() },
        );
    let all: Vec<_> = (0..MAX_POOLED + 10).map(|n| pool.run(n)).collect();
    for (n, future) in all.into_iter().enumerate() {
        assert_eq!(future.await, n);
    }
    assert_eq!(pool.free.lock().len(), MAX_POOLED);
}
