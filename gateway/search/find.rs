//! Ranks the tools of one or several indexes for a query, by words, or by words and by vectors
//! together. Tools that are not included are never found and count in no word's rarity; they count
//! in the average lengths of an index, and their words among those that are similar to an unknown
//! word.

use std::cmp::Ordering;
use std::sync::Arc;

use ahash::AHashMap;

use crate::index::Index;
use crate::query::Query;

/// Weight of a similar word in place of a word that no tool has.
const SIMILAR_WEIGHT: f32 = 0.3;
/// Unknown words of a query for which similar words are tried.
const MAX_UNKNOWN: usize = 16;
/// Exponent of a word's rarity.
const RARITY: f32 = 1.2;
/// Score of a tool that is not included. Adding to it changes nothing.
const NOT_INCLUDED: f32 = f32::NEG_INFINITY;

/// Some of the tools of an index.
#[derive(Clone, Copy)]
pub struct Part<'a> {
    pub index: &'a Index,
    /// Returns whether the tool of this number may be found.
    pub includes: &'a dyn Fn(u32) -> bool,
}

/// A tool that was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hit {
    /// Position of the part among the given parts.
    pub part: usize,
    pub document: u32,
    pub score: f32,
}

/// Returns the best tools for a query, best first; equal ones in the order of parts and documents.
pub fn find(parts: &[Part<'_>], query: &Query, limit: usize) -> Vec<Hit> {
    let mut ranking = Ranking::new(parts);
    let mut unknown = 0;
    for term in &query.terms {
        let is_known = ranking.add(&term.stem, term.weight);
        if is_known || !term.is_word || unknown == MAX_UNKNOWN {
            continue;
        }
        unknown += 1;
        let mut similar: Vec<&str> = Vec::new();
        for part in parts {
            similar.extend(part.index.similar(&term.stem));
        }
        similar.sort_unstable();
        similar.dedup();
        for word in similar {
            ranking.add(word, term.weight * SIMILAR_WEIGHT);
        }
    }
    ranking.finish(limit)
}

struct Ranking<'a> {
    parts: &'a [Part<'a>],
    /// Scores by part and document.
    scores: Vec<Vec<f32>>,
    included: usize,
}

impl<'a> Ranking<'a> {
    fn new(parts: &'a [Part<'a>]) -> Self {
        let mut scores = Vec::with_capacity(parts.len());
        let mut included = 0;
        for part in parts {
            let mut of_part = vec![NOT_INCLUDED; part.index.documents];
            for (number, score) in (0..).zip(&mut of_part) {
                if (part.includes)(number) {
                    *score = 0.0;
                    included += 1;
                }
            }
            scores.push(of_part);
        }
        Self { parts, scores, included }
    }

    /// Adds the scores of a term. Returns `false` if no included tool has it.
    fn add(&mut self, term: &str, weight: f32) -> bool {
        let mut having = 0;
        for (part, scores) in self.parts.iter().zip(&self.scores) {
            for (number, _) in part.index.postings(term) {
                having += usize::from(scores[*number as usize] >= 0.0);
            }
        }
        if having == 0 {
            return false;
        }
        let rarity = (self.included - having) as f32 + 0.5;
        let rarity = (1.0 + rarity / (having as f32 + 0.5)).ln().powf(RARITY);
        for (part, scores) in self.parts.iter().zip(&mut self.scores) {
            for (number, in_tool) in part.index.postings(term) {
                scores[*number as usize] += weight * rarity * in_tool;
            }
        }
        true
    }

    fn finish(self, limit: usize) -> Vec<Hit> {
        let mut hits = Vec::new();
        for (part, scores) in self.scores.into_iter().enumerate() {
            for (document, score) in (0..).zip(scores) {
                if score > 0.0 {
                    hits.push(Hit { part, document, score });
                }
            }
        }
        keep_best(&mut hits, limit);
        hits
    }
}

/// Keeps so many of the hits, best first.
fn keep_best(hits: &mut Vec<Hit>, limit: usize) {
    if limit < hits.len() {
        hits.select_nth_unstable_by(limit, best_first);
        hits.truncate(limit);
    }
    hits.sort_unstable_by(best_first);
}

fn best_first(a: &Hit, b: &Hit) -> Ordering {
    let place = (a.part, a.document).cmp(&(b.part, b.document));
    b.score.total_cmp(&a.score).then(place)
}

// The order by words and by vectors together. Deterministic, like the order by words.

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
