//! Names across servers: the name of a server's tool or prompt in the merged list, and accepted
//! aliases.
//!
//! Names are built, never parsed: the caller keeps a table from exposed name to server and own name
//! for lookups.

use std::borrow::{Borrow, Cow};
use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::ops::Deref;
use std::sync::Arc;

use aws_lc_rs::digest::{self, SHA256};

/// A server's operator-given name: `^[a-z0-9-]{1,64}$`. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slug(Arc<str>);

/// Maximum length of a slug in bytes.
pub const MAX_SLUG: usize = 64;

/// An error for a text that is not a slug.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a slug is 1 to {MAX_SLUG} of a-z, 0-9 and -")]
pub struct BadSlug;

impl Slug {
    /// # Errors
    /// [`BadSlug`] if the text is not a slug.
    pub fn new(text: &str) -> Result<Self, BadSlug> {
        if Self::is_valid(text) { Ok(Self(text.into())) } else { Err(BadSlug) }
    }

    /// Returns whether `text` is a valid slug.
    pub fn is_valid(text: &str) -> bool {
        (1..=MAX_SLUG).contains(&text.len())
            && text.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-'))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Deref for Slug {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Slug {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Slug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

lockgate_text::settings! {
    /// The separator between slug and own name.
    #[derive(Default)]
    pub enum Separator {
        #[default]
        #[serde(rename = "__")]
        DoubleUnderscore,
        #[serde(rename = "_")]
        Underscore,
        #[serde(rename = "-")]
        Hyphen,
        #[serde(rename = ".")]
        Dot,
        // Outside the characters that the specification recommends; some clients reject it.
        #[serde(rename = "/")]
        Slash,
    }
}

impl Separator {
    #[cfg(test)]
    pub(crate) const ALL: [Self; 5] =
        [Self::DoubleUnderscore, Self::Underscore, Self::Hyphen, Self::Dot, Self::Slash];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::DoubleUnderscore => "__",
            Self::Underscore => "_",
            Self::Hyphen => "-",
            Self::Dot => ".",
            Self::Slash => "/",
        }
    }
}

/// Minimum of the configurable limit on exposed names, with room for the longest hash suffix.
pub const MIN_LENGTH: usize = 40;
/// Maximum of the configurable limit on exposed names, as the specification recommends.
pub const MAX_LENGTH: usize = 128;
/// The default limit, accepted by model providers.
pub const DEFAULT_LENGTH: usize = 64;

/// Hash suffixes in hex digits, tried in order until names differ.
const SUFFIXES: [usize; 3] = [8, 16, 32];

/// The construction of exposed names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Naming {
    pub separator: Separator,
    /// Maximum length of an exposed name in bytes. Clamped to [`MIN_LENGTH`]`..=`[`MAX_LENGTH`];
    /// the configuration should reject other values.
    pub max_length: usize,
}

impl Default for Naming {
    fn default() -> Self {
        Self { separator: Separator::default(), max_length: DEFAULT_LENGTH }
    }
}

/// A distinct (slug, own name) while its name is being determined. `step` is 1 plus the index in
/// [`SUFFIXES`]; 0 means no suffix.
struct Candidate {
    hash: [u8; 32],
    plain: String,
    step: usize,
}

impl Candidate {
    fn suffix_digits(&self) -> Option<usize> {
        SUFFIXES.get(self.step.checked_sub(1)?).copied()
    }
}

