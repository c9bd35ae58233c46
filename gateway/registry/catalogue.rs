//! The operator's catalogue: servers that organisations add by name, without knowing where they
//! are. An integration that was made from an entry follows it: it is where the entry says now, and
//! nowhere when the entry is gone. What was given for one host is never sent to another.

use std::collections::BTreeMap;
use std::fmt;

use lockgate_store::IntegrationRecord;
use url::Url;

use crate::auth::Auth;

/// Entries by slug.
pub type Catalogue = BTreeMap<String, CatalogueEntry>;

/// A server that organisations may add.
#[derive(Clone, PartialEq, Eq)]
pub struct CatalogueEntry {
    /// For people.
    pub title: String,
    pub description: Option<String>,
    /// For the gateway alone: organisations do not see it.
    pub url: Url,
    pub auth: Auth,
}

/// Without the address.
impl fmt::Debug for CatalogueEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CatalogueEntry").field("title", &self.title).finish_non_exhaustive()
    }
}

impl CatalogueEntry {
    /// Whether credentials that were sealed within a record may be sent to this entry as it is now:
    /// to the same host, in the same way.
    pub(crate) fn takes_credentials_of(&self, record: &IntegrationRecord) -> bool {
        let Ok(given_for) = Url::parse(&record.url) else { return false };
        given_for.origin() == self.url.origin()
            && record.auth == self.auth.method()
            && record.auth_header.as_deref() == self.auth.header()
    }
}

/// The entry that a record was made from, if there still is one.
pub(crate) fn find_entry<'a>(
    catalogue: &'a Catalogue,
    record: &IntegrationRecord,
) -> Option<&'a CatalogueEntry> {
    catalogue.get(record.catalogue.as_deref()?)
}
