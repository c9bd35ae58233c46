//! Slugs derived from names.

use super::*;

fn taken(slugs: &[&str]) -> BTreeSet<String> {
    slugs.iter().map(ToString::to_string).collect()
}

#[test]
fn a_slug_is_what_ascii_is_left_of_the_name() {
    let none = taken(&[]);
    let long = "y".repeat(80);
    let cases = [
        ("GitHub", "github"),
        ("GitHub Enterprise (EU)", "github-enterprise-eu"),
        ("  --a__b--  ", "a-b"),
        ("中文", "integration"),
        ("Straße 7", "stra-e-7"),
        (&long, &long[..64]),
    ];
    for (name, slug) in cases {
        assert_eq!(derive_slug(name, &none), slug, "{name}");
    }
}

#[test]
fn a_slug_that_is_taken_gets_a_number() {
    assert_eq!(derive_slug("GitHub", &taken(&["github"])), "github-2");
    assert_eq!(derive_slug("GitHub", &taken(&["github", "github-2", "github-3"])), "github-4");
    let long = "y".repeat(64);
    let slug = derive_slug(&long, &taken(&[&long]));
    assert_eq!(slug, format!("{}-2", "y".repeat(62)));
}
