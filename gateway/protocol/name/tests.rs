//! Tests of `name`.

#![allow(clippy::unwrap_used)]
use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

fn expose(naming: Naming, entries: &[(&str, &str)]) -> Vec<String> {
    let slugs: Vec<Slug> = entries.iter().map(|(slug, _)| Slug::new(slug).unwrap()).collect();
    naming.expose(slugs.iter().zip(entries).map(|(slug, (_, own))| (slug, *own)))
}

fn hex(slug: &str, own: &str, digits: usize) -> String {
    let hash = digest::digest(&SHA256, [slug, "\0", own].concat().as_bytes());
    hash.as_ref().iter().map(|b| format!("{b:02x}")).collect::<String>()[..digits].to_owned()
}

#[test]
fn slugs_are_lower_case_letters_digits_and_hyphens() {
    for good in ["a", "a-b", "-", "0", "9-lives", &"a".repeat(64)] {
        assert_eq!(&*Slug::new(good).unwrap(), good);
    }
    for bad in ["", "A", "a_b", "a.b", "a/b", "a+b", "a b", "ä", "a\n", "a\0", &"a".repeat(65)] {
        assert_eq!(Slug::new(bad), Err(BadSlug), "{bad:?}");
    }
}

#[test]
fn a_name_is_slug_separator_own_name_with_other_characters_replaced() {
    use Separator::{Dot, DoubleUnderscore, Hyphen, Slash, Underscore};
    let table = [
        (DoubleUnderscore, "fs", "read", "fs__read"),
        (Underscore, "fs", "read", "fs_read"),
        (Hyphen, "fs", "read", "fs-read"),
        (Dot, "fs", "read", "fs.read"),
        (Slash, "fs", "read", "fs/read"),
        (Slash, "fs", "a/b", "fs/a/b"),
        (DoubleUnderscore, "fs", "a/b", "fs__a_b"),
        (DoubleUnderscore, "fs", "Read.File-2_x", "fs__Read.File-2_x"),
        (DoubleUnderscore, "fs", "a b:c\0", "fs__a_b_c_"),
        (DoubleUnderscore, "fs", "über", "fs___ber"),
        (DoubleUnderscore, "fs", "", "fs__"),
        (DoubleUnderscore, "fs", "web__get", "fs__web__get"),
    ];
    for (separator, slug, own, expected) in table {
        let naming = Naming { separator, ..Naming::default() };
        assert_eq!(expose(naming, &[(slug, own)]), [expected]);
    }
}

#[test]
fn a_long_name_keeps_its_beginning_and_ends_in_a_hash() {
    let fits = "x".repeat(60);
    assert_eq!(expose(Naming::default(), &[("fs", &fits)]), [format!("fs__{fits}")]);
    let long = "x".repeat(61);
    let expected = format!("fs__{}_{}", "x".repeat(51), hex("fs", &long, 8));
    assert_eq!(expected.len(), 64);
    assert_eq!(expose(Naming::default(), &[("fs", &long)]), [expected]);
    for (max_length, length) in [(0, 40), (40, 40), (100, 100), (128, 128), (usize::MAX, 128)] {
        let naming = Naming { max_length, ..Naming::default() };
        let slug = "s".repeat(64);
        assert_eq!(expose(naming, &[(&slug, &"y".repeat(100_000))])[0].len(), length);
    }
}

#[test]
fn of_names_that_collide_none_stays_bare() {
    let entries = [("fs", "a b"), ("fs", "a/b"), ("fs", "A_B"), ("fs", "other")];
    let mut expected: Vec<String> = ["fs__a_b", "fs__a_b", "fs__A_B"]
        .iter()
        .zip(entries)
        .map(|(plain, (slug, own))| format!("{plain}_{}", hex(slug, own, 8)))
        .collect();
    expected.push("fs__other".into());
    assert_eq!(expose(Naming::default(), &entries), expected);

    let hyphen = Naming { separator: Separator::Hyphen, ..Naming::default() };
    let (one, two) = (("a", "b-c"), ("a-b", "c"));
    assert_eq!(
        expose(hyphen, &[one, two]),
        [format!("a-b-c_{}", hex("a", "b-c", 8)), format!("a-b-c_{}", hex("a-b", "c", 8))]
    );
}

