//! What shares one allowance: the parts that a policy counts by. A limiter hashes them, by a secret
//! of its own within one process, or by one that all gateways have; nothing keeps them as they are.

use std::hash::{BuildHasher, Hash, Hasher};

use crate::file::Key;
use crate::{Subject, Target};

/// What shares an allowance.
pub struct LimitKey<'a> {
    /// Sorted, without repetitions.
    by: &'a [Key],
    subject: &'a Subject<'a>,
    target: Option<&'a Target<'a>>,
}

impl<'a> LimitKey<'a> {
    /// What shares an allowance by all of `by`, each once.
    #[must_use]
    pub fn new(by: &'a [Key], subject: &'a Subject<'a>, target: Option<&'a Target<'a>>) -> Self {
        Self { by, subject, target }
    }

    /// A hash for one process.
    #[must_use]
    pub fn hash_with(&self, state: &impl BuildHasher) -> u64 {
        let mut hasher = state.build_hasher();
        self.visit(&mut |part| part.hash(&mut hasher));
        hasher.finish()
    }

    /// Each part in turn, the same in every process; `None` where the request has none. What is
    /// counted by comes before its parts, so that no key of one meaning is a key of another.
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

    /// A slug is another server in each organisation.
    fn name_target<'b>(&'b self, own: Option<&'b str>) -> [Option<&'b str>; 3] {
        match self.target {
            Some(target) => [Some(target.server), target.organisation, own],
            None => [None; 3],
        }
    }
}
