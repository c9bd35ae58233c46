//! Lookups of a view's resources by URI.

use std::sync::Arc;

use lockgate_policy::{Annotations, Target, TargetKind};
use lockgate_protocol::revision::Era;
use lockgate_protocol::uri::{self, Form};
use lockgate_upstream::ListKind;

use super::entry::{FoundResource, category, organisation_of};
use super::template::{self, Steps};
use super::view::View;

impl View {
    /// Finds the server and its own URI behind a client's URI, listed or not.
    pub(crate) fn resource(&self, uri: &str, kind: TargetKind) -> Option<FoundResource> {
        self.resource_within(uri, kind, &mut Steps::of_request())
    }

    /// Like [`Self::resource`], with a budget for many URIs.
    pub(crate) fn resource_within(
        &self,
        uri: &str,
        kind: TargetKind,
        steps: &mut Steps,
    ) -> Option<FoundResource> {
        let (slug, own) = if self.namespaced {
            match uri::own(uri) {
                Some((slug, own)) => {
                    (self.servers.get_key_value(slug)?.0.clone(), own.into_owned())
                }
                None => (self.web.get(uri)?.clone(), uri.to_owned()),
            }
        } else {
            (self.servers.keys().next()?.clone(), uri.to_owned())
        };
        uri::validate(&own, uri::MAX_URI).ok()?;
        // Servers accept many spellings, but policies are checked against a single spelling.
        let is_known = match uri::form(&own) {
            Form::Canonical => true,
            Form::Expanded => self.describes_within(uri, steps),
            Form::Other => self.lists(uri),
        };
        if !is_known {
            return None;
        }
        let server = self.servers.get(&slug)?;
        if self.quarantined_skills.iter().any(|skill| skill.covers(&**server, &own)) {
            return None;
        }
        let exposed = uri::expose(&slug, &own).into_owned();
        if let Some(compose) = &self.compose
            && !compose.resources.fit(&[&exposed, &own, &format!("{slug}/{own}")])
        {
            return None;
        }
        let category = category(&**server);
        let server_name = slug.as_str();
        let annotations = Annotations::default();
        let category_name = category.as_deref();
        let target = Target {
            kind,
            server: server_name,
            organisation: organisation_of(&**server),
            exposed: &exposed,
            own: &own,
            category: category_name,
            annotations,
        };
        let subject = self.rights.subject();
        let verdict =
            self.policy.verdict(&self.rights.class, &self.rights.question(&subject, &target));
        if !verdict.is_visible() {
            return None;
        }
        Some(FoundResource { server: Arc::clone(server), own, exposed, category, verdict })
    }

    /// Returns whether a resource or a template with this URI is listed.
    pub(crate) fn lists(&self, uri: &str) -> bool {
        for kind in [ListKind::Resources, ListKind::Templates] {
            for entry in self.entries(kind, Some(Era::Legacy)) {
                if **self.shown(entry) == *uri {
                    return true;
                }
            }
        }
        false
    }

    /// Returns whether a resource with this URI is listed, or a listed template expands to the URI.
    pub(crate) fn describes(&self, uri: &str) -> bool {
        self.describes_within(uri, &mut Steps::of_request())
    }

    /// Like [`Self::describes`], with a budget for many URIs. Returns `false` once it is used up.
    pub(crate) fn describes_within(&self, uri: &str, steps: &mut Steps) -> bool {
        let mut templates = self.entries(ListKind::Templates, Some(Era::Legacy));
        self.lists(uri) || templates.any(|entry| template::describes(self.shown(entry), uri, steps))
    }
}
