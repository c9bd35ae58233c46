//! Tests of `reader`, with paused time.

#![allow(clippy::unwrap_used)]

mod buffer;

use super::*;

const MIB: usize = 1 << 20;

fn budget(mib: usize) -> Arc<Budget> {
    Arc::new(Budget::new(mib * MIB))
}

/// Returns the reader of a message that is still arriving.
async fn reading(budget: &Arc<Budget>, bytes: usize) -> Reader {
    let mut reader = Reader::new(budget);
    reader.hold(bytes).await.unwrap();
    reader
}

#[tokio::test]
async fn the_first_bytes_are_free_and_the_rest_counts_in_steps() {
    let budget = budget(1);
    let mut reader = reading(&budget, UNBUDGETED_BYTES).await;
    assert_eq!((budget.used(), reader.is_known()), (0, false));
    reader.hold(UNBUDGETED_BYTES + 1).await.unwrap();
    assert_eq!((budget.used(), reader.is_known()), (RESERVATION_STEP, false));
    reader.hold(MAX_MEDIUM_MESSAGE + 1).await.unwrap();
    assert_eq!((budget.used(), reader.is_known()), (2 * RESERVATION_STEP, true));
    let message = reader.finish(Bytes::from(vec![0; MAX_MEDIUM_MESSAGE + 1]), 0);
    assert_eq!((budget.used(), reader.is_known()), (MAX_MEDIUM_MESSAGE + 1, false));
    let small = reader.finish(Bytes::from_static(b"{}"), 0);
    drop((reader, message));
    assert_eq!((budget.used(), small.len()), (0, 2));
}

#[tokio::test]
async fn what_comes_in_one_piece_counts_too() {
    let budget = budget(1);
    let message = Reader::new(&budget).finish(Bytes::from(vec![0; UNBUDGETED_BYTES + 1]), 0);
    assert_eq!(budget.used(), UNBUDGETED_BYTES + 1);
    drop(message);
    assert_eq!(budget.used(), 0);
}

#[tokio::test]
async fn medium_messages_have_room_that_large_ones_cannot_take() {
    let budget = budget(1);
    let large = reading(&budget, MIB).await;
    let medium = reading(&budget, MAX_MEDIUM_MESSAGE).await;
    assert_eq!(budget.used(), MIB + MAX_MEDIUM_MESSAGE);
    drop((large, medium));
}

#[tokio::test]
async fn who_waits_goes_on_as_soon_as_there_is_room() {
    let budget = budget(4);
    let first = reading(&budget, 3 * MIB).await;
    let mut second = Reader::new(&budget);
    let (waited, ()) = tokio::join!(second.hold(2 * MIB), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        drop(first);
    });
    assert_eq!((waited, budget.refused()), (Ok(()), 0));
}

/// The larger message never gets another byte.
#[tokio::test]
async fn the_largest_has_to_go_when_another_wants_room() {
    let budget = budget(4);
    let (large, middle) = (reading(&budget, 2 * MIB).await, reading(&budget, MIB).await);
    let mut small = Reader::new(&budget);
    let gone = async {
        assert_eq!(large.told().await, NoMemory);
        drop(large);
    };
    let (waited, ()) = tokio::join!(small.hold(MIB + 1), gone);
    assert_eq!((waited, budget.refused()), (Ok(()), 1));
    assert!(!middle.has_to_go());
}

#[tokio::test]
async fn who_wants_the_most_has_to_go_itself() {
    let budget = budget(4);
    let middle = reading(&budget, 2 * MIB).await;
    let mut large = reading(&budget, MIB).await;
    assert_eq!(large.hold(3 * MIB).await, Err(NoMemory));
    assert_eq!((budget.refused(), middle.has_to_go()), (1, false));
    assert_eq!(
        Reader::new(&budget).hold(5 * MIB).await,
        Err(NoMemory),
        "there will never be that much"
    );
}

/// All readers wait for each other: each wait is bounded, and some complete.
#[tokio::test]
async fn readers_that_wait_for_each_other_do_not_wait_for_ever() {
    let budget = budget(8);
    let began = Instant::now();
    let mut all = Vec::new();
    for _ in 0..8 {
        let mut reader = reading(&budget, MIB).await;
        all.push(tokio::spawn(async move {
            for size in 2..8 {
                reader.hold(size * MIB).await?;
            }
            Ok::<(), NoMemory>(())
        }));
    }
    let mut served = 0;
    for task in all {
        served += usize::from(task.await.unwrap().is_ok());
    }
    assert!(served >= 1, "{served}");
    assert!(began.elapsed() < Duration::from_secs(10));
    assert_eq!(budget.used(), 0);
}
