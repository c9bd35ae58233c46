//! A request of a known caller in a known era: what every later step reads. A server is reached
//! with a [`Permitted`](crate::authorize::Permitted) alone, which is made from it.

use std::sync::Arc;

use lockgate_authn::Principal;
use lockgate_protocol::jsonrpc::Request;
use lockgate_protocol::revision::{Era, Revision};
use lockgate_telemetry::TraceContext;
use lockgate_upstream::Caller;

use crate::catalog::{Entry, View, ViewEntry};
use crate::directory::Seeing;
use crate::rights::CallerRights;
use crate::server_operation::ServerOperation;
use crate::session::{Running, Session};
use crate::snapshot::Snapshot;
use crate::trace_context;
use crate::transport::{Endpoint, Transport};

/// A request of a known caller in a known era, at an endpoint that exists.
pub(crate) struct RequestContext {
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) view: Arc<View>,
    pub(crate) endpoint: Endpoint,
    pub(crate) transport: Transport,
    pub(crate) principal: Principal,
    /// What policy knows of the caller here.
    pub(crate) rights: CallerRights,
    pub(crate) request: Request,
    pub(crate) revision: Revision,
    pub(crate) caller: Caller,
    pub(crate) session: Option<Arc<Session>>,
    /// Where the exchange that carries it stands in the client's trace, or what caused it here.
    pub(crate) trace: Option<TraceContext>,
    /// What is measured of it, if it is a client's.
    pub(crate) operation: Option<Box<ServerOperation>>,
    /// Legacy: by which the client can cancel it, until the call takes it over.
    pub(crate) running: Option<Running>,
    /// Its answer may be passed on while it comes in.
    pub(crate) takes_streamed_body: bool,
}

impl RequestContext {
    pub(crate) fn era(&self) -> Era {
        self.revision.era()
    }

    /// Another request of the same caller at the same endpoint.
    pub(crate) fn instead(&self, request: Request) -> Self {
        Self {
            snapshot: Arc::clone(&self.snapshot),
            view: Arc::clone(&self.view),
            endpoint: self.endpoint.clone(),
            transport: self.transport,
            principal: self.principal.clone(),
            rights: self.rights.clone(),
            request,
            revision: self.revision,
            caller: self.caller.clone(),
            session: self.session.clone(),
            trace: self.position(),
            operation: None,
            running: None,
            takes_streamed_body: false,
        }
    }

    /// By what rules its caller sees something, and where.
    pub(crate) fn seeing(&self) -> Seeing<'_> {
        Seeing { endpoint: &self.endpoint, snapshot: &self.snapshot, rights: &self.rights }
    }

    /// Where it stands in a trace, if it does: what it causes is below that.
    pub(crate) fn position(&self) -> Option<TraceContext> {
        if let Some(operation) = &self.operation
            && let Some(context) = operation.context()
        {
            return Some(context);
        }
        match trace_context::of_message(&self.request) {
            Some(named) => Some(named),
            None => self.trace.clone(),
        }
    }

    /// Whether servers of either era can ask the caller things.
    pub(crate) fn can_be_asked(&self) -> bool {
        self.caller.interactive
    }

    /// Whether this caller is offered an entry of its view.
    pub(crate) fn sees(&self, entry: &Entry) -> bool {
        let asked = if self.can_be_asked() { Some(self.era()) } else { None };
        entry.audience.includes(asked)
    }

    /// The tool that clients call by this name, if this caller is offered it.
    pub(crate) fn tool(&self, name: &str) -> Option<&ViewEntry> {
        let seen = self.view.tool(name)?;
        if self.sees(&seen.entry) { Some(seen) } else { None }
    }

    /// The prompt of this name, if this caller is offered it.
    pub(crate) fn prompt(&self, name: &str) -> Option<&ViewEntry> {
        let seen = self.view.prompt(name)?;
        if self.sees(&seen.entry) { Some(seen) } else { None }
    }

    /// What sealed tokens are bound to.
    pub(crate) fn bind(&self) -> [&[u8]; 3] {
        let principal = &self.principal;
        [principal.realm().as_bytes(), principal.subject.as_bytes(), self.endpoint.bound()]
    }
}
