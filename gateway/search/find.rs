//! Ranks the tools of one or several indexes for a query. Tools that are not included are never
//! found and count in no word's rarity; they count in the average lengths of an index, and their
//! words among those that are similar to an unknown word.

use std::cmp::Ordering;

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
            let mut of_part = vec![NOT_INCLUDED; part.index.len()];
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
pub(crate) fn keep_best(hits: &mut Vec<Hit>, limit: usize) {
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

#[cfg(test)]
mod tests;
