//! A request with a known caller and era. Reaching a server also requires a
//! [`Permitted`](crate::authorize::Permitted), which is made from this context.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use lockgate_authn::Principal;
use lockgate_protocol::code;
use lockgate_protocol::jsonrpc::{self, Message, Request, SentBy};
use lockgate_protocol::key::Key;
use lockgate_protocol::method::Method;
use lockgate_protocol::revision::Revision;
use lockgate_protocol::scan::{self, MAX_DEPTH};
use lockgate_telemetry::TraceContext;
use lockgate_upstream::{Caller, CallerIdentity, CallerToken, ServerId, Upstream};
use serde_json::{Value, json};

use crate::catalog::{Audience, CatalogEntry, View, ViewEntry, ViewSearch};
use crate::own_lists::OwnClients;
use crate::rescue::RequestError;
use crate::rights::CallerRights;
use crate::server_operation::{ServerOperation, trace_of_message};
use crate::snapshot::Snapshot;
use crate::transport::{ClientProtocol, Reply, Transport};

/// The session of a legacy client, as its requests use it.
pub trait LegacySession: Send + Sync {
    /// Returns the session, if its own connections may have other lists.
    fn own_clients(&self) -> OwnClients;

    /// Returns whether the client loads definitions of tools on demand.
    fn defers_loading(&self) -> bool;

    /// Records a task that the client follows, by its client's id and the server's own.
    fn remember_task(&self, token: &str, server: ServerId, own: &str);
}

/// A request at an existing endpoint, its caller and its environment.
pub struct RequestContext {
    pub snapshot: Arc<Snapshot>,
    pub view: Arc<View>,
    pub transport: Transport,
    /// The caller and the endpoint.
    pub rights: CallerRights,
    pub request: Request,
    pub revision: Revision,
    pub caller: Caller,
    pub session: Option<Arc<dyn LegacySession>>,
    /// Trace position of the exchange, or of the request that caused this request.
    pub trace: Option<TraceContext>,
    /// Metrics and span; `None` for requests of the gateway itself.
    pub operation: Option<ServerOperation>,
    /// Whether the response may be streamed.
    pub takes_streamed_body: bool,
}

/// Returns whether a request has an unknown method that the operator lets through to the only
/// server of an endpoint.
pub(crate) fn is_passed(request: &Request, view: &View, snapshot: &Snapshot) -> bool {
    request.method == Method::Unknown
        && !view.namespaced
        && snapshot.config.methods.contains(&*request.method_name())
}

impl RequestContext {
    pub(crate) fn protocol(&self) -> &'static ClientProtocol {
        ClientProtocol::of(self.revision)
    }

    /// Returns our server info, if results carry it.
    pub(crate) fn info(&self) -> Option<&Arc<[u8]>> {
        self.protocol().describes_results.then_some(&self.snapshot.info)
    }

    /// Returns the error code for a resource that does not exist. The skills extension has a code
    /// of its own, for all revisions.
    pub fn missing_resource(&self) -> i64 {
        match self.request.method {
            Method::SkillsGet | Method::DirectoryRead => code::INVALID_PARAMS,
            _ => self.protocol().missing_resource,
        }
    }

    /// Returns the reply with an error.
    pub(crate) fn refuse(&self, problem: &RequestError) -> Reply {
        problem.reply_in(self.protocol(), Some(self.request.id()))
    }

    /// Returns the text of an error.
    pub fn write_error(&self, problem: &RequestError) -> Vec<u8> {
        problem.text(self.protocol(), Some(self.request.id()))
    }

    /// Returns the context of another request of the same caller at the same endpoint.
    pub fn instead(&self, request: Request) -> Self {
        Self {
            snapshot: Arc::clone(&self.snapshot),
            view: Arc::clone(&self.view),
            transport: self.transport,
            rights: self.rights.clone(),
            request,
            revision: self.revision,
            caller: self.caller.clone(),
            session: self.session.clone(),
            trace: self.position(),
            operation: None,
            takes_streamed_body: false,
        }
    }

    /// Builds the request for the state of a task, which the gateway makes on behalf of its client.
    pub fn of_task(
        token: &str,
        (snapshot, view, rights): (Arc<Snapshot>, Arc<View>, CallerRights),
        (revision, caller, session): (Revision, Caller, Option<Arc<dyn LegacySession>>),
    ) -> Option<Box<Self>> {
        Some(Box::new(Self {
            view,
            transport: Transport::Mcp,
            rights,
            request: make_request(Method::TasksGet, &json!({"taskId": token}))?,
            revision,
            caller,
            session,
            trace: None,
            operation: None,
            takes_streamed_body: false,
            snapshot,
        }))
    }

    /// Returns the position in a trace, if any; spans of this request are its children.
    pub(crate) fn position(&self) -> Option<TraceContext> {
        let own = self.operation.as_ref().and_then(ServerOperation::context);
        own.or_else(|| trace_of_message(&self.request).or_else(|| self.trace.clone()))
    }

    /// Returns the search of the view, if this client finds tools instead of getting all of them.
    pub(crate) fn search(&self) -> Option<&ViewSearch> {
        let search = self.view.search.as_deref()?;
        let is_listed = self.transport != Transport::Mcp || search.is_auto && self.defers_loading();
        if is_listed { None } else { Some(search) }
    }

    /// Returns whether the client loads definitions of tools on demand.
    fn defers_loading(&self) -> bool {
        match &self.session {
            Some(session) => session.defers_loading(),
            None => {
                let client = self.request.meta(Key::MetaClientInfo).unwrap_or(b"{}");
                self.snapshot.config.tool_search.is_deferring(client)
            }
        }
    }

    /// Returns whether policy hides no resource of a server from the caller.
    pub fn hides_nothing_of(&self, server: &dyn Upstream) -> bool {
        self.snapshot.policy.hides_no_resource(&self.rights.class, server.slug())
    }

    /// Returns the narrowest audience that this caller belongs to.
    pub(crate) fn audience(&self) -> Audience {
        Audience::of(self.caller.interactive, self.session.is_some())
    }

    /// Returns whether an entry of the view is offered to this caller.
    pub(crate) fn sees(&self, entry: &CatalogEntry) -> bool {
        entry.audience.includes(self.audience())
    }

    /// Returns whether the request continues an earlier request.
    pub(crate) fn is_next_round(&self) -> bool {
        let request = &self.request;
        request.param(Key::RequestState).is_some() || request.param(Key::InputResponses).is_some()
    }

    /// Returns whether the request has an unknown method that the endpoint's only server gets.
    pub(crate) fn passes(&self) -> bool {
        is_passed(&self.request, &self.view, &self.snapshot)
    }

    /// Returns whether requests for tasks are served. The extension's are checked before; a session
    /// has the tasks of 2025-11-25, if a server does too.
    pub fn serves_tasks(&self) -> bool {
        self.protocol().has_task_extension
            || self.revision == Revision::V2025_11_25 && self.view.offers.legacy_tasks
    }

    /// Returns the tool of this name if it is offered to this caller.
    pub(crate) fn tool(&self, name: &str) -> Option<&ViewEntry> {
        self.view.tool(name).filter(|seen| self.sees(&seen.entry))
    }

    /// Returns the prompt of this name if it is offered to this caller.
    pub(crate) fn prompt(&self, name: &str) -> Option<&ViewEntry> {
        self.view.prompt(name).filter(|seen| self.sees(&seen.entry))
    }

    /// Returns the parts that sealed tokens are bound to.
    pub(crate) fn bind(&self) -> [&[u8]; 3] {
        let CallerRights { principal, endpoint, .. } = &self.rights;
        [principal.realm().as_bytes(), principal.subject.as_bytes(), endpoint.bound()]
    }
}

