//! Classes of callers that the policies treat alike, found once for each caller and endpoint, and
//! cached in bounded memory; and patterns over the claims of a caller's credential, which select
//! the callers of a policy or the approvers of an `ask` policy.

use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;

use ahash::RandomState;
use bit_set::BitSet;
use globset::Glob;
use moka::sync::Cache;

use crate::{Subject, pattern};

/// Limit of the cached callers and endpoints.
const MAX_KNOWN: u64 = 16_384;

/// The policies that concern a group of callers at an endpoint.
#[derive(Debug)]
pub struct Class {
    pub(crate) bits: BitSet,
    /// Policies with conditions that could not be evaluated, and the errors.
    pub(crate) broken: Vec<(usize, String)>,
    /// The policies that limit methods.
    pub(crate) methods: Box<[usize]>,
    mark: [u8; 16],
}

impl Class {
    /// Creates a class. `version` identifies the configuration; `personal` is set if the view
    /// depends on the identity of the caller.
    pub(crate) fn new(
        bits: BitSet,
        broken: Vec<(usize, String)>,
        methods: Box<[usize]>,
        version: u64,
        personal: Option<&Subject<'_>>,
    ) -> Self {
        let failed = Vec::from_iter(broken.iter().map(|(at, _)| at));
        let names = personal.map(Who::names);
        // Different values have different texts, because texts are quoted.
        let text = format!("{version} {bits:?} {failed:?} {names:?}");
        let mut mark = [0; 16];
        blake3::Hasher::new().update(text.as_bytes()).finalize_xof().fill(&mut mark);
        Self { bits, broken, methods, mark }
    }

    /// Returns a value that is equal for callers with the same view, and only for those.
    pub fn mark(&self) -> [u8; 16] {
        self.mark
    }
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

/// Number of lists of patterns over callers.
pub(crate) const LISTS: usize = 6;

/// Patterns over callers. `None` matches every caller.
#[derive(Debug)]
pub(crate) struct Who {
    /// The patterns with their keys, in the order of [`Who::names`].
    pub(crate) lists: [(&'static str, Option<Vec<Glob>>); LISTS],
    pub(crate) anonymous: Option<bool>,
}

impl Who {
    /// Returns the values of a caller, in the order of the lists.
    pub(crate) fn names(subject: &Subject<'_>) -> [Vec<String>; LISTS] {
        [
            vec![subject.principal()],
            to_texts(subject.roles),
            Vec::from_iter(subject.organisation.map(str::to_owned)),
            to_texts(subject.scopes),
            Vec::from_iter(subject.agent.map(str::to_owned)),
            subject.certificates(),
        ]
    }

    pub(crate) fn fits(&self, subject: &Subject<'_>) -> bool {
        self.misfits(subject).is_empty()
    }

    /// Describes the selected callers for a message.
    pub(crate) fn describe(&self) -> String {
        let given = self.lists.iter().filter_map(|(key, globs)| Some((key, globs.as_ref()?)));
        let parts = given.map(|(key, globs)| format!("{key} {}", wanted(globs)));
        Vec::from_iter(parts).join(" and ")
    }

    /// Describes each key that does not match a caller.
    pub(crate) fn misfits(&self, subject: &Subject<'_>) -> Vec<String> {
        let names = Self::names(subject);
        let mut all = Vec::new();
        for ((key, globs), names) in self.lists.iter().zip(&names) {
            if let Some(globs) = globs
                && !pattern::any(globs, names)
            {
                all.push(format!("who.{key}: {}", wanted(globs)));
            }
        }
        if let Some(wanted) = self.anonymous
            && wanted != subject.is_anonymous()
        {
            all.push(format!("who.anonymous: {wanted}"));
        }
        all
    }
}

fn to_texts(all: &[Arc<str>]) -> Vec<String> {
    all.iter().map(ToString::to_string).collect()
}

/// Formats patterns for a message.
pub(crate) fn wanted(globs: &[Glob]) -> String {
    shown(&Vec::from_iter(globs.iter().map(Glob::glob)))
}

/// Formats the first items of a list for a message.
pub(crate) fn shown(list: &[impl ToString]) -> String {
    let first = Vec::from_iter(list.iter().take(5).map(ToString::to_string));
    if first.is_empty() {
        return "an empty list matches nothing".into();
    }
    let more = if list.len() > first.len() { ", …" } else { "" };
    format!("{}{more}", first.join(", "))
}
