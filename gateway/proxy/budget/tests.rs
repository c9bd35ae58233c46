//! Tests of `budget`.

#![allow(clippy::unwrap_used)]

use super::*;

#[test]
fn a_hold_takes_what_is_left_and_gives_it_back() {
    let budget = Arc::new(Budget::new(10));
    let mut one = Hold::none(Arc::clone(&budget));
    let mut two = Hold::none(Arc::clone(&budget));
    one.grow(6).unwrap();
    assert_eq!(two.grow(5), Err(Full));
    two.grow(4).unwrap();
    assert_eq!((two.grow(1), budget.used()), (Err(Full), 10));
    one.set(2).unwrap();
    assert_eq!((two.set(9), budget.used()), (Err(Full), 6));
    two.set(8).unwrap();
    one.shrink(100);
    assert_eq!(budget.used(), 8);
    drop(two);
    assert_eq!(budget.used(), 0);
    assert_eq!(one.grow(usize::MAX), Err(Full));
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
