//! Tests of `concurrency`.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::*;

type Wait<'a> = Pin<Box<dyn Future<Output = Result<Permit, ConcurrencyError>> + Send + 'a>>;

/// Returns a caller of the organisation `one`.
fn caller(number: u64) -> CallerId {
    CallerId::new("one", number)
}

fn limit(running: usize, waiting: usize) -> Arc<ConcurrencyLimit> {
    ConcurrencyLimit::new(Bounds { running, waiting }, Charge::Turns, None)
}

/// Requests a permit. Returns the result if ready, and the future.
fn ask(
    limit: &ConcurrencyLimit,
    number: u64,
) -> (Option<Result<Permit, ConcurrencyError>>, Wait<'_>) {
    ask_as(limit, caller(number))
}

fn ask_as(
    limit: &ConcurrencyLimit,
    id: CallerId,
) -> (Option<Result<Permit, ConcurrencyError>>, Wait<'_>) {
    let mut wait: Wait<'_> = Box::pin(limit.acquire(id));
    (poll(&mut wait), wait)
}

fn poll(wait: &mut Wait<'_>) -> Option<Result<Permit, ConcurrencyError>> {
    match wait.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => Some(result),
        Poll::Pending => None,
    }
}

fn now(limit: &ConcurrencyLimit, caller: u64) -> Permit {
    ask(limit, caller).0.unwrap().unwrap()
}

fn queue(limit: &ConcurrencyLimit, caller: u64) -> Wait<'_> {
    let (at_once, wait) = ask(limit, caller);
    assert!(at_once.is_none(), "caller {caller} should wait");
    wait
}

#[test]
fn one_more_than_may_run_waits_and_one_more_than_may_wait_is_refused() {
    let limit = limit(2, 1);
    let (first, _second) = (now(&limit, 1), now(&limit, 1));
    let mut third = queue(&limit, 1);
    assert!(matches!(ask(&limit, 1).0, Some(Err(ConcurrencyError::Full))));
    assert_eq!((limit.running(), limit.waiting()), (2, 1));
    drop(first);
    let third = poll(&mut third).unwrap().unwrap();
    assert_eq!((limit.running(), limit.waiting()), (2, 0));
    drop((third, _second));
    assert_eq!(
        (limit.running(), limit.state.lock().callers.len()),
        (0, 0),
        "nothing is left behind"
    );
}

#[test]
fn callers_take_turns_however_many_wait() {
    let limit = limit(1, 100);
    let mut running = now(&limit, 1);
    let mut greedy: Vec<_> = (0..50).map(|_| queue(&limit, 1)).collect();
    let mut polite = [queue(&limit, 2), queue(&limit, 3)];
    for turn in 0..4 {
        drop(running);
        let all = greedy.iter_mut().chain(&mut polite).enumerate();
        let mut served = all.filter_map(|(n, wait)| Some((n, poll(wait)?.unwrap())));
        let (n, permit) = served.next().unwrap();
        assert!(served.next().is_none());
        drop(served);
        match turn {
            0 | 1 => assert!(n >= greedy.len(), "turn {turn} went to the greedy one"),
            _ => assert!(n < greedy.len()),
        }
        // Completed futures must not be polled again.
        if n < greedy.len() {
            drop(greedy.remove(n))
        } else {
            polite[n - greedy.len()] = Box::pin(std::future::pending())
        }
        running = permit;
    }
}

#[test]
fn a_full_queue_loses_the_newest_of_whoever_has_most_in_it() {
    let limit = limit(1, 3);
    let _running = now(&limit, 1);
    let mut greedy = [queue(&limit, 1), queue(&limit, 1), queue(&limit, 1)];
    let _polite = queue(&limit, 2);
    assert!(matches!(poll(&mut greedy[2]), Some(Err(ConcurrencyError::Displaced))));
    assert!(poll(&mut greedy[0]).is_none());
    assert!(
        matches!(ask(&limit, 1).0, Some(Err(ConcurrencyError::Full))),
        "who has most displaces nobody"
    );
    assert!(
        matches!(ask(&limit, 2).0, Some(Err(ConcurrencyError::Full))),
        "nor does who would have as many"
    );
    assert_eq!(limit.waiting(), 3);
}

#[test]
fn the_last_places_are_kept_for_others_while_there_are_others() {
    let limit = limit(32, 128);
    let alone: Vec<_> = (0..32).map(|_| now(&limit, 1)).collect();
    drop(alone);
    drop(now(&limit, 2));
    let held: Vec<_> = (0..28).map(|_| now(&limit, 1)).collect();
    let mut more = queue(&limit, 1);
    let other: Vec<_> = (0..4).map(|_| now(&limit, 2)).collect();
    drop(other);
    assert!(poll(&mut more).is_none());
    drop(held);
    assert!(poll(&mut more).unwrap().is_ok());
}

#[test]
fn who_leaves_the_queue_takes_nothing_along() {
    let limit = limit(1, 3);
    let running = now(&limit, 1);
    let (gone, mut stays) = (queue(&limit, 2), queue(&limit, 3));
    drop(gone);
    assert_eq!(limit.waiting(), 1);
    let served_as_it_leaves = queue(&limit, 4);
    drop(running);
    let permit = poll(&mut stays).unwrap().unwrap();
    drop(permit);
    // The permit was granted, but not polled since.
    assert_eq!((limit.running(), limit.waiting()), (1, 0));
    drop(served_as_it_leaves);
    assert_eq!((limit.running(), limit.waiting()), (0, 0));
    drop(now(&limit, 1));
}

