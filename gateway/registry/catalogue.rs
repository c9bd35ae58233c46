//! The operator's catalogue: servers that organisations add by name, without seeing their address.
//! An integration follows its entry: it uses the entry's current address, and is unavailable once
//! the entry is removed. Credentials given for a host are never sent to another host.

use std::collections::BTreeMap;

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
    /// Not shown to organisations.
    pub url: Url,
    pub auth: Auth,
}

// Omits the address, which is for the operator only.
lockgate_text::debug_fields!(CatalogueEntry: title);

impl CatalogueEntry {
    /// Returns whether a record's credentials may be sent to the entry's current address: the host,
    /// method and header have to be unchanged.
    pub(crate) fn takes_credentials_of(&self, record: &IntegrationRecord) -> bool {
        let Ok(given_for) = Url::parse(&record.url) else { return false };
        given_for.origin() == self.url.origin()
            && record.auth == self.auth.method()
            && record.auth_header.as_deref() == self.auth.header()
    }
}

/// Returns the entry that a record was made from, if it still exists.
pub(crate) fn find_entry<'a>(
    catalogue: &'a Catalogue,
    record: &IntegrationRecord,
) -> Option<&'a CatalogueEntry> {
    catalogue.get(record.catalogue.as_deref()?)
}
