//! The gateway as clients meet it: every exchange comes in here and is taken through the steps in order. The steps
//! themselves are in the modules that this one calls.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use lockgate_admission::{Apart, Bounds};
use lockgate_authn::{Authenticator, Credentials, Principal};
use lockgate_protocol::code;
use lockgate_protocol::jsonrpc::{self, Broken, Message, Refusal, Request, SentBy};
use lockgate_protocol::meta;
use lockgate_protocol::method::Method;
use lockgate_protocol::modern::{METHOD_HEADER, NAME_HEADER, SESSION_HEADER, VERSION_HEADER};
use lockgate_protocol::revision::{Era, Revision};
use lockgate_protocol::sealed::BadSecret;
use lockgate_telemetry::audit::Trail;
use lockgate_telemetry::{Metrics, Tracer};
use lockgate_upstream::{Events, Upstream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::face::{Endpoint, Inbound, Reply, Verb};
use crate::hub::{self, Hub};
use crate::inspect::{self, Suspect};
use crate::rescue::Problem;
use crate::session::{Session, Sessions};
use crate::sole::Sole;
use crate::stage::Setup;
use crate::streams::Streams;
use crate::{Config, legacy, modern};
use lockgate_admission::budget::Budget;

/// Bytes of a message that are read in less than the time that others may be held up.
const LARGE: usize = 1024 * 1024;

/// See the module.
pub struct Gateway {
    setup: ArcSwap<Setup>,
    pub(crate) hub: Hub,
    pub(crate) sessions: Sessions,
    /// The gateway is going away: streams end, nothing new is begun.
    pub(crate) stopping: CancellationToken,
    /// Calls that still run are answered without their servers.
    pub(crate) ending: watch::Sender<bool>,
    /// Streams open now.
    pub(crate) streams: Arc<Streams>,
    pub(crate) sole: Sole,
    budget: Arc<Budget>,
    /// Where work is done that would hold up others.
    pub(crate) apart: Apart,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) tracer: Option<Tracer>,
    /// Where decisions and outcomes are recorded.
    pub(crate) audit: Option<Trail>,
}

/// What the configuration decides about the request path.
pub struct Rules {
    pub config: Config,
    pub authn: Arc<Authenticator>,
    pub policy: lockgate_policy::Config,
}

/// Rules that have been compiled and can be adopted.
pub struct Prepared(Setup);

/// A configuration that the request path cannot work with.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    #[error("policy: {0}")]
    Policy(String),
    #[error("secret: {0}")]
    Secret(#[from] BadSecret),
    #[error("names.separator: {0:?} is not one of __ _ - . /")]
    Separator(String),
}

impl Gateway {
    /// Makes a gateway without servers, and starts to follow those that it will get.
    ///
    /// # Errors
    /// [`Unusable`].
    pub fn start(
        rules: Rules,
        metrics: Arc<Metrics>,
        tracer: Option<Tracer>,
        audit: Option<Trail>,
    ) -> Result<Arc<Self>, Unusable> {
        let setup = Setup::new(rules, None)?;
        let budget = Arc::new(Budget::new(setup.config.limits.bytes_in_flight));
        // Half of the processors, so that those who serve others keep the other half.
        let threads = std::thread::available_parallelism().map_or(1, |n| n.get() / 2);
        let apart = Bounds { running: threads, waiting: setup.config.limits.queued_judgements };
        let gateway = Arc::new(Self {
            hub: Hub::new(setup.naming, &metrics),
            setup: ArcSwap::from_pointee(setup),
            sessions: Sessions::new(Arc::clone(&budget)),
            stopping: CancellationToken::new(),
            ending: watch::Sender::new(false),
            streams: Arc::default(),
            sole: Sole::default(),
            budget,
            apart: Apart::new(apart),
            metrics,
            tracer,
            audit,
        });
        tokio::spawn(hub::follow(Arc::clone(&gateway)));
        tokio::spawn(sweep(Arc::clone(&gateway)));
        Ok(gateway)
    }

    /// Compiles other rules. Nothing changes until they are adopted.
    ///
    /// # Errors
    /// [`Unusable`].
    pub fn prepare(&self, rules: Rules) -> Result<Prepared, Unusable> {
        Setup::new(rules, Some(&self.setup.load())).map(Prepared)
    }

    /// Takes over other rules. Sessions and servers stay as they are.
    pub fn adopt(&self, rules: Prepared) {
        self.budget.resize(rules.0.config.limits.bytes_in_flight);
        self.setup.store(Arc::new(rules.0));
        self.hub.refresh();
    }

    /// Replaces the set of servers; those that are in both stay connected.
    pub fn set_servers(&self, servers: impl IntoIterator<Item = Arc<dyn Upstream>>) {
        self.hub.set_servers(servers);
    }

