//! Tests of `journal`.

use super::*;

#[test]
fn a_reader_goes_on_after_what_it_has_seen_and_learns_when_it_missed_something() {
    let journal = Journal::new();
    assert!(matches!(journal.read("acme", 0), Ok(None)));
    for _ in 0..MAX_SHARED {
        journal.record(News::Missed);
    }
    assert_eq!(journal.find_next("acme", &journal.id_of(5)), Some(6));
    assert_eq!(journal.read("acme", 6).ok().flatten().map(|event| event.number), Some(6));
    assert_eq!(*journal.subscribe().borrow(), MAX_SHARED as u64);
    assert!(matches!(journal.read("acme", MAX_SHARED as u64), Ok(None)));
    journal.record(News::Missed);
    assert_eq!(journal.find_next("acme", &journal.id_of(0)), None, "made room");
    assert_eq!(journal.read("acme", 0).err(), Some(1));
    assert_eq!(journal.find_next("acme", "anything"), None);
}

#[test]
fn ids_of_another_process_are_unknown() {
    let journal = Journal::new();
    let other = Journal::new();
    journal.record(News::Missed);
    other.record(News::Missed);
    assert_eq!(journal.find_next("acme", &other.id_of(0)), None);
    assert_eq!(journal.id_of(0).len(), 16);
}

fn of(organisation: Option<&str>) -> News {
    let organisation = organisation.map(Arc::from);
    News::Server(ServerId { organisation, slug: "s".into() }, Value::Null)
}

/// Returns the numbers of all events that a reader of an organisation reads.
fn read_all(journal: &Journal, organisation: &str) -> Vec<u64> {
    let mut numbers = Vec::new();
    let mut at = 0;
    while let Some(event) = journal.read(organisation, at).unwrap_or_default() {
        numbers.push(event.number);
        at = event.number + 1;
    }
    numbers
}

#[test]
fn events_of_one_organisation_push_out_no_others() {
    let journal = Journal::new();
    journal.record(of(Some("acme")));
    journal.record(of(None));
    for _ in 0..2 * MAX_SHARED {
        journal.record(of(Some("loud")));
    }
    journal.record(of(Some("acme")));
    let last = 2 + 2 * MAX_SHARED as u64;
    assert_eq!(read_all(&journal, "acme"), [0, 1, last]);
    assert_eq!(read_all(&journal, "quiet"), [1]);
    let kept = last - MAX_OWN as u64;
    assert_eq!(journal.read("loud", 0).err(), Some(kept));
    assert_eq!(journal.find_next("acme", &journal.id_of(last - 1)), None, "it is of others");
    assert_eq!(journal.find_next("loud", &journal.id_of(last - 1)), Some(last));
}

#[test]
fn a_reader_goes_on_from_the_newest_event_of_its_own() {
    let journal = Journal::new();
    let start = journal.newest_id("acme");
    assert_eq!(journal.find_next("acme", &start), Some(0));
    journal.record(of(Some("globex")));
    assert_eq!(journal.newest_id("acme"), start, "it is of others");
    journal.record(of(None));
    assert_eq!(journal.find_next("acme", &journal.newest_id("acme")), Some(2));
    assert_ne!(journal.newest_id("acme"), start);
    assert_eq!(journal.find_next("acme", &start), Some(0), "and reads what came since");
}

#[test]
fn of_so_many_organisations_events_are_kept() {
    let journal = Journal::new();
    for number in 0..=MAX_ORGANISATIONS {
        journal.record(of(Some(&format!("o{number}"))));
    }
    assert_eq!(journal.kept.lock().own.len(), MAX_ORGANISATIONS);
    assert_eq!(journal.read("o0", 0).err(), Some(1), "it has missed one");
    assert_eq!(read_all(&journal, "o1"), [1]);
}
