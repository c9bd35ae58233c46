//! Questions and rounds: each is taken once, in time, and the oldest of its owner makes room.

use lockgate_authn::Identity;

use super::*;

const BOUNDS: Bounds = Bounds { all: 3, of_principal: 2 };

fn principal(subject: &str) -> Principal {
    Principal::new(Identity::new("key", subject))
}

fn asked(owner: &str, after: Duration) -> AskedCall {
    let expires = Instant::now() + after;
    AskedCall { owner: principal(owner), digest: [7; 32], policies: [8; 32], expires }
}

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn a_question_is_taken_once_and_in_time() {
    let calls = AskedCalls::default();
    calls.ask([1; 16], asked("ann", MINUTE), BOUNDS).unwrap();
    calls.ask([2; 16], asked("ann", Duration::ZERO), BOUNDS).unwrap();
    assert_eq!(calls.len(), 1);
    assert_eq!(calls.take(&[1; 16]).unwrap().digest, [7; 32]);
    assert_eq!(calls.take(&[1; 16]), Err(TakeError::Unknown), "once");
    assert_eq!(calls.take(&[2; 16]), Err(TakeError::Expired), "too late");
    assert_eq!(calls.take(&[3; 16]), Err(TakeError::Unknown), "never asked");
}

#[test]
fn the_oldest_of_ones_own_makes_room_and_nobody_elses() {
    let calls = AskedCalls::default();
    calls.ask([9; 16], asked("bob", MINUTE), BOUNDS).unwrap();
    for at in 1..=3 {
        let after = MINUTE + Duration::from_secs(u64::from(at));
        calls.ask([at; 16], asked("ann", after), BOUNDS).unwrap();
    }
    assert_eq!(calls.ask([10; 16], asked("eve", MINUTE), BOUNDS), Err(NoRoom::All));
    let left = [9, 1, 2, 3].map(|at| calls.take(&[at; 16]).is_ok());
    assert_eq!(left, [true, false, true, true]);
}

#[test]
fn a_round_is_taken_once_for_its_own_call() {
    let calls = AskedCalls::default();
    assert!(!calls.take_round(&[1; 32]));
    calls.open_round([1; 32], BOUNDS);
    assert!(!calls.take_round(&[2; 32]));
    assert!(calls.take_round(&[1; 32]));
    assert!(!calls.take_round(&[1; 32]));
    for at in 0..5 {
        calls.open_round([at; 32], BOUNDS);
    }
    assert_eq!((0..5).filter(|at| calls.take_round(&[*at; 32])).count(), BOUNDS.all);
}
