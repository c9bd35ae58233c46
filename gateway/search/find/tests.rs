//! Tests of the ranking by words and by vectors.

use super::{LANES, Part, Vector, find, find_similar, multiply, normalize};
use crate::tests::build;
use crate::{Document, Index, Query, Synonyms};

const ALL: &dyn Fn(u32) -> bool = &|_| true;

fn index(tools: &[(&str, &str)]) -> Index {
    build(tools.iter().map(|(name, description)| Document {
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

fn named(names: &[&str]) -> Index {
    build(names.iter().map(|name| Document { name, ..Document::default() }))
}

fn vector(numbers: &[f32]) -> Vector {
    normalize(numbers.to_vec()).unwrap()
}

fn query(text: &str) -> Query {
    Query::parse(text, &Synonyms::default()).unwrap()
}

fn places(
    parts: &[Part<'_>],
    vectors: &[&[Vector]],
    text: &str,
    near: &[f32],
) -> Vec<(usize, u32)> {
    let hits = find_similar(parts, &query(text), vectors, &vector(near), 5);
    hits.iter().map(|hit| (hit.part, hit.document)).collect()
}

#[test]
fn vectors_have_length_one_or_are_refused() {
    assert_eq!(*vector(&[3.0, 0.0, -4.0]), [0.6, 0.0, -0.8]);
    assert_eq!(vector(&[f32::MAX, f32::MAX])[0], 0.5_f32.sqrt());
    assert_eq!(*vector(&[f32::MIN_POSITIVE, 0.0]), [1.0, 0.0]);
    for bad in [&[][..], &[0.0, 0.0], &[1.0, f32::NAN], &[f32::INFINITY, 1.0]] {
        assert_eq!(normalize(bad.to_vec()), None, "{bad:?}");
    }
}

#[test]
fn all_numbers_are_multiplied() {
    for count in [1, LANES - 1, LANES, LANES + 1, 3 * LANES + 2] {
        let numbers: Vec<f32> = (1..=count).map(|number| number as f32).collect();
        let expected: f32 = numbers.iter().map(|number| number * 2.0).sum();
        assert_eq!(multiply(&numbers, &vec![2.0; count]), expected, "{count}");
    }
}

#[test]
fn tools_are_found_by_words_and_by_vectors() {
    let index = named(&["alpha", "beta", "gamma", "delta"]);
    let vectors: Vec<Vector> = [[1.0, 0.0], [0.0, 1.0], [0.6, 0.8], [-1.0, 0.0]]
        .iter()
        .map(|numbers| vector(numbers))
        .collect();
    let parts = [Part { index: &index, includes: ALL }];
    // No word is found, so the vector alone decides.
    assert!(find(&parts, &query("omega"), 5).is_empty());
    let order = places(&parts, &[&vectors], "omega", &[0.0, 1.0]);
    assert_eq!(order, [(0, 1), (0, 2), (0, 0), (0, 3)]);
    // Second of one order and first of the other.
    assert_eq!(places(&parts, &[&vectors], "gamma", &[0.0, 1.0])[..2], [(0, 2), (0, 1)]);
}

#[test]
fn excluded_tools_are_not_found_by_vectors() {
    let index = named(&["alpha", "beta", "gamma"]);
    let vectors: Vec<Vector> = vec![vector(&[1.0, 0.0]); 3];
    let parts = [Part { index: &index, includes: &|number| number != 1 }];
    assert_eq!(places(&parts, &[&vectors], "omega", &[1.0, 0.0]), [(0, 0), (0, 2)]);
}

#[test]
fn equal_vectors_keep_the_order_of_tools() {
    let names: Vec<String> = (0..200).map(|number| format!("tool{number}x")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (one, other) = (named(&names), named(&names));
    let vectors = vec![vector(&[0.6, 0.8]); 200];
    let parts = [Part { index: &one, includes: ALL }, Part { index: &other, includes: ALL }];
    for _ in 0..10 {
        let order = places(&parts, &[&vectors, &vectors], "omega", &[1.0, 0.0]);
        assert_eq!(order, [(0, 0), (0, 1), (0, 2), (0, 3), (0, 4)]);
    }
}
