//! A gateway without a listener, servers without connections, and clients of both eras.

mod server;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use http::{HeaderMap, HeaderValue};
use lockgate_authn::{Authenticator, Holder, Identity, Peer, Principal, RoleHolders};
use lockgate_protocol::method::Method;
use lockgate_protocol::name::Separator;
use lockgate_proxy::directory::About;
use lockgate_proxy::transport::{
    BodyError, Endpoint, Events, Exchange, ExchangeKind, METHOD, NAME, ReplyBody, SESSION,
    StreamedBody, Transport, VERSION,
};
use lockgate_proxy::{AgentOwner, AgentServers, Config, Gateway, Limits, Names, Rules, ToolSearch};
use lockgate_telemetry::Metrics;
use lockgate_upstream::{Event, ServerId, Upstream};
use serde_json::{Value, json};
use tokio::task::coop;

use crate::Edge;

pub(super) use server::{Named, resting_server, server};

/// Timeout for expected events.
pub(super) const EVENT_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) struct Rig {
    pub(super) gateway: Arc<Gateway>,
    edge: Arc<Edge>,
}

/// Returns an agent with these servers: `organisation/slug`, or an operator's slug.
pub(super) fn agent(id: &str, owner: &str, servers: &[&str]) -> AgentServers {
    let server_id = |name: &&str| match name.split_once('/') {
        Some((organisation, slug)) => {
            ServerId { organisation: Some(organisation.into()), slug: slug.into() }
        }
        None => ServerId::shared(name),
    };
    AgentServers {
        id: id.into(),
        owner: AgentOwner { issuer: "https://issuer.test".into(), subject: owner.into() },
        servers: servers.iter().map(server_id).collect(),
        hidden: BTreeMap::new(),
        items: None,
        mode: None,
    }
}

impl Rig {
    pub(super) fn new() -> Self {
        Self::with_separator(Separator::default())
    }

    pub(super) fn with_separator(separator: Separator) -> Self {
        let egress = lockgate_egress::Config {
            connect_timeout: EVENT_TIMEOUT,
            idle_connections: 1,
            idle_timeout: EVENT_TIMEOUT,
            ..lockgate_egress::Config::default()
        };
        let connector = Arc::new(lockgate_egress::Connector::new(&egress).unwrap());
        let admins = vec![Holder::parse("role:admin").unwrap()];
        let role_holders = RoleHolders { admins, ..RoleHolders::default() };
        let authn = lockgate_authn::Config { role_holders, ..lockgate_authn::Config::default() };
        let authn = Authenticator::start(&authn, &connector, None).unwrap();
        let policy = lockgate_policy::Config::default();
        let limiter = Arc::new(lockgate_policy::Local::new());
        let rules = Rules {
            config: config(separator),
            authn: Arc::new(authn),
            policy,
            limiter,
            signer: None,
            embedder: None,
        };
        let metrics = Metrics::new(&lockgate_telemetry::Config {
            level: "info".into(),
            format: lockgate_telemetry::Format::Text,
            export: lockgate_telemetry::Export {
                tools: 100,
                ..lockgate_telemetry::Export::default()
            },
            audit: None,
        });
        let gateway = Gateway::start(rules, Arc::new(metrics), None, None, None).unwrap();
        let edge = Edge::new(Arc::clone(&gateway));
        Self { gateway, edge }
    }

    /// Creates two organisations with a server of the same slug, and a shared server.
    pub(super) async fn with_two() -> (Self, [Arc<Named>; 2]) {
        let rig = Self::new();
        rig.share(&[server(None, "time", &["now"])]);
        let tools = |own| ["who", "ask", "work", own];
        let acme = server(Some("acme"), "github", &tools("dig"));
        let other = server(Some("other"), "github", &tools("fly"));
        rig.set("acme", std::slice::from_ref(&acme), Vec::new()).await;
        rig.set("other", std::slice::from_ref(&other), Vec::new()).await;
        (rig, [acme, other])
    }

