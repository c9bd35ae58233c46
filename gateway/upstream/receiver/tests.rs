//! Tests of `receiver`.

use super::*;

#[test]
fn a_server_may_log_so_much_in_a_second_and_no_more() {
    let pace = Pace::default();
    let start = Instant::now();
    let admitted = (0..LOGGED + 10).filter(|_| pace.admits(LOGGED, start)).count();
    assert_eq!(admitted, LOGGED as usize);
    assert!(!pace.admits(LOGGED, start + Duration::from_millis(999)));
    assert!(pace.admits(LOGGED, start + Duration::from_secs(1)));
}
