//! Glob patterns over names. They are compiled individually to examine a policy, and together to
//! find the policies that concern a request.

use bit_set::BitSet;
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
pub(crate) struct GlobIndex {
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
    owners: Vec<usize>,
}

impl Set {
    fn build((builder, owners): (GlobSetBuilder, Vec<usize>)) -> Result<Self, String> {
        let globs = builder.build().map_err(|error| error.kind().to_string())?;
        Ok(Self { globs, owners })
    }
}

/// Returns whether a pattern is a name or a prefix.
fn is_plain(glob: &Glob) -> bool {
    let text = glob.glob();
    !text.strip_suffix('*').unwrap_or(text).contains(['*', '?', '[', ']', '{', '}', '\\'])
}

impl GlobIndex {
    /// Builds the index of the patterns that `pick` returns for each policy.
    pub(crate) fn new<'a, R>(
        policies: &'a [R],
        pick: impl Fn(&'a R) -> Option<&'a [Glob]>,
    ) -> Result<Self, String> {
        let mut plain = (GlobSetBuilder::new(), Vec::new());
        let mut other = (GlobSetBuilder::new(), Vec::new());
        let mut restricted = BitSet::new();
        for (owner, policy) in policies.iter().enumerate() {
            let Some(globs) = pick(policy) else { continue };
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
    pub(crate) fn fits(&self, names: impl Iterator<Item = impl AsRef<str>>) -> BitSet {
        let mut fits = BitSet::new();
        let mut hits = Vec::new();
        for name in names {
            let name = Candidate::new(name.as_ref());
            for set in self.sets.iter().filter(|set| set.globs.is_match_candidate(&name)) {
                set.globs.matches_candidate_into(&name, &mut hits);
                fits.extend(hits.iter().filter_map(|&hit| set.owners.get(hit).copied()));
            }
        }
        fits
    }

    /// Removes the policies with patterns that match none of the names.
    pub(crate) fn narrow(&self, bits: &mut BitSet, names: impl Iterator<Item = impl AsRef<str>>) {
        if !self.is_unused() {
            keep(bits, &self.restricted, &self.fits(names));
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
    let mut matchers = globs.iter().map(Matcher::new);
    matchers.any(|matcher| names.iter().any(|name| matcher.fits(name.as_ref())))
}

/// Removes the members of `restricted` that are not in `fits`.
pub(crate) fn keep(bits: &mut BitSet, restricted: &BitSet, fits: &BitSet) {
    let mut lost = restricted.clone();
    lost.difference_with(fits);
    bits.difference_with(&lost);
}

#[cfg(test)]
mod tests;
