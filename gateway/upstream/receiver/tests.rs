//! Tests of `receiver`.

use super::*;

#[test]
fn a_server_may_log_so_much_in_a_second_and_no_more() {
    let pace = Pace::default();
    let start = Instant::now();
    let admitted = (0..LOGGED + 10).filter(|_| pace.admits(start)).count();
    assert_eq!(admitted, LOGGED as usize);
    assert!(!pace.admits(start + Duration::from_millis(999)));
    assert!(pace.admits(start + Duration::from_secs(1)));
}
