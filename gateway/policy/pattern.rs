//! Glob patterns over names. They are compiled individually to examine a policy, and together to
//! find the policies that concern a request.

use globset::{Candidate, Glob, GlobMatcher, GlobSet, GlobSetBuilder};

const MAX_BYTES: usize = 1024;
/// Maximum number of patterns in a list.
pub(crate) const MAX_PATTERNS: usize = 1000;

/// Compiles a pattern with `*`, `?`, `[…]` and `{a,b}`.
pub(crate) fn compile(pattern: &str) -> Result<Glob, String> {
    if pattern.is_empty() {
        return Err("is not a valid pattern: it is empty".into());
    }
    if pattern.len() > MAX_BYTES {
        return Err(format!("is not a valid pattern: it is longer than {MAX_BYTES} bytes"));
    }
    Glob::new(pattern).map_err(|error| format!("is not a valid pattern: {}", error.kind()))
}

/// The patterns of many policies for the same kind of name.
#[derive(Debug)]
pub(crate) struct Index {
    /// Names and prefixes, which are found by lookup, separated from patterns that need a regular
    /// expression. Finding the matches of a set searches all of its patterns, so the set is tested
    /// for any match first.
    sets: [Set; 2],
    /// The policies that have such patterns.
    restricted: BitSet,
}

#[derive(Debug)]
struct Set {
    globs: GlobSet,
    /// The policy of each pattern.
    owners: Vec<u32>,
}

impl Set {
    fn build((builder, owners): (GlobSetBuilder, Vec<u32>)) -> Result<Self, String> {
        match builder.build() {
            Ok(globs) => Ok(Self { globs, owners }),
            Err(error) => Err(error.kind().to_string()),
        }
    }
}

/// Returns whether a pattern is a name or a prefix.
fn is_plain(glob: &Glob) -> bool {
    let text = glob.glob();
    !text.strip_suffix('*').unwrap_or(text).contains(['*', '?', '[', ']', '{', '}', '\\'])
}

impl Index {
    /// Builds the index. `lists` contains the patterns of each policy that has any.
    pub(crate) fn new<'a>(
        size: usize,
        lists: impl Iterator<Item = (u32, &'a [Glob])>,
    ) -> Result<Self, String> {
        let mut plain = (GlobSetBuilder::new(), Vec::new());
        let mut other = (GlobSetBuilder::new(), Vec::new());
        let mut restricted = BitSet::none(size);
        for (owner, globs) in lists {
            restricted.insert(owner);
            for glob in globs {
                let (builder, owners) = if is_plain(glob) { &mut plain } else { &mut other };
                builder.add(glob.clone());
                owners.push(owner);
            }
        }
        Ok(Self { sets: [Set::build(plain)?, Set::build(other)?], restricted })
    }

    /// Returns whether no policy has such patterns.
    pub(crate) fn is_unused(&self) -> bool {
        self.restricted.is_empty()
    }

    /// Returns the policies with a pattern that matches one of the names.
    pub(crate) fn fits(&self, size: usize, names: impl Iterator<Item = impl AsRef<str>>) -> BitSet {
        let mut fits = BitSet::none(size);
        let mut hits = Vec::new();
        for name in names {
            let name = Candidate::new(name.as_ref());
            for set in &self.sets {
                if !set.globs.is_match_candidate(&name) {
                    continue;
                }
                set.globs.matches_candidate_into(&name, &mut hits);
                for &hit in &hits {
                    if let Some(owner) = set.owners.get(hit) {
                        fits.insert(*owner);
                    }
                }
            }
        }
        fits
    }

    /// Removes the policies with patterns that match none of the names.
    pub(crate) fn narrow(
        &self,
        bits: &mut BitSet,
        size: usize,
        names: impl Iterator<Item = impl AsRef<str>>,
    ) {
        if !self.is_unused() {
            bits.keep(&self.restricted, &self.fits(size, names));
        }
    }
}

