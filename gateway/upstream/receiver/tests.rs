//! Tests of `receiver`.

use super::*;

#[test]
fn a_start_is_a_sign_of_life_but_no_message() {
    let server = Arc::new(LastHeard::new());
    let first = LastHeard::of_connection(&server);
    assert_eq!(server.silent_for(), None, "it was started, and sent nothing");
    first.record();
    std::thread::sleep(Duration::from_millis(20));
    let _second = LastHeard::of_connection(&server);
    assert!(server.silent_for().is_some_and(|silent| silent >= Duration::from_millis(10)));
    assert!(server.get() >= first.get());
}

#[test]
fn a_server_may_say_so_much_in_a_second_and_no_more() {
    for most in [MAX_LOGS_PER_SECOND, MAX_UPDATES_PER_SECOND] {
        let pace = Pace::default();
        let start = Instant::now();
        let admitted = (0..most + 10).filter(|_| pace.admits(most, start)).count();
        assert_eq!(admitted, most as usize);
        assert!(!pace.admits(most, start + Duration::from_millis(999)));
        assert!(pace.admits(most, start + Duration::from_secs(1)));
    }
}
