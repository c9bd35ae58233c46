//! Words of a tool's name, as `what.words` names them. A word begins at the beginning of a name,
//! behind what is neither letter nor digit, at a capital behind a small letter, at the last of
//! several capitals before a small letter, and between letters and digits; it ends where the next
//! one begins. Case makes no difference, nor does what lies between the words of one item: `force
//! push` fits `force_push`, `forcePush`, `FORCE-PUSH` and `forcepush`. A word within another one
//! does not count, and a plural is another word.

use std::fmt;

use aho_corasick::AhoCorasick;
use unicode_normalization::UnicodeNormalization;

use crate::bitset::BitSet;

const MAX_BYTES: usize = 4096;
/// Most words that one list stands for, with every alternative.
pub(crate) const MAX_WORDS: usize = 10_000;
/// What may stand between words, beside blanks.
const BETWEEN: [char; 3] = ['_', '-', '.'];

/// Words that stand one after another in a name: one of those that an item of a policy stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    /// As a policy could write it.
    shown: String,
    letters: String,
    /// The name begins with it.
    first: bool,
    end: End,
}

/// Where an item ends in a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Where a word ends.
    Word,
    /// `$`: where the name ends.
    Name,
    /// `*`: anywhere.
    Anywhere,
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

/// Everything that an item stands for: `^` in front, `$` or `*` at the end, `{a,b}` for
/// alternatives.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn parse(item: &str) -> Result<Vec<Word>, String> {
    if item.len() > MAX_BYTES {
        return Err(format!("is longer than {MAX_BYTES} bytes"));
    }
    let body = item.strip_prefix('^').unwrap_or(item);
    let first = body.len() < item.len();
    let (body, end, mark) = if let Some(body) = body.strip_suffix('$') {
        (body, End::Name, "$")
    } else if let Some(body) = body.strip_suffix('*') {
        (body, End::Anywhere, "*")
    } else {
        (body, End::Word, "")
    };
    let mut words = Vec::new();
    for text in expand(body)? {
        let letters = Name::split(&text).letters;
        if letters.is_empty() {
            return Err("is no word: it has no letter and no digit".into());
        }
        let start = if first { "^" } else { "" };
        let spaced: Vec<&str> = text.split_whitespace().collect();
        words.push(Word {
            shown: format!("{start}{}{mark}", spaced.join(" ")),
            letters,
            first,
            end,
        });
    }
    Ok(words)
}

/// The texts that one with `{a,b}` stands for.
fn expand(body: &str) -> Result<Vec<String>, String> {
    let mut texts = vec![String::new()];
    let mut rest = body;
    while let Some((before, behind)) = rest.split_once('{') {
        let Some((inside, after)) = behind.split_once('}') else {
            return Err("has a `{` without a `}`".into());
        };
        let before = checked(before)?;
        let mut longer = Vec::new();
        for alternative in inside.split(',') {
            let alternative = checked(alternative)?;
            for text in &texts {
                longer.push([text, before, alternative].concat());
            }
        }
        if longer.len() > MAX_WORDS {
            return Err(format!("stands for more than {MAX_WORDS} words"));
        }
        texts = longer;
        rest = after;
    }
    let rest = checked(rest)?;
    for text in &mut texts {
        text.push_str(rest);
    }
    Ok(texts)
}

/// A part of an item without anything that means nothing there.
fn checked(part: &str) -> Result<&str, String> {
    for c in part.nfkc() {
        if !c.is_alphanumeric() && !c.is_whitespace() && !BETWEEN.contains(&c) {
            return Err(format!("is no word: it has `{}`", c.escape_debug()));
        }
    }
    Ok(part)
}

/// A name as words are looked for in it.
struct Name {
    /// Its letters and digits, in lower case, with nothing between them.
    letters: String,
    /// For each byte of `letters` and for their end, whether a word begins there.
    edges: Vec<bool>,
}

impl Name {
    fn split(name: &str) -> Self {
        let chars: Vec<char> = name.nfkc().collect();
        let mut letters = String::with_capacity(name.len());
        let mut edges = Vec::with_capacity(name.len() + 1);
        let mut before = None;
        for (at, &c) in chars.iter().enumerate() {
            if c.is_alphanumeric() {
                edges.push(begins_word(before, c, chars.get(at + 1).copied()));
                letters.extend(c.to_lowercase());
                edges.resize(letters.len(), false);
            }
            before = Some(c);
        }
        edges.push(true);
        Self { letters, edges }
    }

    fn is_edge(&self, at: usize) -> bool {
        self.edges.get(at) == Some(&true)
    }

    /// Whether it has a word.
    fn has(&self, word: &Word) -> bool {
        for start in 0..self.letters.len() {
            let rest = self.letters.get(start..).unwrap_or("");
            if rest.starts_with(&word.letters) && self.counts(word, start) {
                return true;
            }
        }
        false
    }

    /// Whether a word, whose letters stand here, counts.
    fn counts(&self, word: &Word, start: usize) -> bool {
        let behind = start + word.letters.len();
        let begins = if word.first { start == 0 } else { self.is_edge(start) };
        let ends = match word.end {
            End::Word => self.is_edge(behind),
            End::Name => behind == self.letters.len(),
            End::Anywhere => true,
        };
        begins && ends
    }
}

/// Whether a word begins with this letter or digit.
fn begins_word(before: Option<char>, c: char, after: Option<char>) -> bool {
    let Some(before) = before else { return true };
    if !before.is_alphanumeric() || before.is_numeric() != c.is_numeric() {
        return true;
    }
    c.is_uppercase()
        && (!before.is_uppercase() || matches!(after, Some(after) if after.is_lowercase()))
}

/// The first of these words that a name has. One list is gone through by itself here; [`WordIndex`]
/// is for many.
pub(crate) fn find<'a>(words: &'a [Word], name: &str) -> Option<&'a Word> {
    let name = Name::split(name);
    words.iter().find(|word| name.has(word))
}

/// The words of many policies, looked for at once.
#[derive(Debug)]
pub(crate) struct WordIndex {
    letters: AhoCorasick,
    /// The policy of each word.
    words: Vec<(u32, Word)>,
    /// Policies that have words at all.
    restricted: BitSet,
}

impl WordIndex {
    /// `lists`: for each policy that goes by words, those.
    ///
    /// # Errors
    /// They are too many together.
    pub(crate) fn new<'a>(
        size: usize,
        lists: impl Iterator<Item = (u32, &'a [Word])>,
    ) -> Result<Self, String> {
        let mut words = Vec::new();
        let mut restricted = BitSet::none(size);
        for (owner, list) in lists {
            restricted.insert(owner);
            for word in list {
                words.push((owner, word.clone()));
            }
        }
        match AhoCorasick::new(words.iter().map(|(_, word)| &word.letters)) {
            Ok(letters) => Ok(Self { letters, words, restricted }),
            Err(error) => Err(error.to_string()),
        }
    }

    /// The policies that go by words.
    pub(crate) fn restricted(&self) -> &BitSet {
        &self.restricted
    }

    /// The policies of which the name has a word.
    pub(crate) fn fits(&self, size: usize, name: &str) -> BitSet {
        let mut fits = BitSet::none(size);
        let name = Name::split(name);
        for hit in self.letters.find_overlapping_iter(&name.letters) {
            if let Some((owner, word)) = self.words.get(hit.pattern().as_usize())
                && name.counts(word, hit.start())
            {
                fits.insert(*owner);
            }
        }
        fits
    }
}

#[cfg(test)]
mod tests;