    /// The servers, by slug.
    #[must_use]
    pub fn servers(&self) -> Vec<Arc<dyn Upstream>> {
        self.hub.servers()
    }

    /// Tools that operators should know of: new, changed, or with text that hides something.
    #[must_use]
    pub fn suspects(&self) -> Vec<Suspect> {
        inspect::suspects(&self.hub.catalog())
    }

    /// The account of bytes in flight.
    #[must_use]
    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// Where servers send their events.
    #[must_use]
    pub fn events(&self) -> Events {
        self.hub.events.clone()
    }

    /// Waits until every server is connected or has failed, at most for the discovery deadline.
    pub async fn settle(&self) {
        let deadline = self.setup.load().config.limits.discovery_deadline;
        self.hub.settle(deadline).await;
    }

    /// Ends all streams properly and takes no new ones.
    pub fn stop(&self) {
        self.stopping.cancel();
    }

    /// The time for running calls is over: each is answered with an error at once.
    pub fn end(&self) {
        self.ending.send_replace(true);
    }

    pub(crate) fn setup(&self) -> Arc<Setup> {
        self.setup.load_full()
    }

    /// Who is behind an exchange at an endpoint: asked before anything else of it is read.
    ///
    /// # Errors
    /// The answer to somebody who is not let in.
    pub async fn identify(&self, endpoint: &Endpoint, credentials: &Credentials) -> Result<Principal, Reply> {
        let authenticator = Arc::clone(&self.setup.load().authenticator);
        match authenticator.authenticate(credentials, endpoint.resource()).await {
            Ok(principal) => Ok(principal),
            Err(refused) => {
                self.unknown(&refused, endpoint);
                let challenge = authenticator.challenge(refused.why, endpoint.resource());
                Err(Problem::unauthenticated(refused.why, &challenge).reply(None, Era::Legacy))
            }
        }
    }

    /// The protected resource metadata (RFC 9728) at a path, if tokens are taken.
    #[must_use]
    pub fn metadata(&self, path: &str) -> Option<String> {
        self.setup.load().authenticator.metadata(path)
    }

    /// One exchange with a client. Dropping the future, or the events of the reply, means that the client has gone.
    pub async fn receive(self: &Arc<Self>, inbound: Inbound) -> Reply {
        let setup = self.setup();
        let principal = inbound.principal.clone();
        match inbound.verb {
            Verb::Get | Verb::Listen => legacy::get(self, &setup, &principal, &inbound),
            Verb::Delete => legacy::delete(self, &setup, &principal, &inbound),
            Verb::Post(ref body) => {
                let body = body.clone();
                self.post(setup, principal, inbound, body).await
            }
        }
    }

    async fn post(self: &Arc<Self>, setup: Arc<Setup>, principal: Principal, inbound: Inbound, body: Bytes) -> Reply {
        let parsed = match self.parse(&setup, &principal, body.clone()).await {
            Ok(parsed) => parsed,
            Err(problem) => {
                self.unmade(&problem, &inbound);
                return problem.reply(None, Era::Legacy);
            }
        };
        let message = match parsed {
            Ok(message) => message,
            Err(Refusal::Invalid { what: Broken::Batch, .. }) => {
                return legacy::batch(self, &setup, &principal, &inbound, &body).await;
            }
            Err(refusal) => {
                let (problem, reply) = refuse(&refusal, &body);
                self.unmade(&problem, &inbound);
                return reply;
            }
        };
        self.message(setup, principal, &inbound, message).await
    }

    /// Reads a message; a large one apart, so that nothing else on this thread waits for it.
    async fn parse(
        &self,
        setup: &Setup,
        principal: &Principal,
        body: Bytes,
    ) -> Result<Result<Message, Refusal>, Problem> {
        let depth = setup.config.limits.depth;
        if body.len() <= LARGE {
            return Ok(jsonrpc::parse(body, depth, SentBy::Client));
        }
        Box::pin(async move {
            let turn = self.apart.turn(principal.key()).await;
            let turn = turn.map_err(|_| Problem::too_many_judgements(self.apart.limit().expected_wait()))?;
            Ok(turn.run(move || jsonrpc::parse(body, depth, SentBy::Client)).await)
        })
        .await
    }

