//! Tests of the ranking.

use super::{Part, find};
use crate::{Document, Index, Query, Synonyms};

const ALL: &dyn Fn(u32) -> bool = &|_| true;

fn index(tools: &[(&str, &str)]) -> Index {
    Index::build(tools.iter().map(|(name, description)| Document {
        name,
        description,
        ..Document::default()
    }))
}

fn search(parts: &[Part<'_>], query: &str) -> Vec<(usize, u32)> {
    let query = Query::parse(query, &Synonyms::default()).unwrap();
    find(parts, &query, 5).iter().map(|hit| (hit.part, hit.document)).collect()
}

fn weather() -> Index {
    index(&[
        ("send_message", "Sends a message to a channel."),
        ("get_forecast", "Returns the weather of the next days."),
        ("list_channels", "Lists the channels of a team."),
        ("get_weather", "Returns the current weather."),
    ])
}

#[test]
fn names_weigh_more_than_descriptions() {
    let index = weather();
    let all = [Part { index: &index, includes: ALL }];
    assert_eq!(search(&all, "weather"), [(0, 3), (0, 1)]);
}

#[test]
fn misspelt_words_are_found() {
    let index = weather();
    let all = [Part { index: &index, includes: ALL }];
    assert_eq!(search(&all, "wheather")[0], (0, 3));
    assert_eq!(search(&all, "chanels")[0], (0, 2));
    assert!(search(&all, "submarine").is_empty());
}

#[test]
fn excluded_tools_change_nothing() {
    let index = weather();
    let tools = [("get_forecast", "Returns the weather of the next days."), ("x", "message")];
    let alone = self::index(&tools[..1]);
    let query = Query::parse("weather wheather message", &Synonyms::default()).unwrap();
    let only = find(&[Part { index: &index, includes: &|number| number == 1 }], &query, 5);
    assert_eq!(only.len(), find(&[Part { index: &alone, includes: ALL }], &query, 5).len());
    assert_eq!(only[0].document, 1);
    assert!(find(&[Part { index: &index, includes: &|_| false }], &query, 5).is_empty());
}

#[test]
fn parts_are_ranked_together_and_ties_keep_their_order() {
    let (one, other) = (weather(), weather());
    let both = [Part { index: &one, includes: ALL }, Part { index: &other, includes: ALL }];
    assert_eq!(search(&both, "weather"), [(0, 3), (1, 3), (0, 1), (1, 1)]);
}

#[test]
fn tools_of_equal_names_are_found_in_order() {
    let many = vec![("same", "The same tool."); 10_000];
    let index = index(&many);
    let found = search(&[Part { index: &index, includes: ALL }], "same tool");
    assert_eq!(found, [(0, 0), (0, 1), (0, 2), (0, 3), (0, 4)]);
}
