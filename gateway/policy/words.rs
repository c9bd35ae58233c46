//! Words in the name of a tool, for `what.words`. A word begins at the beginning of the name, after
//! a character that is neither letter nor digit, at a capital after a small letter, at the last of
//! several capitals before a small letter, and between letters and digits. It ends where the next
//! word begins. Case and the separators between the words of one item are ignored: `force push`
//! matches `force_push`, `forcePush`, `FORCE-PUSH` and `forcepush`. A part of a word does not
//! match, and a plural is another word.

use std::fmt;

use aho_corasick::AhoCorasick;
use bit_set::BitSet;
use unicode_normalization::UnicodeNormalization;

const MAX_BYTES: usize = 4096;
/// Maximum number of words in a list, with all alternatives expanded.
pub(crate) const MAX_WORDS: usize = 10_000;
/// Separators between words, besides white space.
const BETWEEN: [char; 3] = ['_', '-', '.'];

/// One or more consecutive words of a name: one alternative of an item in a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    /// The item in the syntax of a policy file.
    shown: String,
    letters: String,
    /// Whether the name must begin with the words.
    first: bool,
    end: End,
}

/// The position in a name at which an item must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// At the end of a word.
    Word,
    /// `$`: at the end of the name.
    Name,
    /// `*`: anywhere.
    Anywhere,
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

/// Parses an item into its alternatives: `^` at the beginning, `$` or `*` at the end, `{a,b}` for
/// alternatives.
///
/// # Errors
/// Returns a description of the mistake.
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
            return Err("is not a word: it has no letter and no digit".into());
        }
        let start = if first { "^" } else { "" };
        let spaced = Vec::from_iter(text.split_whitespace()).join(" ");
        words.push(Word { shown: format!("{start}{spaced}{mark}"), letters, first, end });
    }
    Ok(words)
}

/// Expands the `{a,b}` of a text.
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
            longer.extend(texts.iter().map(|text| [text, before, alternative].concat()));
        }
        if longer.len() > MAX_WORDS {
            return Err(format!("expands to more than {MAX_WORDS} words"));
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

/// Checks that a part contains only letters, digits and separators.
fn checked(part: &str) -> Result<&str, String> {
    let mut chars = part.nfkc();
    match chars.find(|c| !c.is_alphanumeric() && !c.is_whitespace() && !BETWEEN.contains(c)) {
        Some(c) => Err(format!("is not a word: it has `{}`", c.escape_debug())),
        None => Ok(part),
    }
}

/// A name prepared for word searches.
struct Name {
    /// The letters and digits in lower case, without separators.
    letters: String,
    /// For each byte of `letters` and for the end, whether a word begins there.
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

    fn has(&self, word: &Word) -> bool {
        let mut starts = 0..self.letters.len();
        starts.any(|start| {
            let rest = self.letters.get(start..).unwrap_or("");
            rest.starts_with(&word.letters) && self.counts(word, start)
        })
    }

    /// Returns whether the boundaries of a word match, with its letters at `start`.
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

/// Returns whether a word begins with the character `c`.
fn begins_word(before: Option<char>, c: char, after: Option<char>) -> bool {
    let Some(before) = before else { return true };
    if !before.is_alphanumeric() || before.is_numeric() != c.is_numeric() {
        return true;
    }
    c.is_uppercase()
        && (!before.is_uppercase() || matches!(after, Some(after) if after.is_lowercase()))
}

/// Returns the first of these words that a name contains. Searches a single list; [`WordIndex`]
/// searches many.
pub(crate) fn find<'a>(words: &'a [Word], name: &str) -> Option<&'a Word> {
    let name = Name::split(name);
    words.iter().find(|word| name.has(word))
}

/// The words of many policies, for searching all at once.
#[derive(Debug)]
pub(crate) struct WordIndex {
    letters: AhoCorasick,
    /// The words, each with its policy.
    words: Vec<(usize, Word)>,
    /// The policies that have words.
    restricted: BitSet,
}

impl WordIndex {
    /// Builds the index of the words that `pick` returns for each policy.
    pub(crate) fn new<'a, R>(
        policies: &'a [R],
        pick: impl Fn(&'a R) -> Option<&'a [Word]>,
    ) -> Result<Self, String> {
        let mut words = Vec::new();
        let mut restricted = BitSet::new();
        for (owner, policy) in policies.iter().enumerate() {
            let Some(list) = pick(policy) else { continue };
            restricted.insert(owner);
            words.extend(list.iter().map(|word| (owner, word.clone())));
        }
        let letters = AhoCorasick::new(words.iter().map(|(_, word)| &word.letters))
            .map_err(|error| error.to_string())?;
        Ok(Self { letters, words, restricted })
    }

    pub(crate) fn restricted(&self) -> &BitSet {
        &self.restricted
    }

    /// Returns the policies with a word that the name contains.
    pub(crate) fn fits(&self, name: &str) -> BitSet {
        let mut fits = BitSet::new();
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
