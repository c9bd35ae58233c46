//! Tests of small rules without files.

use super::{is_slug, level_word};

#[test]
fn words_of_other_programs_for_levels_are_translated() {
    for (word, level) in [
        ("WARNING", "warn"),
        ("notice", "info"),
        ("Alert", "error"),
        ("a=Debug", "a=Debug"),
        ("x", "x"),
    ] {
        assert_eq!(level_word(word), level);
    }
}

#[test]
fn slugs_are_lower_case_digits_and_dashes() {
    for (name, valid) in
        [("a", true), ("a-1", true), ("", false), ("a b", false), ("A", false), ("a/b", false)]
    {
        assert_eq!(is_slug(name), valid, "{name}");
    }
}
