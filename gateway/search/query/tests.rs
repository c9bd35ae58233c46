//! Tests of queries.

use super::{MAX_QUERY_BYTES, MAX_QUERY_TERMS, Query, QueryError, Synonyms};

fn stems(text: &str, synonyms: &Synonyms) -> Vec<String> {
    let query = Query::parse(text, synonyms).unwrap();
    query.terms.iter().map(|term| term.stem.to_string()).collect()
}

#[test]
fn a_query_has_words_and_pairs() {
    let none = Synonyms(std::collections::BTreeMap::new());
    assert_eq!(stems("time zone time", &none), ["time", "zone", "timezone", "zonetime"]);
}

#[test]
fn synonyms_are_added_in_both_forms() {
    let crm = ["customer relations".to_owned()];
    let synonyms = Synonyms::new([("Clients", &crm[..])]);
    assert_eq!(stems("client", &synonyms), ["client", "custom", "relat"]);
    assert!(stems("delete", &Synonyms::default()).contains(&"remov".to_owned()));
}

#[test]
fn queries_are_bounded() {
    let none = Synonyms::default();
    let longest = "x".repeat(MAX_QUERY_BYTES);
    assert!(Query::parse(&longest, &none).is_ok());
    let longer = Query::parse(&format!("{longest}x"), &none).unwrap_err();
    assert_eq!(longer, QueryError::TooLong(MAX_QUERY_BYTES + 1));
    let mut many = String::new();
    for number in 0..MAX_QUERY_TERMS {
        many.push_str(&format!("w{number} "));
    }
    assert_eq!(stems(&many, &none).len(), MAX_QUERY_TERMS);
}

#[test]
fn a_query_without_words_is_rejected() {
    for text in ["", " ", "the of a", "***", "\u{200b}\u{feff}", "((((.*)+)+)+$"] {
        assert_eq!(Query::parse(text, &Synonyms::default()).unwrap_err(), QueryError::Empty);
    }
}
