//! The stages of a request, as types: what each step knows, and what only it can make. A server is reached with a
//! [`Permitted`](crate::authorize::Permitted) alone.

use std::sync::Arc;

use lockgate_authn::{Authenticator, Principal};
use lockgate_policy::{Policy, Rates};
use lockgate_protocol::jsonrpc::Request;
use lockgate_protocol::name::Naming;
use lockgate_protocol::revision::{Era, Revision};
use lockgate_protocol::sealed::Sealer;
use lockgate_upstream::Caller;

use crate::Config;
use crate::catalog::View;
use crate::face::Endpoint;
use crate::session::Session;

/// Everything that configuration decides, replaced as one.
pub(crate) struct Setup {
    pub(crate) config: Config,
    pub(crate) authenticator: Authenticator,
    pub(crate) policy: Policy,
    pub(crate) rates: Rates,
    pub(crate) naming: Naming,
    pub(crate) sealer: Arc<Sealer>,
    /// JSON text of our `Implementation`.
    pub(crate) info: Arc<[u8]>,
}

/// A request of a known caller in a known era, at an endpoint that exists.
pub(crate) struct Asked {
    pub(crate) setup: Arc<Setup>,
    pub(crate) view: Arc<View>,
    pub(crate) endpoint: Endpoint,
    pub(crate) principal: Principal,
    /// A number for the principal, for limits.
    pub(crate) caller_key: u64,
    pub(crate) request: Request,
    pub(crate) revision: Revision,
    pub(crate) caller: Caller,
    pub(crate) session: Option<Arc<Session>>,
}

impl Asked {
    pub(crate) fn era(&self) -> Era {
        self.revision.era()
    }

    /// Another request of the same caller at the same endpoint.
    pub(crate) fn instead(&self, request: Request) -> Self {
        Self {
            setup: Arc::clone(&self.setup),
            view: Arc::clone(&self.view),
            endpoint: self.endpoint.clone(),
            principal: self.principal.clone(),
            caller_key: self.caller_key,
            request,
            revision: self.revision,
            caller: self.caller.clone(),
            session: self.session.clone(),
        }
    }

    /// What sealed tokens are bound to.
    pub(crate) fn bind(&self) -> [&[u8]; 3] {
        let endpoint = match &self.endpoint {
            Endpoint::All => b"".as_slice(),
            Endpoint::Server(slug) => slug.as_bytes(),
        };
        [self.principal.issuer.as_bytes(), self.principal.subject.as_bytes(), endpoint]
    }
}
