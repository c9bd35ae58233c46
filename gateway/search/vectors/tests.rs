//! Tests of vectors, and of the order that they have a part in.

use super::{LANES, Vector, find_similar, multiply, normalize};
use crate::{Document, Index, Part, Query, Synonyms, find};

const ALL: &dyn Fn(u32) -> bool = &|_| true;

fn index(names: &[&str]) -> Index {
    Index::build(names.iter().map(|name| Document { name, ..Document::default() }))
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
    let index = index(&["alpha", "beta", "gamma", "delta"]);
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
    let index = index(&["alpha", "beta", "gamma"]);
    let vectors: Vec<Vector> = vec![vector(&[1.0, 0.0]); 3];
    let parts = [Part { index: &index, includes: &|number| number != 1 }];
    assert_eq!(places(&parts, &[&vectors], "omega", &[1.0, 0.0]), [(0, 0), (0, 2)]);
}

#[test]
fn equal_vectors_keep_the_order_of_tools() {
    let names: Vec<String> = (0..200).map(|number| format!("tool{number}x")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (one, other) = (index(&names), index(&names));
    let vectors = vec![vector(&[0.6, 0.8]); 200];
    let parts = [Part { index: &one, includes: ALL }, Part { index: &other, includes: ALL }];
    for _ in 0..10 {
        let order = places(&parts, &[&vectors, &vectors], "omega", &[1.0, 0.0]);
        assert_eq!(order, [(0, 0), (0, 1), (0, 2), (0, 3), (0, 4)]);
    }
}
