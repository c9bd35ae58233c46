//! Patterns over names: compiled per policy where one policy is looked at, and all together where a request has to
//! find the policies that it concerns.

use globset::{Glob, GlobSet, GlobSetBuilder};

use crate::bits::Bits;

const MAX_BYTES: usize = 1024;
/// Most patterns of one list.
pub(crate) const MAX_PATTERNS: usize = 1000;

/// One pattern with `*`, `?`, `[…]` and `{a,b}`.
pub(crate) fn compile(pattern: &str) -> Result<Glob, String> {
    match Glob::new(pattern) {
        _ if pattern.is_empty() => Err("is no pattern: it is empty".into()),
        _ if pattern.len() > MAX_BYTES => Err(format!("is no pattern: it is longer than {MAX_BYTES} bytes")),
        Ok(glob) => Ok(glob),
        Err(error) => Err(format!("is no pattern: {}", error.kind())),
    }
}

/// The patterns of many policies for one kind of name.
#[derive(Debug)]
pub(crate) struct Index {
    globs: GlobSet,
    /// The policy of each pattern.
    owners: Vec<u32>,
    /// Policies that have such patterns at all.
    restricted: Bits,
}

impl Index {
    /// `lists`: for each policy that restricts this kind of name, its patterns.
    ///
    /// # Errors
    /// They are too large together.
    pub(crate) fn new<'a>(size: usize, lists: impl Iterator<Item = (u32, &'a [Glob])>) -> Result<Self, String> {
        let mut builder = GlobSetBuilder::new();
        let (mut owners, mut restricted) = (Vec::new(), Bits::none(size));
        for (owner, globs) in lists {
            restricted.insert(owner);
            for glob in globs {
                builder.add(glob.clone());
                owners.push(owner);
            }
        }
        let globs = builder.build().map_err(|error| error.kind().to_string())?;
        Ok(Self { globs, owners, restricted })
    }

    /// No policy restricts this kind of name.
    pub(crate) fn is_unused(&self) -> bool {
        self.restricted.is_empty()
    }

    /// The policies with a pattern that fits one of the names.
    pub(crate) fn fits(&self, size: usize, names: impl Iterator<Item = impl AsRef<str>>) -> Bits {
        let mut fits = Bits::none(size);
        if self.owners.is_empty() {
            return fits;
        }
        let mut hits = Vec::new();
        for name in names {
            self.globs.matches_into(name.as_ref(), &mut hits);
            for &hit in &hits {
                if let Some(&owner) = self.owners.get(hit) {
                    fits.insert(owner);
                }
            }
        }
        fits
    }

    /// Takes out the policies whose patterns fit none of the names.
    pub(crate) fn narrow(&self, bits: &mut Bits, size: usize, names: impl Iterator<Item = impl AsRef<str>>) {
        if !self.is_unused() {
            bits.keep(&self.restricted, &self.fits(size, names));
        }
    }
}

/// Whether one of these patterns fits one of the names.
pub(crate) fn any(globs: &[Glob], names: &[impl AsRef<str>]) -> bool {
    globs.iter().map(Glob::compile_matcher).any(|glob| names.iter().any(|name| glob.is_match(name.as_ref())))
}