#[test]
fn a_name_made_to_look_like_anothers_hashed_name_gives_way_and_so_does_the_other() {
    let forged = format!("a_b_{}", hex("fs", "a b", 8).to_uppercase());
    let entries = [("fs", "a b"), ("fs", "a/b"), ("fs", &*forged)];
    assert_eq!(
        expose(Naming::default(), &entries),
        [
            format!("fs__a_b_{}", hex("fs", "a b", 16)),
            format!("fs__a_b_{}", hex("fs", "a/b", 8)),
            format!("fs__{forged}_{}", hex("fs", &forged, 8)),
        ]
    );
    let (second, third) =
        (format!("a_b_{}", hex("fs", "a b", 16)), format!("a_b_{}", hex("fs", "a b", 32)));
    let entries =
        [("fs", "a b"), ("fs", "a/b"), ("fs", &*forged), ("fs", &*second), ("fs", &*third)];
    let names = expose(Naming::default(), &entries);
    assert_eq!(names[0], format!("fs__{third}"));
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), entries.len());
}

#[test]
fn a_chain_of_names_that_each_look_like_the_hash_of_the_one_before_settles_quickly() {
    let mut owns = vec!["a b".to_owned(), "a/b".to_owned()];
    while owns.len() < 20_000 {
        let last = owns.last().unwrap();
        let plain: String = last.chars().map(|c| if c == '/' { '_' } else { c }).collect();
        let next = format!("{}_{}", plain.get(..51).unwrap_or(&plain), hex("fs", last, 8));
        owns.push(next);
    }
    let entries: Vec<(&str, &str)> = owns.iter().map(|own| ("fs", own.as_str())).collect();
    let names = expose(Naming::default(), &entries);
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), entries.len());
}

#[test]
fn the_same_entry_twice_has_the_same_name_twice() {
    assert_eq!(expose(Naming::default(), &[("fs", "a"), ("fs", "a")]), ["fs__a", "fs__a"]);
}

#[test]
fn aliases_join_slug_and_own_name_as_they_are() {
    let slug = Slug::new("fs").unwrap();
    let aliases = |separator, own| {
        Naming { separator, ..Naming::default() }.aliases(&slug, own).collect::<Vec<_>>()
    };
    assert_eq!(
        aliases(Separator::DoubleUnderscore, "read file"),
        ["fs/read file", "fs__read file"]
    );
    assert_eq!(aliases(Separator::Slash, "read"), ["fs/read", "fs__read"]);
    assert_eq!(aliases(Separator::Dot, "read"), ["fs/read", "fs__read", "fs.read"]);
}

fn naming() -> impl Strategy<Value = Naming> {
    (prop::sample::select(Separator::ALL.to_vec()), 40usize..=128)
        .prop_map(|(separator, max_length)| Naming { separator, max_length })
}

fn entries() -> impl Strategy<Value = BTreeSet<(String, String)>> {
    let slug = prop_oneof!["[ab-]{1,3}", "[a-z0-9-]{1,64}"];
    let own = prop_oneof!["[abAB_./ -]{0,4}", "[aA]{30,70}", "\\PC{0,80}", ".{0,10}"];
    prop::collection::btree_set((slug, own), 0..30)
}

proptest! {
    #[test]
    fn names_are_legal_distinct_and_independent_of_order(
        naming in naming(),
        (entries, shuffled) in entries().prop_flat_map(|set| {
            let list: Vec<_> = set.into_iter().collect();
            (Just(list.clone()), Just(list).prop_shuffle())
        }),
    ) {
        let exposed = |list: &[(String, String)]| {
            let pairs: Vec<_> = list.iter().map(|(s, o)| (s.as_str(), o.as_str())).collect();
            expose(naming, &pairs)
        };
        let names = exposed(&entries);
        prop_assert_eq!(names.len(), entries.len());
        let distinct: BTreeSet<String> = names.iter().map(|n| n.to_ascii_lowercase()).collect();
        prop_assert_eq!(distinct.len(), names.len());
        for name in &names {
            prop_assert!(name.len() <= naming.max_length);
            let legal = |b| matches!(b, b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'.' | b'-')
                || (b == b'/' && naming.separator == Separator::Slash);
            prop_assert!(name.bytes().all(legal));
        }
        let by_entry: BTreeMap<_, _> = entries.into_iter().zip(names).collect();
        let again: BTreeMap<_, _> = shuffled.iter().cloned().zip(exposed(&shuffled)).collect();
        prop_assert_eq!(by_entry, again);
    }

    #[test]
    fn one_more_entry_never_takes_over_a_name(naming in naming(), entries in entries(), more in entries()) {
        let pairs: Vec<_> = entries.iter().map(|(s, o)| (s.as_str(), o.as_str())).collect();
        let both: BTreeSet<_> = entries.union(&more).cloned().collect();
        let all: Vec<_> = both.iter().map(|(s, o)| (s.as_str(), o.as_str())).collect();
        let before: BTreeMap<_, _> = expose(naming, &pairs).into_iter().zip(pairs.iter()).collect();
        for (name, entry) in expose(naming, &all).into_iter().zip(&all) {
            if let Some(owner) = before.get(&name) {
                prop_assert_eq!(*owner, entry);
            }
        }
    }
}
