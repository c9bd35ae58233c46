//! What a client knows of its lists, in a few bytes: enough to see that they are others now, without keeping a view alive.

use lockgate_upstream::ListKind;

use super::{View, index};

/// One number for each list of a view; the same for the same list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListMarks([u64; 4]);

impl ListMarks {
    /// The lists that differ.
    pub(crate) fn changes(self, after: Self) -> impl Iterator<Item = ListKind> {
        ListKind::ALL.into_iter().filter(move |kind| self.0[index(*kind)] != after.0[index(*kind)])
    }

    /// Of a caller who sees nothing.
    pub(crate) fn none() -> Self {
        Self([0; 4])
    }
}

impl View {
    /// Of the lists as clients see them that can be asked things, or not.
    pub(crate) fn marks(&self, asked: bool) -> ListMarks {
        *self.marks[usize::from(asked)].get_or_init(|| ListMarks(ListKind::ALL.map(|kind| self.mark(kind, asked))))
    }

    fn mark(&self, kind: ListKind, asked: bool) -> u64 {
        let mut hasher = blake3::Hasher::new();
        for entry in self.entries(kind, asked) {
            for part in [entry.exposed.as_bytes(), &entry.item.text] {
                hasher.update(&part.len().to_le_bytes());
                hasher.update(part);
            }
        }
        let mut mark = [0; 8];
        hasher.finalize_xof().fill(&mut mark);
        u64::from_le_bytes(mark)
    }
}
