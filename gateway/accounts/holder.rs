//! The holder of an account: a caller by organisation, issuer and subject; and the records of its
//! grants.

use std::borrow::Borrow;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::SystemTime;

use lockgate_store::{GrantRecord, Secret};

use crate::random::digest;

/// State of a grant that its holder or an administrator has ended.
pub(crate) const DISCONNECTED: &str = "disconnected";

/// The identity that a grant belongs to. Two holders are equal if all parts are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    pub organisation: Arc<str>,
    pub issuer: Arc<str>,
    pub subject: Arc<str>,
    /// The holder's own access token, where it is exchanged.
    pub token: Option<Arc<SubjectToken>>,
}

/// An access token of a caller, identified by its digest.
#[derive(Debug)]
pub struct SubjectToken {
    pub(crate) secret: Secret,
    digest: [u8; 32],
    pub(crate) expires_at: SystemTime,
}

/// The parts of a holder, with which one is found in a map.
pub trait HolderKey {
    /// Returns organisation, issuer and subject, and the digest of the token.
    fn parts(&self) -> HolderParts<'_>;
}

type HolderParts<'a> = (&'a str, &'a str, &'a str, Option<&'a [u8; 32]>);

impl HolderKey for Holder {
    fn parts(&self) -> HolderParts<'_> {
        let digest = self.token.as_ref().map(|token| &token.digest);
        (&self.organisation, &self.issuer, &self.subject, digest)
    }
}

impl HolderKey for HolderParts<'_> {
    fn parts(&self) -> HolderParts<'_> {
        *self
    }
}

impl<'a> Borrow<dyn HolderKey + 'a> for Holder {
    fn borrow(&self) -> &(dyn HolderKey + 'a) {
        self
    }
}

impl PartialEq for dyn HolderKey + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for dyn HolderKey + '_ {}

impl Hash for dyn HolderKey + '_ {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.parts().hash(state);
    }
}

impl Hash for Holder {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.parts().hash(state);
    }
}

impl SubjectToken {
    pub fn new(token: &str, digest: [u8; 32], expires_at: SystemTime) -> Self {
        Self { secret: Secret::new(token.to_owned()), digest, expires_at }
    }
}

impl PartialEq for SubjectToken {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl Eq for SubjectToken {}

impl Holder {
    pub fn new(organisation: &str, issuer: &str, subject: &str) -> Self {
        let organisation = organisation.into();
        Self { organisation, issuer: issuer.into(), subject: subject.into(), token: None }
    }

    /// Returns whether this is the same user, with any token.
    pub fn is_same_user(&self, other: &Self) -> bool {
        let Self { organisation, issuer, subject, .. } = self;
        (organisation, issuer, subject) == (&other.organisation, &other.issuer, &other.subject)
    }
}

/// Returns the id of the record of a holder's grant at a server.
pub(crate) fn record_id(holder: &Holder, slug: &str) -> String {
    let Holder { organisation, issuer, subject, .. } = holder;
    let digest = digest(&[organisation, issuer, subject, slug]);
    format!("con_{:.32}", digest)
}

/// Returns the record of a grant that has ended.
pub(crate) fn new_record(id: &str, holder: &Holder, slug: &str) -> GrantRecord {
    GrantRecord {
        id: id.to_owned(),
        organisation: holder.organisation.to_string(),
        issuer: holder.issuer.to_string(),
        subject: holder.subject.to_string(),
        server: slug.to_owned(),
        state: DISCONNECTED.into(),
        ..GrantRecord::default()
    }
}

pub(crate) fn record_holder(record: &GrantRecord) -> Holder {
    Holder::new(&record.organisation, &record.issuer, &record.subject)
}
