//! Finds out why an item is missing for a caller, for the audit trail, which may record more than
//! the caller may see. Nothing here affects a decision.

use std::sync::Arc;

use lockgate_policy::{Annotations, Policy, Target, TargetKind};
use lockgate_protocol::name::{Naming, Slug};
use lockgate_protocol::uri;
use lockgate_upstream::ListKind;

use super::Catalog;
use super::entry::{CatalogEntry, category, organisation_of};
use crate::rights::CallerRights;
use crate::transport::Endpoint;

/// Rule name that is recorded for quarantined tools.
const QUARANTINE: &str = "pins";

/// A caller at an endpoint, and the policy that applies.
pub(crate) struct Asking<'a> {
    pub(crate) endpoint: &'a Endpoint,
    pub(crate) policy: &'a Policy,
    pub(crate) rights: &'a CallerRights,
    pub(crate) naming: Naming,
}

impl Catalog {
    /// Returns the server of an existing item and the rule that hides the item, if any.
    pub(crate) fn hides(
        &self,
        asking: &Asking<'_>,
        kind: TargetKind,
        name: &str,
    ) -> Option<(String, Arc<str>)> {
        match kind {
            TargetKind::Tool => {
                let quarantined = self.find_quarantined(asking, name);
                self.hides_item(asking, ListKind::Tools, kind, name).or(quarantined)
            }
            TargetKind::Prompt | TargetKind::PromptCompletion => {
                self.hides_item(asking, ListKind::Prompts, kind, name)
            }
            TargetKind::Resource | TargetKind::ResourceCompletion => {
                self.hides_resource(asking, kind, name)
            }
        }
    }

    fn find_quarantined(&self, asking: &Asking<'_>, name: &str) -> Option<(String, Arc<str>)> {
        let entry = self.quarantined.iter().find(|entry| asking.means(entry, name))?;
        Some((entry.server.qualified_name().into_owned(), QUARANTINE.into()))
    }

    fn hides_item(
        &self,
        asking: &Asking<'_>,
        list: ListKind,
        kind: TargetKind,
        name: &str,
    ) -> Option<(String, Arc<str>)> {
        let mut found = None;
        // Visits all entries, so that the time taken reveals nothing about an entry.
        for entry in self.items(list) {
            if asking.means(entry, name) {
                let hidden = asking.hidden_by(entry, kind);
                found = found.or(hidden);
            }
        }
        found
    }

    /// Resources need not be listed: a URI on an existing server is enough.
    fn hides_resource(
        &self,
        asking: &Asking<'_>,
        kind: TargetKind,
        name: &str,
    ) -> Option<(String, Arc<str>)> {
        let (slug, own) = match asking.endpoint {
            Endpoint::Server(slug) => (slug.clone(), name.to_owned()),
            _ => match uri::own(name) {
                Some((slug, own)) => (slug.to_owned(), own.into_owned()),
                None => {
                    let mut all = self.items(ListKind::Resources).iter();
                    (all.find(|entry| *entry.exposed == *name)?.slug.to_string(), name.to_owned())
                }
            },
        };
        let (slug, server) = self.servers.get_key_value(&Slug::new(&slug).ok()?)?;
        uri::validate(&own, uri::MAX_URI).ok()?;
        let exposed = uri::expose(slug, &own);
        let category = category(&**server);
        let target = Target {
            kind,
            server: slug,
            organisation: organisation_of(&**server),
            exposed: &exposed,
            own: &own,
            category: category.as_deref(),
            annotations: Annotations::default(),
        };
        Some((server.qualified_name().into_owned(), asking.rule(&target)?))
    }
}

impl Asking<'_> {
    /// Returns whether the name, in any accepted spelling, refers to the entry at this endpoint.
    fn means(&self, entry: &CatalogEntry, name: &str) -> bool {
        let slug = &entry.slug;
        let own = &*entry.item.key;
        match self.endpoint {
            Endpoint::Server(only) => slug.as_str() == only && own == name,
            _ => {
                *entry.exposed == *name
                    || name.ends_with(own)
                        && self.naming.aliases(slug, own).any(|alias| alias == name)
            }
        }
    }

    fn hidden_by(&self, entry: &CatalogEntry, kind: TargetKind) -> Option<(String, Arc<str>)> {
        let rule = self.rule(&entry.target(kind))?;
        Some((entry.server.qualified_name().into_owned(), rule))
    }

    fn rule(&self, target: &Target<'_>) -> Option<Arc<str>> {
        let subject = self.rights.subject();
        let question = self.rights.question(&subject, target);
        self.policy.hides(&self.policy.verdict(&self.rights.class, &question))
    }
}
