//! Questions and rounds are taken once and in time; a full owner loses the oldest question.

use lockgate_authn::Identity;

use super::*;

fn limits(approvals: usize) -> Limits {
    Limits { approvals, approvals_per_principal: 2, ..Limits::default() }
}

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
    calls.ask([1; 16], asked("ann", MINUTE), &limits(3)).unwrap();
    calls.ask([2; 16], asked("ann", Duration::ZERO), &limits(3)).unwrap();
    assert_eq!(calls.len(), 1);
    assert_eq!(calls.take(&[1; 16]).unwrap().digest, [7; 32]);
    assert_eq!(calls.take(&[1; 16]), None, "once");
    assert!(calls.take(&[2; 16]).unwrap().expires <= Instant::now(), "too late");
    assert_eq!(calls.take(&[3; 16]), None, "never asked");
}

#[test]
fn the_oldest_of_ones_own_makes_room_and_nobody_elses() {
    let calls = AskedCalls::default();
    calls.ask([9; 16], asked("bob", MINUTE), &limits(3)).unwrap();
    for at in 1..=3 {
        let after = MINUTE + Duration::from_secs(u64::from(at));
        calls.ask([at; 16], asked("ann", after), &limits(3)).unwrap();
    }
    assert_eq!(calls.ask([10; 16], asked("eve", MINUTE), &limits(3)), Err(Exhausted::All));
    let left = [9, 1, 2, 3].map(|at| calls.take(&[at; 16]).is_some());
    assert_eq!(left, [true, false, true, true]);
}

#[test]
fn an_organisation_with_many_keys_leaves_half_of_the_questions_to_others() {
    let limits = limits(8);
    let calls = AskedCalls::default();
    let ask = |nonce: u8, organisation: &str| {
        let identity = Identity::new("key", &format!("key {nonce}"));
        let owner = Principal::new(identity.in_organisation(Some(organisation)));
        let call = AskedCall { owner, ..asked("", MINUTE) };
        calls.ask([nonce; 16], call, &limits)
    };
    assert!((0..4).all(|nonce| ask(nonce, "acme").is_ok()));
    assert_eq!(ask(4, "acme"), Err(Exhausted::Organisation));
    assert!((10..14).all(|nonce| ask(nonce, "other").is_ok()));
    assert_eq!(ask(14, "third"), Err(Exhausted::All));
    calls.take(&[0; 16]).unwrap();
    assert_eq!(ask(5, "acme"), Ok(()), "an answer makes room");
    (1..14).for_each(|nonce| drop(calls.take(&[nonce; 16])));
    assert_eq!(calls.shares.holders(), 0, "nothing is left behind");
}

#[test]
fn a_round_is_taken_once_for_its_own_call() {
    let calls = AskedCalls::default();
    assert!(!calls.take_round(&[1; 32]));
    calls.open_round([1; 32], &limits(3));
    assert!(!calls.take_round(&[2; 32]));
    assert!(calls.take_round(&[1; 32]));
    assert!(!calls.take_round(&[1; 32]));
    for at in 0..5 {
        calls.open_round([at; 32], &limits(3));
    }
    assert_eq!((0..5).filter(|at| calls.take_round(&[*at; 32])).count(), 3);
}
