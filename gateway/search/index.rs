//! The inverted index: each word with its tools and weights, computed once.

use ahash::AHashMap;

use crate::words::Words;

/// Saturation of repeated words.
const K1: f32 = 0.6;
/// Name, title, server, description, names of parameters, their descriptions.
const FIELDS: [Field; 6] = [
    Field { weight: 1.35, b: 0.1 },
    Field { weight: 1.0, b: 0.3 },
    Field { weight: 0.85, b: 0.5 },
    Field { weight: 0.45, b: 0.6 },
    Field { weight: 0.95, b: 0.45 },
    Field { weight: 0.45, b: 0.55 },
];
/// Number of leading fields in which pairs of adjacent words count, as in `time zone`.
const FIELDS_WITH_PAIRS: usize = 4;
/// Bytes of each text that are indexed.
const MAX_TEXT: usize = 4 * 1024;
/// Parameters of a tool that are indexed.
const MAX_PARAMETERS: usize = 64;
/// Similar words that replace an unknown word.
const MAX_SIMILAR: usize = 4;

/// A field's weight, and how much its length counts.
struct Field {
    weight: f32,
    b: f32,
}

/// The texts of a tool.
#[derive(Clone, Debug, Default)]
pub struct Document<'a> {
    pub name: &'a str,
    pub title: &'a str,
    pub server: &'a str,
    pub description: &'a str,
    /// Names and descriptions.
    pub parameters: Vec<(&'a str, &'a str)>,
}

/// A word's length and first byte.
type Shape = (usize, u8);
/// A word and the set of its letters.
type Spelling = (u32, Box<str>);

/// An immutable index of tools.
#[derive(Debug, Default)]
pub struct Index {
    pub(crate) documents: usize,
    /// Ranges of `postings`, by word or pair.
    terms: AHashMap<Box<str>, (u32, u32)>,
    /// Documents and the weight of a term in each.
    postings: Vec<(u32, f32)>,
    by_shape: AHashMap<Shape, Vec<Spelling>>,
}

/// Builds an [`Index`] of documents, which are numbered in their order.
#[derive(Default)]
pub struct Builder {
    words: Words,
    counted: Counted,
    lengths: Vec<[f32; FIELDS.len()]>,
}

/// The occurrences of terms while an index is built.
#[derive(Default)]
struct Counted(AHashMap<Box<str>, Occurrences>);

#[derive(Default)]
struct Occurrences {
    /// Whether the term is a word, not only a pair.
    is_word: bool,
    documents: Vec<(u32, [u16; FIELDS.len()])>,
}

impl Builder {
    pub fn add(&mut self, document: &Document<'_>) {
        let number = as_number(self.lengths.len());
        let mut length = [0.0; FIELDS.len()];
        let counted = &mut self.counted;
        for (field, text) in document.texts() {
            let mut before = String::new();
            self.words.split(head(text), &mut |word| {
                length[field] += 1.0;
                counted.add(word, number, field).is_word = true;
                if field < FIELDS_WITH_PAIRS && !before.is_empty() {
                    before.push_str(word);
                    counted.add(&before, number, field);
                }
                before.replace_range(.., word);
            });
        }
        self.lengths.push(length);
    }

    #[must_use]
    pub fn finish(self) -> Index {
        Index::weigh(self.counted, &self.lengths)
    }
}

impl Index {
    fn weigh(counted: Counted, lengths: &[[f32; FIELDS.len()]]) -> Self {
        let mut index = Self { documents: lengths.len(), ..Self::default() };
        let average = average(lengths);
        let mut sorted: Vec<_> = counted.0.into_iter().collect();
        sorted.sort_by(|a, b| a.0.cmp(&b.0));
        for (term, occurrences) in sorted {
            let start = as_number(index.postings.len());
            for (number, counts) in occurrences.documents {
                let weight = weigh(counts, &lengths[number as usize], &average);
                index.postings.push((number, weight));
            }
            if occurrences.is_word {
                let shape = (term.len(), term.as_bytes()[0]);
                index.by_shape.entry(shape).or_default().push((letters(&term), term.clone()));
            }
            index.terms.insert(term, (start, as_number(index.postings.len())));
        }
        index
    }

    pub(crate) fn postings(&self, term: &str) -> &[(u32, f32)] {
        let (start, end) = self.terms.get(term).copied().unwrap_or_default();
        &self.postings[start as usize..end as usize]
    }

    /// Returns the words that differ from an unknown word in a letter, or in two if it is long.
    pub(crate) fn similar(&self, word: &str) -> Vec<&str> {
        let edits = match word.len() {
            0..=3 => return Vec::new(),
            4..=7 => 1,
            _ => 2,
        };
        if word.bytes().any(|byte| byte.is_ascii_digit()) {
            return Vec::new();
        }
        let set = letters(word);
        let mut found = Vec::new();
        for length in word.len() - edits..=word.len() + edits {
            let shape = (length, word.as_bytes()[0]);
            for (other, candidate) in self.by_shape.get(&shape).into_iter().flatten() {
                // Cheap, and rules out nearly all.
                if (set ^ other).count_ones() as usize > 2 * edits {
                    continue;
                }
                let distance = strsim::osa_distance(word, candidate);
                if distance <= edits {
                    found.push((distance, &**candidate));
                }
            }
        }
        found.sort_unstable();
        found.truncate(MAX_SIMILAR);
        found.into_iter().map(|(_, word)| word).collect()
    }
}

impl Counted {
    /// Counts a term in a field of the newest document.
    fn add(&mut self, term: &str, number: u32, field: usize) -> &mut Occurrences {
        if !self.0.contains_key(term) {
            self.0.insert(term.into(), Occurrences::default());
        }
        let occurrences = self.0.entry(term.into()).or_default();
        match occurrences.documents.last_mut() {
            Some((last, counts)) if *last == number => {
                counts[field] = counts[field].saturating_add(1);
            }
            _ => {
                let mut counts = [0; FIELDS.len()];
                counts[field] = 1;
                occurrences.documents.push((number, counts));
            }
        }
        occurrences
    }
}

impl<'a> Document<'a> {
    /// Returns the texts with the numbers of their fields.
    fn texts(&self) -> Vec<(usize, &'a str)> {
        let mut texts =
            vec![(0, self.name), (1, self.title), (2, self.server), (3, self.description)];
        for (name, text) in self.parameters.iter().take(MAX_PARAMETERS) {
            texts.extend([(4, *name), (5, *text)]);
        }
        texts
    }
}

/// Returns the average length of each field.
fn average(lengths: &[[f32; FIELDS.len()]]) -> [f32; FIELDS.len()] {
    let mut sums = [0.0; FIELDS.len()];
    for length in lengths {
        for (sum, length) in sums.iter_mut().zip(length) {
            *sum += length;
        }
    }
    sums.map(|sum: f32| (sum / lengths.len().max(1) as f32).max(1.0))
}

/// Returns the weight of a term in a document, without its rarity.
fn weigh(
    counts: [u16; FIELDS.len()],
    length: &[f32; FIELDS.len()],
    average: &[f32; FIELDS.len()],
) -> f32 {
    let mut sum = 0.0;
    for (at, field) in FIELDS.iter().enumerate() {
        let relative = length[at] / average[at];
        sum += field.weight * f32::from(counts[at]) / (1.0 - field.b + field.b * relative);
    }
    sum / (K1 + sum)
}

/// Returns the set of a word's letters; other bytes share bits.
fn letters(word: &str) -> u32 {
    let mut set = 0;
    for byte in word.bytes() {
        set |= 1 << (byte & 31);
    }
    set
}

fn head(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_TEXT)]
}

fn as_number(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
