//! Words of names and texts: split at case changes and separators, lower case, stemmed.

use ahash::AHashMap;
use lockgate_text::unseen::is_unseen;
use rust_stemmers::{Algorithm, Stemmer};

/// Longest indexed word in bytes; the rest is cut off.
const MAX_WORD: usize = 64;

/// Bytes of the end of an acronym in the plural, as in `URLs`.
const PLURAL: usize = 2;

/// Words without meaning for a search: of the language, and of requests.
const STOP_WORDS: &[&str] = &[
    "a", "about", "all", "also", "am", "an", "and", "any", "are", "as", "at", "be", "been", "but",
    "by", "can", "could", "did", "do", "does", "for", "from", "give", "had", "has", "have", "he",
    "help", "her", "his", "how", "i", "if", "in", "into", "is", "it", "its", "just", "know", "let",
    "like", "ll", "m", "may", "me", "more", "my", "need", "of", "on", "or", "our", "please",
    "provide", "re", "s", "she", "should", "so", "some", "t", "tell", "that", "the", "their",
    "them", "then", "there", "these", "they", "this", "those", "to", "us", "ve", "very", "want",
    "was", "we", "were", "what", "when", "where", "which", "who", "will", "with", "would", "you",
    "your",
];

/// Splits texts into stemmed words.
pub(crate) struct Words {
    stemmer: Stemmer,
    /// Stems of words, because texts repeat few words; empty for stop words.
    stems: AHashMap<Box<str>, Box<str>>,
}

impl Default for Words {
    fn default() -> Self {
        Self { stemmer: Stemmer::create(Algorithm::English), stems: AHashMap::new() }
    }
}

impl Words {
    /// Calls `take` with each word of a text, in order. A word with case changes (`GitHub`) also
    /// counts as a whole.
    pub(crate) fn split(&mut self, text: &str, take: &mut dyn FnMut(&str)) {
        let mut run = String::new();
        for c in text.chars() {
            if is_unseen(c) && !c.is_control() {
                continue;
            }
            if c.is_alphanumeric() && !is_ideograph(c) {
                run.push(c);
                continue;
            }
            self.take_run(&run, take);
            run.clear();
            if is_ideograph(c) {
                take(c.encode_utf8(&mut [0; 4]));
            }
        }
        self.take_run(&run, take);
    }

    fn take_run(&mut self, run: &str, take: &mut dyn FnMut(&str)) {
        let mut start = 0;
        for at in case_changes(run) {
            self.take_word(&run[start..at], take);
            start = at;
        }
        if start > 0 {
            self.take_word(&run[start..], take);
        }
        self.take_word(run, take);
    }

    fn take_word(&mut self, word: &str, take: &mut dyn FnMut(&str)) {
        if word.is_empty() {
            return;
        }
        let lower = word.to_lowercase();
        if !self.stems.contains_key(&*lower) {
            let is_stop = STOP_WORDS.binary_search(&&*lower).is_ok();
            let stem = if is_stop { "".into() } else { self.stemmer.stem(&lower) };
            self.stems.insert(lower.as_str().into(), cut(&stem).into());
        }
        let stem = &self.stems[&*lower];
        if !stem.is_empty() {
            take(stem);
        }
    }
}

/// Returns the positions at which the parts of `getHTTPResponse` begin, without the first.
fn case_changes(run: &str) -> Vec<usize> {
    let mut changes = Vec::new();
    let mut last = ' ';
    let mut chars = run.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let ends_acronym = last.is_uppercase()
            && chars.peek().is_some_and(|(_, next)| next.is_lowercase())
            && run[at..].len() > PLURAL;
        if c.is_uppercase() && (last.is_lowercase() || ends_acronym) {
            changes.push(at);
        }
        last = c;
    }
    changes
}

/// Returns whether a character is a word of its own, as scripts without spaces write them.
fn is_ideograph(c: char) -> bool {
    matches!(u32::from(c), 0x2e80..=0x9fff | 0xf900..=0xfaff | 0x2_0000..=0x3_ffff)
}

fn cut(word: &str) -> &str {
    &word[..word.floor_char_boundary(MAX_WORD)]
}

#[cfg(test)]
mod tests;
