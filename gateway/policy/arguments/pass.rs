//! What judging the arguments of one call leads to, and what it may cost.

use super::edit::Edit;
use crate::Target;
use crate::sql::Effort;
use crate::target::Kind;

/// What the rules of one call have led to so far.
#[derive(Debug, Default)]
pub(crate) struct Pass {
    pub(crate) edits: Vec<Edit>,
    pub(super) effort: Effort,
    /// The call changes nothing, as far as the tool says.
    pub(super) reads: bool,
}

impl Pass {
    /// For a call of this.
    pub(crate) fn of(target: &Target<'_>) -> Self {
        Self { reads: target.kind != Kind::Tool || target.annotations.read_only, ..Self::default() }
    }

    /// For rules whose changes are not wanted; the time is the same.
    pub(crate) fn aside(&self) -> Self {
        Self { edits: Vec::new(), effort: self.effort.clone(), reads: self.reads }
    }
}
