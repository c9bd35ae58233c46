//! Tests of `receiver`.

use super::*;

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
