//! Tests of `apart`.

use super::*;

#[tokio::test]
async fn work_is_done_on_another_thread_and_one_piece_at_a_time() {
    let apart = Arc::new(Apart::new(Bounds { running: 1, waiting: 1 }));
    let here = std::thread::current().id();
    let there =
        apart.turn(CallerId::alone(1)).await.unwrap().run(|| std::thread::current().id()).await;
    assert_ne!(here, there);
    let first = apart.turn(CallerId::alone(1)).await.unwrap();
    let second = tokio::spawn({
        let apart = Arc::clone(&apart);
        async move { apart.turn(CallerId::alone(2)).await.unwrap().run(|| 2).await }
    });
    while apart.limit().waiting() == 0 {
        tokio::task::yield_now().await;
    }
    assert!(matches!(apart.turn(CallerId::alone(2)).await, Err(ConcurrencyError::Full)));
    assert_eq!(first.run(|| 1).await, 1);
    assert_eq!(second.await.unwrap(), 2);
}

#[tokio::test]
#[should_panic = "it went wrong"]
async fn a_panic_is_the_callers() {
    let apart = Apart::new(Bounds { running: 1, waiting: 0 });
    apart.turn(CallerId::alone(1)).await.unwrap().run(|| panic!("it went wrong")).await;
}
