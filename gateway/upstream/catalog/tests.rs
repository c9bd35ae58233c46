//! Tests of the memory of lists in `catalog`.

use super::*;

struct Room(Arc<Budget>);

impl ListAccount for Room {
    fn budget(&self) -> &Arc<Budget> {
        &self.0
    }

    fn make_room(&self, _: usize) {}
}

#[test]
fn lists_hold_what_they_take_until_nobody_has_them() {
    let (own, all) = (Arc::new(Budget::new(100)), Arc::new(Budget::new(150)));
    let hold = || {
        let accounts = [&own, &all].map(|budget| Arc::new(Room(Arc::clone(budget))) as _);
        ListHold::in_accounts(accounts.into(), 90)
    };
    let mut first = hold();
    assert_eq!(first.grow(80), Ok(()));
    assert_eq!(first.grow(11), Err(NoRoom::OfServer));
    assert_eq!(hold().grow(21), Err(NoRoom::OfAll));
    let known = first.finish();
    let mut merged = ListMemory::default();
    merged.add(&known);
    assert_eq!((own.used(), all.used()), (80, 80));
    drop(known);
    assert_eq!(own.used(), 80, "somebody has them");
    drop(merged);
    assert_eq!((own.used(), all.used()), (0, 0));
}

#[test]
fn the_first_bytes_of_a_server_of_the_operator_are_free() {
    let budget = Arc::new(Budget::new(10));
    let mut hold = ListHold::of_operator(&budget);
    assert_eq!(hold.grow(UNCHARGED_BYTES), Ok(()));
    assert_eq!((hold.grow(10), budget.used()), (Ok(()), 10));
    assert_eq!(hold.grow(1), Err(NoRoom::OfAll));
}