impl Naming {
    /// Returns an exposed name for each entry, in the order of the entries.
    ///
    /// The name is slug, separator, own name, with `_` for each character outside `A–Z a–z 0–9 _ .
    /// -` (and `/` when that is the separator). Names that are too long, or equal to another
    /// ignoring case, end in `_` and hex of the SHA-256 of `slug NUL own`. *All* colliding names
    /// get a suffix, so that a new server never takes over an old name. A name depends on the set
    /// of entries only, not on their order. Different entries get different names; the same entry
    /// twice gets the same name twice.
    pub fn expose<'a>(
        &self,
        entries: impl IntoIterator<Item = (&'a Slug, &'a str)>,
    ) -> Vec<String> {
        let mut known: HashMap<(&str, &str), usize> = HashMap::new();
        let mut distinct: Vec<Candidate> = Vec::new();
        let mut order = Vec::new();
        for (slug, own) in entries {
            let index = *known.entry((slug.as_str(), own)).or_insert_with(|| {
                distinct.push(self.candidate(slug, own));
                distinct.len() - 1
            });
            order.push(index);
        }
        let distinct_names = self.settle(&mut distinct);
        let ordered = order.into_iter().filter_map(|index| distinct_names.get(index).cloned());
        ordered.collect()
    }

    /// Returns the name with the longest suffix, for an entry with a name that collides with a
    /// separately exposed item: no other entry has this name.
    pub fn expose_distinct(&self, slug: &Slug, own: &str) -> String {
        let mut candidate = self.candidate(slug, own);
        candidate.step = SUFFIXES.len();
        self.render(&candidate).into_owned()
    }

    /// Returns aliases of a name: slug and own name unchanged, joined by `/`, `__` and the
    /// configured separator. The caller must accept only aliases that are unambiguous and not an
    /// exposed name.
    pub fn aliases<'a>(
        &self,
        slug: &'a Slug,
        own: &'a str,
    ) -> impl Iterator<Item = String> + use<'a> {
        let usual = [Separator::Slash, Separator::DoubleUnderscore];
        let extra = if usual.contains(&self.separator) { None } else { Some(self.separator) };
        let separators = usual.into_iter().chain(extra);
        separators.map(move |separator| [slug, separator.as_str(), own].concat())
    }

    fn limit(&self) -> usize {
        self.max_length.clamp(MIN_LENGTH, MAX_LENGTH)
    }

    fn candidate(&self, slug: &Slug, own: &str) -> Candidate {
        let mut plain = [slug, self.separator.as_str()].concat();
        // One character more than the limit suffices to detect that the name is too long.
        for c in own.chars().take(self.limit() + 1) {
            plain.push(match c {
                '_' | '.' | '-' => c,
                '/' if self.separator == Separator::Slash => c,
                _ if c.is_ascii_alphanumeric() => c,
                _ => '_',
            });
        }
        let mut context = digest::Context::new(&SHA256);
        context.update(slug.as_bytes());
        context.update(&[0]);
        context.update(own.as_bytes());
        let mut hash = [0; 32];
        for (to, from) in hash.iter_mut().zip(context.finish().as_ref()) {
            *to = *from;
        }
        let step = usize::from(plain.len() > self.limit());
        Candidate { hash, plain, step }
    }

    /// Lengthens suffixes until no two names are equal ignoring case. A candidate that claims a
    /// name claimed by another at any time goes a step further, and so does the other. Claims only
    /// grow, so the result does not depend on order; each candidate claims at most four names, so
    /// the work is linear for any set of names.
    fn settle(&self, candidates: &mut [Candidate]) -> Vec<String> {
        let mut claims: HashMap<String, (usize, usize)> = HashMap::with_capacity(candidates.len());
        let mut waiting = Vec::from_iter(0..candidates.len());
        while let Some(index) = waiting.pop() {
            let Some(candidate) = candidates.get(index) else { continue };
            let claim = self.render(candidate).to_ascii_lowercase();
            let &mut (other, step) = claims.entry(claim).or_insert((index, candidate.step));
            if other == index {
                continue;
            }
            for (loser, at) in [(index, candidate.step), (other, step)] {
                if let Some(candidate) = candidates.get_mut(loser)
                    && candidate.step == at
                    && at < SUFFIXES.len()
                {
                    candidate.step += 1;
                    waiting.push(loser);
                }
            }
        }
        candidates.iter().map(|candidate| self.render(candidate).into_owned()).collect()
    }

    fn render<'a>(&self, candidate: &'a Candidate) -> Cow<'a, str> {
        let Some(digits) = candidate.suffix_digits() else {
            return Cow::Borrowed(&candidate.plain);
        };
        let kept = self.limit().saturating_sub(digits + 1).min(candidate.plain.len());
        let mut name = candidate.plain.get(..kept).unwrap_or("").to_owned();
        name.push('_');
        for byte in candidate.hash.iter().take(digits / 2) {
            let _ = write!(name, "{byte:02x}");
        }
        Cow::Owned(name)
    }
}

#[cfg(test)]
mod tests;
