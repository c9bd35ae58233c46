//! Tests of the index.

use super::{Document, MAX_TEXT};
use crate::tests::build;

fn tool<'a>(name: &'a str, description: &'a str) -> Document<'a> {
    Document { name, description, ..Document::default() }
}

#[test]
fn similar_words_replace_unknown_words() {
    let index = build([tool("weather_forecast", "repositories")]);
    assert_eq!(index.similar("weathr"), ["weather"]);
    assert_eq!(index.similar("forcast"), ["forecast"]);
    assert_eq!(index.similar("forecsat"), ["forecast"]);
    assert!(index.similar("wether1").is_empty());
    assert!(index.similar("winter").is_empty());
    assert!(index.similar("wea").is_empty());
}

#[test]
fn pairs_are_no_words() {
    let index = build([tool("time_zone", "")]);
    assert_eq!(index.postings("timezone").len(), 1);
    assert!(index.similar("timezonee").is_empty());
}

#[test]
fn texts_are_indexed_up_to_a_limit() {
    let text = format!("{}last", "x ".repeat(MAX_TEXT / 2));
    let index = build([tool("a", &text)]);
    assert!(index.postings("last").is_empty());
    assert_eq!(index.postings("x").len(), 1);
}

#[test]
fn an_empty_index_has_no_words() {
    let index = build([]);
    assert!(index.documents == 0);
    assert!(index.similar("weather").is_empty());
}