    pub(super) fn share(&self, servers: &[Arc<Named>]) {
        let servers = servers.iter().map(|server| Arc::clone(server) as Arc<dyn Upstream>);
        self.gateway.directory.set_servers(servers);
    }

    /// Sets an organisation's servers and agents, and waits until they are merged.
    pub(super) async fn set(
        &self,
        organisation: &str,
        servers: &[Arc<Named>],
        agents: Vec<AgentServers>,
    ) {
        let servers = servers.iter().map(|server| Arc::clone(server) as Arc<dyn Upstream>);
        self.gateway.set_organisation(organisation, servers.collect(), agents);
        let directory = &self.gateway.directory;
        directory.settle(organisation, || About::all(&Endpoint::All), EVENT_TIMEOUT).await;
    }

    pub(super) fn tell(&self, event: Event) {
        self.gateway.directory.events.send(event).unwrap();
    }

    pub(super) fn client(&self, organisation: &str, subject: &str) -> Client {
        self.client_at(organisation, subject, Endpoint::All)
    }

    pub(super) fn client_at(&self, organisation: &str, subject: &str, at: Endpoint) -> Client {
        let identity = Identity::new("https://issuer.test", subject);
        let principal = Principal::new(identity.in_organisation(Some(organisation)));
        Client { edge: Arc::clone(&self.edge), principal, endpoint: at, session: None }
    }
}

/// A client; of the legacy era if it has a session.
#[derive(Clone)]
pub(super) struct Client {
    edge: Arc<Edge>,
    pub(super) principal: Principal,
    pub(super) endpoint: Endpoint,
    pub(super) session: Option<HeaderValue>,
}

/// A client's response.
pub(super) struct Got {
    pub(super) status: u16,
    pub(super) text: String,
    pub(super) headers: HeaderMap,
    pub(super) events: Option<Events>,
}

impl Got {
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap()
    }
}

impl Client {
    pub(super) async fn initialize(&self) -> Got {
        let params = json!({"protocolVersion": "2025-11-25",
            "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
        let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        self.send(&body, HeaderMap::new()).await
    }

    pub(super) async fn legacy(mut self) -> Self {
        let got = self.initialize().await;
        self.session = Some(got.headers[&SESSION].clone());
        self
    }

    pub(super) fn with_role(mut self, role: &str) -> Self {
        let organisation = self.principal.organisation().to_owned();
        let identity = Identity::new(&self.principal.issuer, &self.principal.subject);
        let mut identity = identity.in_organisation(Some(&organisation));
        identity.roles = [role.into()].into();
        self.principal = Principal::new(identity);
        self
    }

    pub(super) async fn ask(&self, method: &str, params: Value) -> Got {
        let mut params = params;
        let mut headers = HeaderMap::new();
        match &self.session {
            Some(session) => drop(headers.insert(SESSION.clone(), session.clone())),
            None => {
                params["_meta"] = json!({
                    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}},
                        "extensions": {"io.modelcontextprotocol/tasks": {}}},
                });
                let value = |text: &str| HeaderValue::from_str(text).unwrap();
                headers.insert(VERSION.clone(), value("2026-07-28"));
                headers.insert(METHOD.clone(), value(method));
                let target = Method::parse(method).target();
                if let Some(name) = target.and_then(|key| params[key.as_str()].as_str()) {
                    headers.insert(NAME.clone(), value(name));
                }
            }
        }
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        self.send(&body, headers).await
    }

    async fn send(&self, body: &Value, headers: HeaderMap) -> Got {
        self.exchange(ExchangeKind::Post(body.to_string().into()), headers).await
    }

    /// Opens a legacy session's stream outside of calls.
    pub(super) async fn listen(&self) -> Events {
        let session = self.session.clone().unwrap();
        let headers = HeaderMap::from_iter([(SESSION.clone(), session)]);
        self.exchange(ExchangeKind::Get, headers).await.events.unwrap()
    }

    async fn exchange(&self, kind: ExchangeKind, headers: HeaderMap) -> Got {
        let exchange = Exchange {
            endpoint: self.endpoint.clone(),
            transport: Transport::Mcp,
            peer: Peer::Stdio,
            credentials: None,
            principal: self.principal.clone(),
            kind,
            headers,
            takes_streamed_body: true,
        };
        let reply = tokio::time::timeout(EVENT_TIMEOUT, self.edge.receive(&exchange));
        let mut reply = reply.await.unwrap();
        let headers = reply.take_headers();
        let status = reply.status.as_u16();
        let text = |bytes: Bytes| String::from_utf8(bytes.to_vec()).unwrap();
        match reply.body {
            ReplyBody::Message(body) => {
                Got { status, text: text(body.into_bytes()), headers, events: None }
            }
            ReplyBody::Empty => Got { status, text: String::new(), headers, events: None },
            ReplyBody::Events(events) => {
                Got { status, text: String::new(), headers, events: Some(events) }
            }
            ReplyBody::Streamed(mut body) => {
                let mut all = Vec::new();
                let mut next = poll_without_budget(&mut body).await;
                while let Some(piece) = next {
                    all.extend_from_slice(&piece.unwrap());
                    next = body.next().await;
                }
                Got { status, text: text(all.into()), headers, events: None }
            }
            ReplyBody::Relayed(_) => panic!("there is one gateway"),
        }
    }

    pub(super) async fn call(&self, name: &str) -> Got {
        self.ask("tools/call", json!({"name": name, "arguments": {}})).await
    }

    pub(super) async fn tools(&self) -> Vec<String> {
        let mut names = Vec::new();
        let mut params = json!({});
        loop {
            let listed = self.ask("tools/list", params).await.json();
            let tools = listed["result"]["tools"].as_array().unwrap_or_else(|| panic!("{listed}"));
            names.extend(tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()));
            let Some(cursor) = listed["result"]["nextCursor"].as_str() else { return names };
            params = json!({"cursor": cursor});
        }
    }
}

