//! Tests of `cpu_pool`.

use super::*;

#[tokio::test]
async fn work_is_done_on_another_thread_and_one_piece_at_a_time() {
    let cpu_pool = Arc::new(CpuPool::new(Bounds { running: 1, waiting: 1 }));
    let here = std::thread::current().id();
    let there =
        cpu_pool.turn(CallerId::alone(1)).await.unwrap().run(|| std::thread::current().id()).await;
    assert_ne!(here, there);
    let first = cpu_pool.turn(CallerId::alone(1)).await.unwrap();
    let second = tokio::spawn({
        let cpu_pool = Arc::clone(&cpu_pool);
        async move { cpu_pool.turn(CallerId::alone(2)).await.unwrap().run(|| 2).await }
    });
    while cpu_pool.limit().waiting() == 0 {
        tokio::task::yield_now().await;
    }
    assert!(matches!(cpu_pool.turn(CallerId::alone(2)).await, Err(ConcurrencyError::Full)));
    assert_eq!(first.run(|| 1).await, 1);
    assert_eq!(second.await.unwrap(), 2);
}

#[tokio::test]
#[should_panic = "it went wrong"]
async fn a_panic_is_the_callers() {
    let cpu_pool = CpuPool::new(Bounds { running: 1, waiting: 0 });
    cpu_pool.turn(CallerId::alone(1)).await.unwrap().run(|| panic!("it went wrong")).await;
}
