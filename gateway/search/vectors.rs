//! The order of tools by words and by vectors together. Deterministic, like the order by words.

use std::sync::Arc;

use ahash::AHashMap;

use crate::find::{Hit, Part, find, keep_best};
use crate::query::Query;

/// Tools of each of the two orders that are ranked together.
const CANDIDATES: usize = 50;
/// Constant of reciprocal rank fusion: a tool counts for `1 / (RANK_OFFSET + rank)` in each order.
const RANK_OFFSET: f32 = 60.0;
/// Numbers that are multiplied at once.
const LANES: usize = 8;

/// A vector of length 1.
pub type Vector = Arc<[f32]>;

/// Returns the vector of length 1 in this direction, or `None` if a number is not finite, or all
/// are zero.
#[must_use]
pub fn normalize(mut numbers: Vec<f32>) -> Option<Vector> {
    let mut sum = 0.0;
    for number in &numbers {
        sum += f64::from(*number).powi(2);
    }
    let length = sum.sqrt();
    if !length.is_finite() || length == 0.0 {
        return None;
    }
    for number in &mut numbers {
        *number = (f64::from(*number) / length) as f32;
    }
    Some(numbers.into())
}

/// Returns the best tools for a query and its vector, best first; equal ones in the order of parts
/// and documents. `vectors` are those of the tools of each part.
#[must_use]
pub fn find_similar(
    parts: &[Part<'_>],
    query: &Query,
    vectors: &[&[Vector]],
    vector: &[f32],
    limit: usize,
) -> Vec<Hit> {
    let by_words = find(parts, query, CANDIDATES);
    let mut by_vector = Vec::new();
    for (part, (tools, vectors)) in parts.iter().zip(vectors).enumerate() {
        for (document, of_tool) in (0..).zip(*vectors) {
            if (tools.includes)(document) {
                by_vector.push(Hit { part, document, score: multiply(of_tool, vector) });
            }
        }
    }
    keep_best(&mut by_vector, CANDIDATES);
    fuse([by_words, by_vector], limit)
}

fn fuse(orders: [Vec<Hit>; 2], limit: usize) -> Vec<Hit> {
    let mut scores: AHashMap<(usize, u32), f32> = AHashMap::new();
    for order in orders {
        let mut rank = RANK_OFFSET;
        for hit in order {
            rank += 1.0;
            *scores.entry((hit.part, hit.document)).or_default() += 1.0 / rank;
        }
    }
    let mut hits = Vec::with_capacity(scores.len());
    for ((part, document), score) in scores {
        hits.push(Hit { part, document, score });
    }
    keep_best(&mut hits, limit);
    hits
}

fn multiply(one: &[f32], other: &[f32]) -> f32 {
    let mut sums = [0.0; LANES];
    for (one, other) in one.chunks(LANES).zip(other.chunks(LANES)) {
        for (sum, (one, other)) in sums.iter_mut().zip(one.iter().zip(other)) {
            *sum += one * other;
        }
    }
    sums.iter().sum()
}

#[cfg(test)]
mod tests;
