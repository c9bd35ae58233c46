//! Why something is not there for a caller: for the audit trail, which may know what the caller may
//! not. Everything is looked at, whether there is such a thing or not; nothing here decides.

use std::sync::Arc;

use lockgate_policy::{Annotations, Kind, Policy, Target};
use lockgate_protocol::name::{Naming, Slug};
use lockgate_protocol::uri;
use lockgate_upstream::ListKind;

use super::Catalog;
use super::entry::{Entry, category, organisation_of};
use crate::rights::CallerRights;
use crate::transport::Endpoint;

/// The rule that is named for a tool that waits for somebody to look at it.
const QUARANTINE: &str = "pins";

/// Who asks, where, and under which rules.
pub(crate) struct Asking<'a> {
    pub(crate) endpoint: &'a Endpoint,
    pub(crate) policy: &'a Policy,
    pub(crate) rights: &'a CallerRights,
    pub(crate) naming: Naming,
}

impl Catalog {
    /// The server of something that exists but is hidden from a caller, and the rule that hides it.
    pub(crate) fn hides(
        &self,
        asking: &Asking<'_>,
        kind: Kind,
        name: &str,
    ) -> Option<(String, Arc<str>)> {
        match kind {
            Kind::Tool => {
                let quarantined = self.find_quarantined(asking, name);
                self.hides_item(asking, ListKind::Tools, kind, name).or(quarantined)
            }
            Kind::Prompt | Kind::PromptCompletion => {
                self.hides_item(asking, ListKind::Prompts, kind, name)
            }
            Kind::Resource | Kind::ResourceCompletion => self.hides_resource(asking, kind, name),
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
        kind: Kind,
        name: &str,
    ) -> Option<(String, Arc<str>)> {
        let mut found = None;
        // Through to the end, so that no entry takes less time than another.
        for entry in self.items(list) {
            if asking.means(entry, name) {
                let hidden = asking.hidden_by(entry, kind);
                found = found.or(hidden);
            }
        }
        found
    }

    /// A resource need not be listed to be there: its server is enough.
    fn hides_resource(
        &self,
        asking: &Asking<'_>,
        kind: Kind,
        name: &str,
    ) -> Option<(String, Arc<str>)> {
        let (slug, own) = match asking.endpoint {
            Endpoint::Server(slug) => (slug.clone(), name.to_owned()),
            Endpoint::All | Endpoint::Agent(_) => match uri::own(name) {
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
    /// Whether a name means an entry at this endpoint, in any spelling.
    fn means(&self, entry: &Entry, name: &str) -> bool {
        let slug = &entry.slug;
        let own = &*entry.item.key;
        match self.endpoint {
            Endpoint::Server(only) => slug.as_str() == only && own == name,
            Endpoint::All | Endpoint::Agent(_) => {
                *entry.exposed == *name
                    || name.ends_with(own)
                        && self.naming.aliases(slug, own).any(|alias| alias == name)
            }
        }
    }

    /// The server of an entry and the rule that hides it, if one does.
    fn hidden_by(&self, entry: &Entry, kind: Kind) -> Option<(String, Arc<str>)> {
        let rule = self.rule(&entry.target(kind))?;
        Some((entry.server.qualified_name().into_owned(), rule))
    }

    fn rule(&self, target: &Target<'_>) -> Option<Arc<str>> {
        let subject = self.rights.subject();
        let question = self.rights.question(&subject, target);
        self.policy.hides(&self.policy.verdict(&self.rights.class, &question))
    }
}
