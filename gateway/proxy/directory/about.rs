//! Narrows down which of an organisation's servers a request may concern, before their lists are
//! known: other servers need not be connected for it. Not used for routing.

use std::borrow::Cow;
use std::collections::BTreeSet;

use lockgate_protocol::jsonrpc::Request;
use lockgate_protocol::key::Key;
use lockgate_protocol::method::Method;
use lockgate_protocol::scan;
use lockgate_upstream::{ServerId, Upstream};

use crate::items::is_management;
use crate::transport::Endpoint;

/// Exposed names keep at least this many bytes of their slug when they are shortened.
const MIN_SLUG_BYTES: usize = 32;

/// The endpoint and target of a request.
pub struct About<'a> {
    pub(super) endpoint: &'a Endpoint,
    target: Target<'a>,
}

enum Target<'a> {
    /// Lists and resources.
    Any,
    /// A tool or a prompt.
    Named(Cow<'a, str>),
    /// No server that is still unknown.
    None,
}

impl<'a> About<'a> {
    /// Returns the target for everything at an endpoint.
    pub fn all(endpoint: &'a Endpoint) -> Self {
        Self { endpoint, target: Target::Any }
    }

    pub fn request(endpoint: &'a Endpoint, request: &'a Request) -> Self {
        let target = match request.method {
            Method::ToolsCall | Method::PromptsGet => {
                match request.param(Key::Name).and_then(scan::as_str) {
                    Some(name) if is_management(&name) => Target::Any,
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

    /// Returns whether the request may concern a server; `assigned` are the agent's servers.
    pub(super) fn concerns(
        &self,
        server: &dyn Upstream,
        assigned: Option<&BTreeSet<ServerId>>,
    ) -> bool {
        let slug = server.slug();
        let is_there = match self.endpoint {
            Endpoint::All => true,
            // Its names may be those of any server.
            Endpoint::Composed(_) => return !self.is_of_known(),
            // Names at a server's own endpoint carry no slug.
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
    let shown = slug.get(..MIN_SLUG_BYTES).unwrap_or(slug);
    matches!(name.get(..shown.len()), Some(start) if start.eq_ignore_ascii_case(shown))
}