    /// Picks the era of a message (protocol: versioning) and hands it to that era's steps.
    pub(crate) async fn message(
        self: &Arc<Self>,
        setup: Arc<Setup>,
        principal: Principal,
        inbound: &Inbound,
        message: Message,
    ) -> Reply {
        let session_id = header(&inbound.headers, &SESSION);
        match message {
            Message::Response(response) => match self.session(session_id, &principal, inbound) {
                Some(session) => {
                    session.answer(&response);
                    accepted()
                }
                None => self.no_session(inbound, None),
            },
            Message::Request(request) | Message::Notification(request) => {
                lockgate_telemetry::request::has_rpc_id(request.id());
                match choose(&request, &inbound.headers) {
                    Chosen::Modern => modern::receive(self, setup, principal, inbound, request).await,
                    Chosen::Initialize => legacy::initialize(self, &setup, principal, inbound, &request),
                    Chosen::Legacy => match self.session(session_id, &principal, inbound) {
                        Some(session) => legacy::receive(self, setup, principal, session, inbound, request).await,
                        None => self.no_session(inbound, Some(request.id()).filter(|id| !id.is_empty())),
                    },
                }
            }
        }
    }

    pub(crate) fn session(&self, id: Option<&str>, principal: &Principal, inbound: &Inbound) -> Option<Arc<Session>> {
        self.sessions.find(id?, principal, &inbound.endpoint)
    }

    /// Ends a session and gives back what it held.
    pub(crate) fn end_session(&self, session: &Session) {
        self.sessions.close(session);
        let held = session.take_subscriptions();
        for server in self.hub.servers() {
            server.forget_session(lockgate_upstream::ClientSession::key(session));
            for (_, uri) in held.iter().filter(|(slug, _)| slug == server.slug()) {
                let (server, uri) = (Arc::clone(&server), uri.clone());
                tokio::spawn(async move { server.unsubscribe(&uri).await });
            }
        }
    }
}

/// Ends idle sessions, and those and the streams of keys that have expired, now and then.
async fn sweep(gateway: Arc<Gateway>) {
    loop {
        let idle = gateway.setup.load().config.limits.session_idle;
        let pause = (idle / 10).clamp(Duration::from_millis(100), Duration::from_secs(30));
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = gateway.stopping.cancelled() => return,
        }
        let limiter = Arc::clone(&gateway.setup.load().limiter);
        let _ = tokio::task::spawn_blocking(move || limiter.sweep()).await;
        for session in gateway.sessions.expire(idle) {
            gateway.end_session(&session);
        }
        // A key that expires tells nobody of it.
        let setup = gateway.setup();
        for session in gateway.sessions.all() {
            if setup.authenticator.current(&session.principal()).is_none() {
                gateway.end_session(&session);
            }
        }
        let _ = gateway.hub.news.send(hub::News::Catalog);
    }
}

enum Chosen {
    Modern,
    Initialize,
    Legacy,
}

/// The modern envelope outranks the method; a legacy version in the header of a session outranks the envelope.
fn choose(request: &Request, headers: &HeaderMap) -> Chosen {
    let version = header(headers, &VERSION).filter(|v| !v.is_empty());
    let legacy_version = version.and_then(Revision::parse).is_some_and(|r| r.era() == Era::Legacy);
    if legacy_version && headers.contains_key(&SESSION) {
        return Chosen::Legacy;
    }
    if request.meta(meta::PROTOCOL_VERSION).is_some() || version.is_some() && !legacy_version {
        return Chosen::Modern;
    }
    if request.method == Method::Initialize { Chosen::Initialize } else { Chosen::Legacy }
}

/// The headers that messages are looked up for, read once.
pub(crate) static SESSION: HeaderName = HeaderName::from_static(SESSION_HEADER);
pub(crate) static VERSION: HeaderName = HeaderName::from_static(VERSION_HEADER);
pub(crate) static METHOD: HeaderName = HeaderName::from_static(METHOD_HEADER);
pub(crate) static NAME: HeaderName = HeaderName::from_static(NAME_HEADER);

/// A header as text.
pub(crate) fn header<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name).and_then(|v| v.to_str().ok()).map(str::trim)
}

pub(crate) fn accepted() -> Reply {
    Reply::Empty { status: StatusCode::ACCEPTED, headers: HeaderMap::new() }
}

/// A text that is not a message we take.
pub(crate) fn refuse(refusal: &Refusal, body: &[u8]) -> (Problem, Reply) {
    let (code, id) = match refusal {
        Refusal::Parse(_) => (code::PARSE, None),
        Refusal::Invalid { id, .. } => (code::INVALID_REQUEST, *id),
    };
    let problem = Problem::new(code, refusal.to_string()).status(StatusCode::BAD_REQUEST);
    let reply = problem.reply(id.map(|span| span.of(body)), Era::Legacy);
    (problem, reply)
}

/// The header that names a legacy session.
pub(crate) fn session_header(id: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if let Ok(value) = HeaderValue::from_str(id) {
        headers.insert(SESSION.clone(), value);
    }
    headers
}
