//! Tests of names.

use super::slug;

#[test]
fn names_become_valid_and_valid_ones_stay() {
    let long = "a".repeat(70);
    let cases = [
        ("time", Some("time")),
        ("-a-", Some("-a-")),
        ("My Server", Some("my-server")),
        ("a__b..c", Some("a-b-c")),
        ("@scope/name", Some("scope-name")),
        ("ünï", Some("n")),
        ("", None),
        ("___", None),
        (long.as_str(), Some(&long[..64])),
    ];
    for (name, expected) in cases {
        assert_eq!(slug(name).as_deref(), expected, "{name}");
    }
}
