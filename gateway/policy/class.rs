//! Classes of callers that the policies treat alike. A class is found once for each caller and
//! endpoint, and cached in bounded memory.

use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;

use ahash::RandomState;
use moka::sync::Cache;

use crate::Subject;
use crate::pattern::BitSet;

/// Limit of the cached callers and endpoints.
const MAX_KNOWN: u64 = 16_384;

/// The policies that concern a group of callers at an endpoint.
#[derive(Debug)]
pub struct Class {
    pub(crate) bits: BitSet,
    /// Policies with conditions that could not be evaluated, and the errors.
    pub(crate) broken: Vec<(u32, String)>,
    /// The policies that limit methods.
    pub(crate) methods: Box<[u32]>,
    mark: [u8; 16],
}

impl Class {
    /// Creates a class. `version` identifies the configuration; `personal` is set if the view
    /// depends on the identity of the caller.
    pub(crate) fn new(
        bits: BitSet,
        broken: Vec<(u32, String)>,
        methods: Box<[u32]>,
        version: u64,
        personal: Option<&Subject<'_>>,
    ) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&version.to_le_bytes());
        for word in bits.words() {
            hasher.update(&word.to_le_bytes());
        }
        for (at, _) in &broken {
            hasher.update(&at.to_le_bytes());
        }
        if let Some(subject) = personal {
            hash_text(&mut hasher, "personal");
            for (at, list) in crate::who::Who::names(subject).iter().enumerate() {
                hash_text(&mut hasher, &format!("{at} {}", list.len()));
                for name in list {
                    hash_text(&mut hasher, name);
                }
            }
        }
        let mut mark = [0; 16];
        hasher.finalize_xof().fill(&mut mark);
        Self { bits, broken, methods, mark }
    }

    /// Returns a value that is equal for callers with the same view, and only for those.
    pub fn mark(&self) -> [u8; 16] {
        self.mark
    }

    /// Returns the errors of conditions that could not be evaluated, for the log.
    pub fn failures(&self) -> impl Iterator<Item = &str> {
        self.broken.iter().map(|(_, words)| words.as_str())
    }
}

/// Hashes a text with its length, so that different lists of texts have different hashes.
fn hash_text(hasher: &mut blake3::Hasher, text: &str) {
    hasher.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
}

/// A cache of classes by caller and endpoint.
pub(crate) struct Classes {
    known: Cache<u64, Arc<CachedClass>, RandomState>,
    hasher: RandomState,
}

/// A cached class with its caller and endpoint, because hashes may collide.
struct CachedClass {
    issuer: Box<str>,
    subject: Box<str>,
    organisation: Option<Box<str>>,
    agent: Option<Box<str>>,
    roles: Box<[Arc<str>]>,
    scopes: Box<[Arc<str>]>,
    certificates: Vec<String>,
    endpoint: Box<str>,
    class: Arc<Class>,
}

lockgate_text::debug_fields!(Classes);

impl Classes {
    pub(crate) fn new() -> Self {
        let hasher = RandomState::new();
        Self {
            known: Cache::builder().max_capacity(MAX_KNOWN).build_with_hasher(hasher.clone()),
            hasher,
        }
    }

    /// Returns the class of a caller at an endpoint; calls `find` if it is not cached.
    pub(crate) fn get(
        &self,
        subject: &Subject<'_>,
        endpoint: &str,
        find: impl FnOnce() -> Class,
    ) -> Arc<Class> {
        let mut hasher = self.hasher.build_hasher();
        (subject.issuer, subject.subject, endpoint).hash(&mut hasher);
        subject.certificate.map(|certificate| certificate.fingerprint).hash(&mut hasher);
        let key = hasher.finish();
        if let Some(known) = self.known.get(&key)
            && known.is(subject, endpoint)
        {
            return Arc::clone(&known.class);
        }
        let class = Arc::new(find());
        self.known.insert(key, Arc::new(CachedClass::new(subject, endpoint, Arc::clone(&class))));
        class
    }
}

impl CachedClass {
    fn new(subject: &Subject<'_>, endpoint: &str, class: Arc<Class>) -> Self {
        Self {
            issuer: subject.issuer.into(),
            subject: subject.subject.into(),
            organisation: subject.organisation.map(Into::into),
            agent: subject.agent.map(Into::into),
            roles: subject.roles.into(),
            scopes: subject.scopes.into(),
            certificates: subject.certificates(),
            endpoint: endpoint.into(),
            class,
        }
    }

    /// Returns whether the caller and its rights are equal: a renewed token may carry other rights.
    fn is(&self, subject: &Subject<'_>, endpoint: &str) -> bool {
        *self.issuer == *subject.issuer
            && *self.subject == *subject.subject
            && *self.endpoint == *endpoint
            && self.organisation.as_deref() == subject.organisation
            && self.agent.as_deref() == subject.agent
            && *self.roles == *subject.roles
            && *self.scopes == *subject.scopes
            && (self.certificates.is_empty() && subject.certificate.is_none()
                || self.certificates == subject.certificates())
    }
}
