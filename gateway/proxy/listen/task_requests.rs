//! Requests with which a listen reads the tasks that it follows.

use std::sync::Arc;

use lockgate_authn::Principal;
use lockgate_protocol::revision::Revision;
use lockgate_upstream::Caller;

use crate::context::RequestContext;
use crate::directory::Seeing;
use crate::gateway::Gateway;
use crate::own_lists::OwnClients;
use crate::rights::CallerRights;
use crate::task_status;
use crate::transport::{Endpoint, Transport};

pub(super) struct TaskRequests {
    pub(super) gateway: Arc<Gateway>,
    pub(super) endpoint: Endpoint,
    pub(super) principal: Principal,
    pub(super) caller: Caller,
    pub(super) revision: Revision,
}

impl TaskRequests {
    /// Builds a request for one of the caller's tasks under the current rules.
    pub(super) fn make(&self, token: &str) -> Option<(Arc<Gateway>, Box<RequestContext>)> {
        let snapshot = self.gateway.snapshot();
        let principal = snapshot.authenticator.current(&self.principal)?;
        let rights = CallerRights::new(&snapshot.policy, principal.clone(), &self.endpoint);
        let own = if self.caller.interactive {
            self.gateway.find_own_clients(&self.principal, &self.caller.capabilities)
        } else {
            OwnClients::new()
        };
        let seeing = Seeing { endpoint: &self.endpoint, snapshot: &snapshot, rights: &rights };
        let context = RequestContext {
            view: self.gateway.view_with(&own, seeing)?,
            endpoint: self.endpoint.clone(),
            transport: Transport::Mcp,
            rights,
            principal,
            request: task_status::make_request(token, snapshot.config.limits.depth)?,
            revision: self.revision,
            caller: self.caller.clone(),
            session: None,
            trace: None,
            operation: None,
            running: None,
            takes_streamed_body: false,
            snapshot,
        };
        Some((Arc::clone(&self.gateway), Box::new(context)))
    }
}
