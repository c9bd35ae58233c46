//! Tests of `places`.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use super::*;

#[tokio::test]
async fn one_more_than_running_and_waiting_is_turned_away() {
    let places = Arc::new(Places::new(2, 1));
    let first = Places::enter(&*places).await.unwrap();
    let _second = Places::enter(&*places).await.unwrap();
    let waiting = tokio::spawn(Places::enter(Arc::clone(&places)));
    while places.counts.load(Ordering::Relaxed) < WAITING {
        tokio::task::yield_now().await;
    }
    assert!(matches!(Places::enter(&*places).await, Err(Refusal::Busy)));
    drop(first);
    drop(waiting.await.unwrap().unwrap());
    assert!(Places::enter(&*places).await.is_ok());
}

#[tokio::test]
async fn one_who_leaves_the_line_makes_room_and_keeps_no_place() {
    let places = Places::new(1, 1);
    let first = Places::enter(&places).await.unwrap();
    for _ in 0..3 {
        let waiting = Places::enter(&places);
        assert!(tokio::time::timeout(Duration::from_millis(1), waiting).await.is_err());
    }
    // Handed over, but dropped before it was looked at.
    let mut waiting = Box::pin(Places::enter(&places));
    let once = std::future::poll_fn(|cx| std::task::Poll::Ready(waiting.as_mut().poll(cx).is_pending()));
    assert!(once.await);
    drop(first);
    drop(waiting);
    assert_eq!(places.counts.load(Ordering::Relaxed), 0);
    assert_eq!(places.handed.available_permits(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn under_stress_the_bound_holds_and_nothing_leaks() {
    let places = Arc::new(Places::new(3, 1000));
    let running = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..400)
        .map(|n: u64| {
            let (places, running) = (Arc::clone(&places), Arc::clone(&running));
            tokio::spawn(async move {
                for round in 0..20 {
                    let work = async {
                        let place = Places::enter(&*places).await.unwrap();
                        assert!(running.fetch_add(1, Ordering::SeqCst) < 3);
                        if (n + round).is_multiple_of(3) {
                            tokio::task::yield_now().await;
                        }
                        running.fetch_sub(1, Ordering::SeqCst);
                        drop(place);
                    };
                    if n.is_multiple_of(4) {
                        // Give up at some point of waiting, never while running.
                        let entered = Places::enter(&*places);
                        let _ = tokio::time::timeout(Duration::from_micros(n), entered).await;
                    } else {
                        work.await;
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(places.counts.load(Ordering::SeqCst), 0);
    assert_eq!(places.handed.available_permits(), 0);
}
