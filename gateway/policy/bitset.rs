//! Sets of policies, one bit each.

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
