//! Questions about a view's resources that do not depend on what policy says of a single one.

use std::sync::Arc;

use lockgate_protocol::uri;
use lockgate_upstream::{ListKind, Upstream};

use super::View;
use super::template::{self, Steps};

impl View {
    /// Whether a resource or a template with this URI is listed.
    pub(crate) fn lists(&self, uri: &str) -> bool {
        let all = [ListKind::Resources, ListKind::Templates].map(|kind| self.entries(kind, true));
        all.into_iter().flatten().any(|entry| self.shown(entry) == uri)
    }

    /// Whether a resource with this URI is listed, or one that a listed template expands to.
    pub(crate) fn describes(&self, uri: &str) -> bool {
        self.describes_within(uri, &mut Steps::of_request())
    }

    /// The same for one of many URIs: no more than so many steps are spent on templates, and beyond them the answer is no.
    pub(crate) fn describes_within(&self, uri: &str, steps: &mut Steps) -> bool {
        let mut templates = self.entries(ListKind::Templates, true);
        self.lists(uri) || templates.any(|entry| template::describes(self.shown(entry), uri, steps))
    }

    /// The server that a URI belongs to, whatever it says of it.
    pub(crate) fn owner(&self, uri: &str) -> Option<&Arc<dyn Upstream>> {
        match (self.namespaced, uri::own(uri)) {
            (false, _) => self.servers.values().next(),
            (true, Some((slug, _))) => self.servers.iter().find(|(s, _)| s.as_str() == slug).map(|(_, server)| server),
            (true, None) => self.servers.get(self.web.get(uri)?),
        }
    }
}
