//! Tests of `count`.

use super::count;

#[test]
fn a_noun_agrees_with_its_number() {
    assert_eq!(count(0_usize, "server"), "0 servers");
    assert_eq!(count(1_usize, "server"), "1 server");
    assert_eq!(count(2_i64, "server"), "2 servers");
    assert_eq!([1_u64, 3].map(|n| count(n, "policy")), ["1 policy", "3 policies"]);
}
