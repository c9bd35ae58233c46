//! Which servers of an organisation a request may be about, as far as that shows before anything is
//! known of them: the others need not be connected for it. Nothing is routed by this.

use std::borrow::Cow;
use std::collections::BTreeSet;

use lockgate_protocol::jsonrpc::Request;
use lockgate_protocol::method::Method;
use lockgate_protocol::scan;
use lockgate_upstream::{ServerId, Upstream};

use crate::transport::Endpoint;

/// No exposed name is cut so short that it has less of its slug.
const SHOWN: usize = 32;

/// See the module.
pub(crate) struct About<'a> {
    pub(super) endpoint: &'a Endpoint,
    target: Target<'a>,
}

enum Target<'a> {
    /// Lists, and whatever is found in them.
    Any,
    /// A tool or a prompt.
    Named(Cow<'a, str>),
    /// What is known already.
    None,
}

impl<'a> About<'a> {
    /// All that there is at an endpoint.
    pub(crate) fn all(endpoint: &'a Endpoint) -> Self {
        Self { endpoint, target: Target::Any }
    }

    pub(crate) fn request(endpoint: &'a Endpoint, request: &'a Request) -> Self {
        let target = match request.method {
            Method::ToolsCall | Method::PromptsGet => {
                match request.param("name").and_then(scan::as_str) {
                    Some(name) => Target::Named(name),
                    None => Target::None,
                }
            }
            Method::Ping
            | Method::TasksGet
            | Method::TasksUpdate
            | Method::TasksCancel
            | Method::TasksList => Target::None,
            _ => Target::Any,
        };
        Self { endpoint, target }
    }

    /// Whether it may be about a server; `assigned` are those of the agent whose endpoint it is.
    pub(super) fn concerns(
        &self,
        server: &dyn Upstream,
        assigned: Option<&BTreeSet<ServerId>>,
    ) -> bool {
        let slug = server.slug();
        let is_there = match self.endpoint {
            Endpoint::All => true,
            // Its own names say nothing of it.
            Endpoint::Server(only) => return only == slug && !self.is_of_known(),
            Endpoint::Agent(_) => {
                matches!(assigned, Some(assigned) if assigned.contains(&ServerId::of(server)))
            }
        };
        is_there
            && match &self.target {
                Target::Any => true,
                Target::Named(name) => begins_with_slug(name, slug),
                Target::None => false,
            }
    }

    fn is_of_known(&self) -> bool {
        matches!(self.target, Target::None)
    }
}

fn begins_with_slug(name: &str, slug: &str) -> bool {
    let shown = slug.get(..SHOWN).unwrap_or(slug);
    matches!(name.get(..shown.len()), Some(start) if start.eq_ignore_ascii_case(shown))
}