/// A pattern compiled for matching. Building an automaton takes a thousand times as long as a
/// comparison, so it is built only for patterns that need it.
pub(crate) enum Matcher {
    Name(String),
    Beginning(String),
    Automaton(Box<GlobMatcher>),
}

impl Matcher {
    pub(crate) fn new(glob: &Glob) -> Self {
        if !is_plain(glob) {
            return Self::Automaton(Box::new(glob.compile_matcher()));
        }
        match glob.glob().strip_suffix('*') {
            Some(beginning) => Self::Beginning(beginning.to_owned()),
            None => Self::Name(glob.glob().to_owned()),
        }
    }

    pub(crate) fn fits(&self, name: &str) -> bool {
        match self {
            Self::Name(own) => own == name,
            Self::Beginning(own) => name.starts_with(own.as_str()),
            Self::Automaton(matcher) => matcher.is_match(name),
        }
    }
}

/// Patterns that select items by name.
#[derive(Clone, Debug, Default)]
pub struct Patterns {
    texts: Vec<String>,
    set: GlobSet,
}

impl Patterns {
    /// # Errors
    /// A description of the first invalid pattern.
    pub fn new(texts: &[String]) -> Result<Self, String> {
        if texts.len() > MAX_PATTERNS {
            return Err(format!("must not have more than {MAX_PATTERNS} patterns"));
        }
        let mut builder = GlobSetBuilder::new();
        for (at, text) in texts.iter().enumerate() {
            builder.add(compile(text).map_err(|words| format!("pattern {} {words}", at + 1))?);
        }
        let set = builder.build().map_err(|error| error.kind().to_string())?;
        Ok(Self { texts: texts.to_vec(), set })
    }

    /// Returns whether one of the names matches.
    pub fn fit(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.set.is_match(name))
    }
}

impl PartialEq for Patterns {
    fn eq(&self, other: &Self) -> bool {
        self.texts == other.texts
    }
}

impl Eq for Patterns {}

pub(crate) fn any(globs: &[Glob], names: &[impl AsRef<str>]) -> bool {
    for glob in globs {
        let matcher = Matcher::new(glob);
        if names.iter().any(|name| matcher.fits(name.as_ref())) {
            return true;
        }
    }
    false
}

// Sets of policies, one bit each.

/// A set of numbers below a fixed bound.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct BitSet(Box<[u64]>);

impl BitSet {
    pub(crate) fn none(size: usize) -> Self {
        Self(vec![0; size.div_ceil(64)].into())
    }

    pub(crate) fn insert(&mut self, at: u32) {
        if let Some(word) = self.0.get_mut(at as usize / 64) {
            *word |= 1 << (at % 64);
        }
    }

    pub(crate) fn remove(&mut self, at: u32) {
        if let Some(word) = self.0.get_mut(at as usize / 64) {
            *word &= !(1 << (at % 64));
        }
    }

    pub(crate) fn contains(&self, at: u32) -> bool {
        self.0.get(at as usize / 64).is_some_and(|word| word & (1 << (at % 64)) != 0)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|&word| word == 0)
    }

    /// Removes the members of `restricted` that are not in `fits`.
    pub(crate) fn keep(&mut self, restricted: &Self, fits: &Self) {
        for ((word, restricted), fits) in self.0.iter_mut().zip(&restricted.0).zip(&fits.0) {
            *word &= !restricted | fits;
        }
    }

    pub(crate) fn exclude(&mut self, others: &Self) {
        for (word, others) in self.0.iter_mut().zip(&others.0) {
            *word &= !others;
        }
    }

    pub(crate) fn words(&self) -> &[u64] {
        &self.0
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let words = self.0.iter().zip(0u32..);
        words.flat_map(|(&word, at)| Ones(word).map(move |bit| at * 64 + bit))
    }
}

/// An iterator over the bits that are set, lowest first.
struct Ones(u64);

impl Iterator for Ones {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let bit = self.0.trailing_zeros();
        self.0 &= self.0.wrapping_sub(1);
        if bit < 64 { Some(bit) } else { None }
    }
}

#[cfg(test)]
mod tests;
