//! Questions about a view's resources: which one a URI means, and which URIs are listed or
//! described.

use std::sync::Arc;

use lockgate_policy::{Annotations, Kind, Target};
use lockgate_protocol::revision::Era;
use lockgate_protocol::uri::{self, Form};
use lockgate_upstream::ListKind;

use super::entry::{Found, category, organisation_of};
use super::template::{self, Steps};
use super::view::View;

impl View {
    /// The server and its own URI behind a URI that a client uses, listed or not.
    pub(crate) fn resource(&self, uri: &str, kind: Kind) -> Option<Found> {
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
        // Servers take many spellings of a resource, and policies are held against one.
        let is_known = match uri::form(&own) {
            Form::Canonical => true,
            Form::Expanded => self.describes(uri),
            Form::Other => self.lists(uri),
        };
        if !is_known {
            return None;
        }
        let server = self.servers.get(&slug)?;
        let exposed = uri::expose(&slug, &own).into_owned();
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
        Some(Found { server: Arc::clone(server), own, exposed, category, verdict })
    }

    /// Whether a resource or a template with this URI is listed.
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

    /// Whether a resource with this URI is listed, or one that a listed template expands to.
    pub(crate) fn describes(&self, uri: &str) -> bool {
        self.describes_within(uri, &mut Steps::of_request())
    }

    /// The same for one of many URIs: no more than so many steps are spent on templates, and beyond
    /// them the answer is no.
    pub(crate) fn describes_within(&self, uri: &str, steps: &mut Steps) -> bool {
        let mut templates = self.entries(ListKind::Templates, Some(Era::Legacy));
        self.lists(uri) || templates.any(|entry| template::describes(self.shown(entry), uri, steps))
    }
}
