//! Tests of reading callgrind's counts and of the order.

use super::*;

#[test]
fn callees_follow_their_most_frequent_caller() {
    let mut profile = Profile::default();
    profile.add(
        "fn=(1) _main\n10 5000\ncfn=(2) _often\ncalls=90 1\n+1 9\ncfn=(3) _rare\ncalls=1 1\n+2 9\n\
         fn=(2)\n1 4000\ncfn=(4) _leaf\ncalls=80 1\n* 9\n\nfn=(4) _leaf'2\n7 3000\nfn=(3)\n9 9\n\
         fn=(5) _apart\n4 90000\nfn=(6) malloc\n1 90000\n",
    );
    assert_eq!(order(&profile), ["_apart", "_main", "_often", "_leaf"]);
}
