//! Patterns over names: compiled per policy where one policy is looked at, and all together where a
//! request has to find the policies that it concerns.

use globset::{Candidate, Glob, GlobMatcher, GlobSet, GlobSetBuilder};

use crate::bitset::BitSet;

const MAX_BYTES: usize = 1024;
/// Most patterns of one list.
pub(crate) const MAX_PATTERNS: usize = 1000;

/// One pattern with `*`, `?`, `[…]` and `{a,b}`.
pub(crate) fn compile(pattern: &str) -> Result<Glob, String> {
    match Glob::new(pattern) {
        _ if pattern.is_empty() => Err("is no pattern: it is empty".into()),
        _ if pattern.len() > MAX_BYTES => {
            Err(format!("is no pattern: it is longer than {MAX_BYTES} bytes"))
        }
        Ok(glob) => Ok(glob),
        Err(error) => Err(format!("is no pattern: {}", error.kind())),
    }
}

/// The patterns of many policies for one kind of name.
#[derive(Debug)]
pub(crate) struct Index {
    /// Names and beginnings of names, which are found by themselves, apart from patterns that take
    /// a regular expression: what those find is looked for among all of them, so that it is asked
    /// first whether there is anything.
    sets: [Set; 2],
    /// Policies that have such patterns at all.
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

/// Whether a pattern is a name, or how one begins.
fn is_plain(glob: &Glob) -> bool {
    let text = glob.glob();
    !text.strip_suffix('*').unwrap_or(text).contains(['*', '?', '[', ']', '{', '}', '\\'])
}

impl Index {
    /// `lists`: for each policy that restricts this kind of name, its patterns.
    ///
    /// # Errors
    /// They are too large together.
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

    /// No policy restricts this kind of name.
    pub(crate) fn is_unused(&self) -> bool {
        self.restricted.is_empty()
    }

    /// The policies with a pattern that fits one of the names.
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

    /// Takes out the policies whose patterns fit none of the names.
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

/// A pattern to try names against. To build an automaton takes a thousand times as long as to
/// compare, so that only what needs one has one.
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

/// Whether one of these patterns fits one of the names.
pub(crate) fn any(globs: &[Glob], names: &[impl AsRef<str>]) -> bool {
    for glob in globs {
        let matcher = Matcher::new(glob);
        if names.iter().any(|name| matcher.fits(name.as_ref())) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests;