/// A member of `params` with its replacement for the server; `None` removes the member.
pub(crate) type Replaced = (Key, Option<Vec<u8>>);

/// Where the next round of a request resumes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Resumption {
    /// At the server, with the server's own state.
    #[default]
    AtServer,
    /// In a running call that is parked at the gateway with this address.
    Parked(Box<str>, Option<SocketAddr>),
    /// With a new call: the reason for the round was handled elsewhere.
    Anew,
}

/// The prompt or resource in `params.ref`.
pub(crate) struct Reference<'a> {
    pub(crate) raw: &'a [u8],
    pub(crate) is_prompt: bool,
    /// The name or URI.
    pub(crate) name: Cow<'a, str>,
}

impl Reference<'_> {
    /// Returns the member that holds the name or URI.
    pub(crate) fn key(&self) -> &'static str {
        if self.is_prompt { "name" } else { "uri" }
    }
}

/// Returns the reference of a request for completions.
pub(crate) fn read_reference(request: &Request) -> Option<Reference<'_>> {
    let raw = request.param(Key::Ref)?;
    let mut scanner = scan::Scanner::new(raw, MAX_DEPTH).ok()?;
    let (_, members) = scanner.members(scan::Keys::Strict).ok()?;
    let is_prompt = match &*scan::find_str(&members, raw, "type")? {
        "ref/prompt" => true,
        "ref/resource" => false,
        _ => return None,
    };
    let name = scan::find_str(&members, raw, if is_prompt { "name" } else { "uri" })?;
    Some(Reference { raw, is_prompt, name })
}

/// Returns the identity for servers at which callers have their own accounts.
pub fn identity_of(principal: &Principal) -> CallerIdentity<'_> {
    let token = principal.access_token().map(|token| CallerToken {
        text: &token.text,
        digest: &token.digest,
        expires_at: UNIX_EPOCH + Duration::from_secs(token.expires),
    });
    CallerIdentity {
        organisation: principal.named_organisation(),
        issuer: &principal.issuer,
        subject: &principal.subject,
        access_token: token,
    }
}

/// Builds a request of the gateway's own.
pub fn make_request(method: Method, params: &Value) -> Option<Request> {
    let text = json!({"jsonrpc": "2.0", "id": 0, "method": method.as_str(), "params": params});
    match jsonrpc::parse(text.to_string().into(), MAX_DEPTH, SentBy::Client) {
        Ok(Message::Request(request)) => Some(request),
        _ => None,
    }
}

/// Builds a request for a URI by the same caller at the same endpoint.
pub fn about(context: &RequestContext, method: Method, uri: &str) -> Option<RequestContext> {
    Some(context.instead(make_request(method, &json!({"uri": uri}))?))
}
