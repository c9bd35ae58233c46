//! Queries: bounded, stemmed, with pairs of adjacent words and with synonyms.

use std::collections::BTreeMap;

use ahash::AHashMap;
use thiserror::Error;

use crate::words::Words;

/// Longest query in bytes.
pub const MAX_QUERY_BYTES: usize = 4 * 1024;
/// Distinct words, pairs and synonyms of a query that count; further ones are ignored.
pub const MAX_QUERY_TERMS: usize = 128;

/// Weights relative to a word of the query.
const PAIR_WEIGHT: f32 = 0.5;
const COMMON_SYNONYM_WEIGHT: f32 = 0.35;
const CONFIGURED_SYNONYM_WEIGHT: f32 = 0.7;
/// Weight of each repetition of a word.
const REPETITION_WEIGHT: f32 = 0.1;

/// Words that tools and requests use for the same, in any domain: groups separated by commas.
const COMMON_SYNONYMS: &str = "create make generate add new, delete remove, \
    update edit modify change, find search lookup query, get fetch retrieve read show view, \
    send post, save write store, image picture photo, movie film, repository repo, \
    kubernetes k8s, database db, message msg, document doc, directory dir folder, \
    configuration config, information info detail, statistics stats, url link, email mail, \
    price cost, buy purchase, compute calculate, convert transform, car vehicle, \
    recommend suggest, current latest recent, company business, command shell terminal, \
    issue ticket bug";

/// A rejected query.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum QueryError {
    #[error("it has {0} bytes, more than {MAX_QUERY_BYTES}; describe the task in a sentence")]
    TooLong(usize),
    #[error("it has no words to search for; describe the task in a sentence")]
    Empty,
}

/// Words of equal meaning, by stem.
#[derive(Clone, Debug)]
pub struct Synonyms(BTreeMap<Box<str>, Vec<(Box<str>, f32)>>);

impl Default for Synonyms {
    fn default() -> Self {
        Self::new([])
    }
}

impl Synonyms {
    /// Returns the common synonyms and those of an operator: words of queries, each with words of
    /// tools.
    pub fn new<'a>(configured: impl IntoIterator<Item = (&'a str, &'a [String])>) -> Self {
        let mut synonyms = Self(BTreeMap::new());
        let mut words = Words::default();
        for (word, meanings) in configured {
            for meaning in meanings {
                synonyms.add(&mut words, word, meaning, CONFIGURED_SYNONYM_WEIGHT);
            }
        }
        for group in COMMON_SYNONYMS.split(", ") {
            let group = Vec::from_iter(group.split(' '));
            for word in &group {
                for meaning in group.iter().filter(|other| *other != word) {
                    synonyms.add(&mut words, word, meaning, COMMON_SYNONYM_WEIGHT);
                }
            }
        }
        synonyms
    }

    /// Adds the stems of `meaning` to those of `word`.
    fn add(&mut self, words: &mut Words, word: &str, meaning: &str, weight: f32) {
        let mut stems: Vec<Box<str>> = Vec::new();
        words.split(meaning, &mut |stem| stems.push(stem.into()));
        words.split(word, &mut |stem| {
            let known = self.0.entry(stem.into()).or_default();
            for stem in &stems {
                known.push((stem.clone(), weight));
            }
        });
    }
}

/// A parsed query.
#[derive(Debug)]
pub struct Query {
    pub(crate) terms: Vec<Term>,
}

#[derive(Debug)]
pub(crate) struct Term {
    pub(crate) stem: Box<str>,
    pub(crate) weight: f32,
    /// Whether it may be a misspelt word, unlike a pair or a synonym.
    pub(crate) is_word: bool,
}

impl Query {
    /// Parses the text of a query.
    ///
    /// # Errors
    /// The query is too long, or has no words.
    pub fn parse(text: &str, synonyms: &Synonyms) -> Result<Self, QueryError> {
        if text.len() > MAX_QUERY_BYTES {
            return Err(QueryError::TooLong(text.len()));
        }
        let mut terms = Terms::default();
        let mut before = String::new();
        Words::default().split(text, &mut |stem| {
            terms.add(stem, 1.0, true);
            if !before.is_empty() {
                before.push_str(stem);
                terms.add(&before, PAIR_WEIGHT, false);
            }
            before.replace_range(.., stem);
        });
        for at in 0..terms.all.len() {
            for (synonym, weight) in synonyms.0.get(&terms.all[at].stem).into_iter().flatten() {
                terms.add(synonym, *weight, false);
            }
        }
        if terms.all.is_empty() { Err(QueryError::Empty) } else { Ok(Self { terms: terms.all }) }
    }
}

#[derive(Default)]
struct Terms {
    all: Vec<Term>,
    known: AHashMap<Box<str>, usize>,
}

impl Terms {
    fn add(&mut self, stem: &str, weight: f32, is_word: bool) {
        if let Some(&at) = self.known.get(stem) {
            self.all[at].weight += weight * REPETITION_WEIGHT;
        } else if self.all.len() < MAX_QUERY_TERMS {
            self.known.insert(stem.into(), self.all.len());
            self.all.push(Term { stem: stem.into(), weight, is_word });
        }
    }
}

#[cfg(test)]
mod tests;
