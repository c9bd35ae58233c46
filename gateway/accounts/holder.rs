//! The holder of an account: a caller by organisation, issuer and subject; and the records of its
//! grants.

use std::sync::Arc;

use lockgate_store::GrantRecord;

use crate::random::digest;

/// State of a grant that its holder or an administrator has ended.
pub(crate) const DISCONNECTED: &str = "disconnected";

/// The identity that a grant belongs to. Two holders are equal if all three parts are.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Holder {
    pub organisation: Arc<str>,
    pub issuer: Arc<str>,
    pub subject: Arc<str>,
}

impl Holder {
    #[must_use]
    pub fn new(organisation: &str, issuer: &str, subject: &str) -> Self {
        Self { organisation: organisation.into(), issuer: issuer.into(), subject: subject.into() }
    }
}

/// Returns the id of the record of a holder's grant at a server.
pub(crate) fn record_id(holder: &Holder, slug: &str) -> String {
    let Holder { organisation, issuer, subject } = holder;
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