#[test]
fn time_is_shared_where_time_is_charged() {
    let limit = ConcurrencyLimit::new(Bounds { running: 1, waiting: 10 }, Charge::Time, None);
    drop(now(&limit, 1));
    let slow = now(&limit, 1);
    let (mut again, mut quick) = (queue(&limit, 1), queue(&limit, 2));
    let mut quick_again = queue(&limit, 2);
    std::thread::sleep(Duration::from_millis(30));
    drop(slow);
    drop(poll(&mut quick).expect("who had less comes first").unwrap());
    assert!(poll(&mut again).is_none());
    drop(poll(&mut quick_again).expect("and again, because it was quick").unwrap());
    assert!(poll(&mut again).unwrap().is_ok());
}

#[test]
fn it_says_since_when_it_is_full_and_how_long_that_may_take() {
    let limit = limit(1, 1);
    assert_eq!(limit.full_for(), None);
    let running = now(&limit, 1);
    assert_eq!(limit.full_for(), None, "nobody else wanted a place");
    let waiting = queue(&limit, 1);
    assert!(limit.full_for().is_some());
    assert_eq!(limit.expected_wait(), Duration::from_secs(1));
    drop(waiting);
    assert!(limit.full_for().is_some(), "it still is");
    drop(running);
    assert_eq!(limit.full_for(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_between_threads() {
    let limit = limit(3, 1000);
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..200_u64 {
        let limit = Arc::clone(&limit);
        tasks.spawn(async move {
            for round in 0..20 {
                let wait = limit.acquire(CallerId::new(["one", "two"][n as usize % 2], n % 7));
                if (n + round) % 3 == 0 {
                    drop(tokio::time::timeout(Duration::from_micros(n % 50), wait).await);
                } else if let Ok(permit) = wait.await {
                    tokio::task::yield_now().await;
                    drop(permit);
                }
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    assert_eq!((limit.running(), limit.waiting(), limit.state.lock().callers.len()), (0, 0, 0));
}

/// Fills the limit with callers of `one`, each with a single running or waiting call.
fn flood(limit: &ConcurrencyLimit) -> (Vec<Permit>, Vec<Wait<'_>>) {
    let bounds = limit.bounds();
    let running = (0..bounds.running as u64).map(|number| now(limit, number)).collect();
    let all = (bounds.running + bounds.waiting) as u64;
    (running, (bounds.running as u64..all).map(|number| queue(limit, number)).collect())
}

fn other() -> CallerId {
    CallerId::new("other", 1)
}

#[test]
fn an_organisation_with_many_callers_locks_no_other_one_out() {
    let limit = limit(32, 128);
    let (mut running, mut waiting) = flood(&limit);
    assert!(matches!(ask(&limit, 1000).0, Some(Err(ConcurrencyError::Full))), "its own are full");
    let mut others: Vec<_> = (0..4).map(|_| ask_as(&limit, other()).1).collect();
    assert_eq!(limit.waiting(), 128);
    for displaced in waiting.drain(124..) {
        let mut displaced = displaced;
        assert!(
            matches!(poll(&mut displaced), Some(Err(ConcurrencyError::Displaced))),
            "the newest went"
        );
    }
    let mut served = Vec::new();
    for turn in 0..8 {
        running.pop();
        let mut all = waiting.iter_mut().chain(&mut others).enumerate();
        let found = all.find_map(|(at, wait)| Some((at, poll(wait)?.unwrap())));
        drop(all);
        let Some((at, permit)) = found else { continue };
        served.push((turn, at >= 124));
        running.insert(0, permit);
        match at.checked_sub(124) {
            Some(at) => others[at] = Box::pin(std::future::pending()),
            None => waiting[at] = Box::pin(std::future::pending()),
        }
    }
    assert_eq!(served.iter().filter(|(_, other)| *other).count(), 4, "{served:?}");
    assert_eq!(served[0], (0, true), "who had least comes first: {served:?}");
}

#[test]
fn of_an_organisation_the_last_places_are_kept_for_others() {
    let limit = limit(32, 128);
    drop(limit.try_acquire(other()).unwrap());
    let held: Vec<_> = (0..28).map(|number| now(&limit, number)).collect();
    let mut more: Vec<_> = (100..110).map(|number| queue(&limit, number)).collect();
    assert_eq!(limit.full_for(), None, "there are places, for others");
    for _ in 0..20 {
        let (place, wait) = ask_as(&limit, other());
        drop(wait);
        drop(place.expect("the flood of the other one is not before it").unwrap());
        assert_eq!(limit.full_for(), None);
    }
    assert!(more.iter_mut().all(|wait| poll(wait).is_none()));
    drop(held);
    assert!(more.iter_mut().all(|wait| poll(wait).is_some_and(|place| place.is_ok())));
}

#[test]
fn within_an_organisation_callers_share_what_it_gets() {
    let limit = limit(1, 8);
    let running = limit.try_acquire(other()).unwrap();
    let mut greedy: Vec<_> = (0..6).map(|_| queue(&limit, 1)).collect();
    let mut polite = queue(&limit, 2);
    let mut its = ask_as(&limit, other()).1;
    let mut newcomer = queue(&limit, 3);
    assert!(matches!(poll(&mut greedy[5]), Some(Err(ConcurrencyError::Displaced))), "of its own");
    drop(running);
    let first = poll(&mut greedy[0]).expect("first come among equals").unwrap();
    drop(first);
    drop(poll(&mut polite).expect("as much as the other one, and earlier").unwrap());
    drop(poll(&mut its).expect("the organisation that has had less").unwrap());
    drop(poll(&mut newcomer).expect("and of the other one, who has had nothing").unwrap());
    assert!(poll(&mut greedy[1]).unwrap().is_ok());
}
