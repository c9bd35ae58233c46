//! The key of an allowance: the values of a request by which a policy counts. Limiters store only a
//! hash of the key, with a secret of their process or with a secret shared by all gateways.

use std::hash::{BuildHasher, Hash, Hasher};

use crate::file::Key;
use crate::{Subject, Target};

/// The key of an allowance. Requests with equal keys share it.
pub struct LimitKey<'a> {
    /// Sorted, without duplicates.
    by: &'a [Key],
    subject: &'a Subject<'a>,
    target: Option<&'a Target<'a>>,
}

impl<'a> LimitKey<'a> {
    /// Creates the key of a request. `by` must be sorted and free of duplicates.
    #[must_use]
    pub fn new(by: &'a [Key], subject: &'a Subject<'a>, target: Option<&'a Target<'a>>) -> Self {
        Self { by, subject, target }
    }

    /// Returns a hash for use within one process.
    #[must_use]
    pub fn hash_with(&self, state: &impl BuildHasher) -> u64 {
        let mut hasher = state.build_hasher();
        self.visit(&mut |part| part.hash(&mut hasher));
        hasher.finish()
    }

    /// Calls `visitor` with each part in turn, in the same order in every process; a part that the
    /// request lacks is `None`. The name of each [`Key`] precedes its parts, so that keys of
    /// different kinds never collide.
    pub fn visit(&self, visitor: &mut dyn FnMut(Option<&str>)) {
        let Subject { issuer, subject, organisation, agent, .. } = *self.subject;
        for key in self.by {
            visitor(Some(key.name()));
            let parts = match key {
                Key::Principal => [Some(issuer), Some(subject), organisation],
                Key::Organisation => [organisation, None, None],
                Key::Agent => [Some(issuer), agent, organisation],
                Key::Server => self.name_target(None),
                Key::Tool => self.name_target(self.target.map(|target| target.own)),
            };
            for part in parts {
                visitor(part);
            }
        }
    }

    /// Returns the parts of a target, with its organisation: a slug is unique only within one.
    fn name_target<'b>(&'b self, own: Option<&'b str>) -> [Option<&'b str>; 3] {
        match self.target {
            Some(target) => [Some(target.server), target.organisation, own],
            None => [None; 3],
        }
    }
}
