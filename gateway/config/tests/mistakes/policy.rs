//! Mistakes in the configuration's own policy.

use super::{Case, hold};

const CASES: &[Case] = &[(
    "lockgate.yaml",
    "policy: { tools: { allow: ['a[', '*'] }, calls_per_minute: 0 }\n",
    &[
        "lockgate.yaml:1:28: policy.tools.allow.0: is not a valid pattern: unclosed character class; missing ']' (it is `a[`) — use *, ?, [a-z] and {a,b}",
        "lockgate.yaml:1:60: policy.calls_per_minute: must be from 1 to 1000000 (it is `0`) — remove it for the default",
    ],
)];

#[test]
fn every_mistake_in_policy_is_reported_with_a_hint() {
    hold(CASES);
}
