//! Parts of resources.

use super::*;

#[test]
fn a_part_begins_where_a_name_ends() {
    for (own, covered) in [
        ("note://one", true),
        ("note://one/line/2", true),
        ("note://one?line=2", true),
        ("note://one#2", true),
        ("note://one-more", false),
        ("note://on", false),
    ] {
        assert_eq!(covers_resource("note://one", own), covered, "{own}");
    }
    assert!(covers_resource("file:///a/", "file:///a/b"));
}
