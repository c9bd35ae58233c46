//! Tests of `budget`.

#![allow(clippy::unwrap_used)]

use super::*;

#[test]
fn a_hold_takes_what_is_left_and_gives_it_back() {
    let budget = Arc::new(Budget::new(100_000));
    let mut one = Hold::none(Arc::clone(&budget));
    let mut two = Hold::none(Arc::clone(&budget));
    one.grow(60_000).unwrap();
    assert_eq!(two.grow(40_001), Err(Full));
    two.grow(40_000).unwrap();
    assert_eq!((two.grow(1), two.grow(0), budget.used()), (Err(Full), Ok(()), 100_000));
    one.set(20_000).unwrap();
    assert_eq!((two.set(80_001), budget.used()), (Err(Full), 60_000));
    two.set(80_000).unwrap();
    one.shrink(usize::MAX);
    assert_eq!(budget.used(), 80_000);
    drop(two);
    assert_eq!(budget.used(), 0);
    assert_eq!(one.grow(usize::MAX), Err(Full));
}

#[test]
fn small_messages_are_taken_whatever_is_left() {
    let budget = Arc::new(Budget::new(10_000));
    let mut most = Hold::none(Arc::clone(&budget));
    most.grow(10_000).unwrap();
    let mut one = Hold::none(Arc::clone(&budget));
    assert_eq!(
        (one.admit(MAX_SMALL_MESSAGE + 1), one.set(MAX_SMALL_MESSAGE + 1), budget.used()),
        (Err(Full), Err(Full), 10_000)
    );
    one.admit(MAX_SMALL_MESSAGE).unwrap();
    assert_eq!(budget.used(), 10_000 + MAX_SMALL_MESSAGE);
    one.set(7).unwrap();
    assert_eq!(budget.used(), 10_007);
    drop((one, most));
    assert_eq!(budget.used(), 0);
}

#[test]
fn what_can_be_done_without_leaves_half() {
    let budget = Arc::new(Budget::new(10));
    let mut spare = Hold::none(Arc::clone(&budget));
    spare.grow_spare(5).unwrap();
    assert_eq!(spare.grow_spare(1), Err(Full));
    assert!(!budget.is_scarce());
    spare.grow(1).unwrap();
    assert!(budget.is_scarce());
    budget.resize(12);
    assert!(!budget.is_scarce());
    budget.resize(1);
    assert_eq!(spare.grow(1), Err(Full));
    drop(spare);
    assert_eq!(budget.used(), 0);
}