pub(super) async fn next(events: &mut Events) -> Value {
    loop {
        let event = tokio::time::timeout(EVENT_TIMEOUT, events.next()).await.unwrap().unwrap();
        let data = event.data.into_bytes();
        if !data.is_empty() {
            return serde_json::from_slice(&data).unwrap();
        }
    }
}

/// Polls for the next piece in a task with a used-up budget, as a busy task's is.
async fn poll_without_budget(body: &mut StreamedBody) -> Option<Result<Bytes, BodyError>> {
    let mut is_first = true;
    std::future::poll_fn(|context| {
        while is_first && let Poll::Ready(unit) = coop::poll_proceed(context) {
            unit.made_progress();
        }
        is_first = false;
        body.as_mut().poll_next(context)
    })
    .await
}

fn config(separator: Separator) -> Config {
    Config {
        name: "gate".into(),
        title: None,
        instructions: None,
        names: Names { separator, max_length: 64 },
        tool_search: ToolSearch::default(),
        groups: BTreeMap::new(),
        endpoints: BTreeMap::new(),
        discovery: None,
        methods: std::collections::BTreeSet::new(),
        extensions: std::collections::BTreeSet::new(),
        limits: Limits {
            sessions: 100,
            session_idle: Duration::from_secs(60),
            bytes_in_flight: 64 << 20,
            queued_requests: 100,
            queued_judgements: 100,
            page_items: 2,
            discovery_deadline: EVENT_TIMEOUT,
            streams_per_principal: 16,
            subscriptions: 16,
            stream_buffer: 64,
            question_rounds: 8,
            question_timeout: Duration::from_secs(60),
            parked_calls: 16,
            parked_calls_per_principal: 16,
            answer_bytes: 65536,
            approvals: 16,
            approval_timeout: Duration::from_secs(60),
            ..Limits::default()
        },
        connections_per_address: 1000,
        secret: Some("a-secret-of-some-length-for-tests-only".into()),
        old_secrets: Vec::new(),
        pins: Default::default(),
        replicas: None,
    }
}

pub(super) async fn wait_until<F: Future<Output = bool>>(is_so: impl Fn() -> F) {
    let wait = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(EVENT_TIMEOUT, wait).await.unwrap();
}
