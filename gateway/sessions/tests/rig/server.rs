//! A server that responds with its own name.

use std::sync::Arc;
use std::time::SystemTime;

use lockgate_admission::{Bounds, Charge, ConcurrencyLimit};
use lockgate_protocol::capabilities::Offers;
use lockgate_protocol::jsonrpc::{self, Message, SentBy};
use lockgate_protocol::key::Key;
use lockgate_protocol::method::Method;
use lockgate_protocol::revision::{Era, Revision};
use lockgate_upstream::{
    Answer, AnswerKind, BoxFuture, Call, Caller, CallerIdentity, Event, Instance, Item, ListKind,
    OwnLists, ServerId, Status, Subscription, Topic, Upstream, UpstreamError, UpstreamState,
};
use parking_lot::Mutex;
use serde_json::{Value, json};

/// The two parts of the answer of the tool `stream`.
const LARGE_ANSWER: (&str, &str) = (
    r#"{"jsonrpc":"2.0","id":0,"result":{"content":[{"type":"text","text":"who"#,
    r#"le"}],"resultType":"complete"}}"#,
);

pub(in crate::tests) struct Named {
    id: ServerId,
    catalog: Mutex<Arc<lockgate_upstream::Catalog>>,
    calls: Arc<ConcurrencyLimit>,
    instance: Instance,
    pub(in crate::tests) called: Mutex<Vec<String>>,
    /// Keys passed to `forget_session`.
    pub(in crate::tests) forgotten: Mutex<Vec<u64>>,
    /// How the lists of every account differ from those for all.
    private: Mutex<Option<Arc<OwnLists>>>,
    /// The tools offered once connected, for a resting server.
    rests: Mutex<Option<(lockgate_upstream::Events, Vec<String>)>>,
}

pub(in crate::tests) fn server(
    organisation: Option<&str>,
    slug: &str,
    tools: &[&str],
) -> Arc<Named> {
    let bounds = Bounds { running: 8, waiting: 8 };
    let server = Named {
        id: ServerId { organisation: organisation.map(Into::into), slug: slug.into() },
        catalog: Mutex::default(),
        calls: ConcurrencyLimit::new(bounds, Charge::Turns, None),
        instance: Instance::mint(),
        called: Mutex::default(),
        forgotten: Mutex::default(),
        private: Mutex::default(),
        rests: Mutex::default(),
    };
    server.offer(1, tools);
    Arc::new(server)
}

/// Returns a server that connects on first use.
pub(in crate::tests) fn resting_server(
    rig: &super::Rig,
    organisation: &str,
    slug: &str,
    tools: &[&str],
) -> Arc<Named> {
    let server = server(Some(organisation), slug, &[]);
    *server.catalog.lock() = Arc::default();
    let tools = tools.iter().map(ToString::to_string).collect();
    *server.rests.lock() = Some((rig.gateway.directory.events.clone(), tools));
    server
}

fn item(member: &str, key: &str) -> Item {
    let text = json!({member: key, "name": key, "inputSchema": {"type": "object"}}).to_string();
    Item { key: key.into(), text: text.into(), headers: None }
}

impl Named {
    pub(in crate::tests) fn offer(&self, version: u64, tools: &[&str]) {
        let offers = Offers {
            tools: true,
            resources: true,
            subscribe: true,
            tasks: true,
            list_changed: true,
            ..Offers::default()
        };
        let mut catalog = lockgate_upstream::Catalog { version, offers, ..Default::default() };
        let tools = tools.iter().map(|tool| item("name", tool));
        catalog.set_items(ListKind::Tools, tools.collect());
        catalog.set_items(ListKind::Resources, vec![item("uri", "note://one")]);
        *self.catalog.lock() = Arc::new(catalog);
    }

    /// Offers another tool to every caller with an account.
    pub(in crate::tests) fn offer_in_private(&self, tool: &str) {
        let shared = self.catalog();
        let mut own = lockgate_upstream::Catalog { version: 1, ..Default::default() };
        let tools = shared.items(ListKind::Tools).iter().cloned().chain([item("name", tool)]);
        own.set_items(ListKind::Tools, tools.collect());
        own.set_items(ListKind::Resources, shared.items(ListKind::Resources).to_vec());
        *self.private.lock() = Some(Arc::new(OwnLists::compare(&own, &shared, None)));
    }

    fn answer(&self, call: &Call<'_>) -> Value {
        let name = self.id.to_string();
        self.called.lock().push(format!("{} {}", call.method().as_str(), call.target));
        match call.method() {
            Method::ToolsCall if call.target == "ask" && !has(call, Key::RequestState) => json!({
                "resultType": "input_required",
                "requestState": format!("state of {name}"),
                "inputRequests": {"one": {"method": "elicitation/create", "params": {
                    "mode": "form", "message": "?", "requestedSchema":
                        {"type": "object", "properties": {"a": {"type": "string"}}}}}},
            }),
            Method::ToolsCall if call.target == "work" => json!({
                "resultType": "task", "taskId": "t1", "status": "working",
                "createdAt": "2026-11-01T00:00:00Z", "lastUpdatedAt": "2026-11-01T00:00:00Z",
                "ttlMs": 60000,
            }),
            Method::ToolsCall if call.target == "principal" => {
                let principal = call.channel.as_ref().map(|channel| channel.principal());
                json!({"resultType": "complete", "content": [
                    {"type": "text", "text": format!("{principal:?}")}]})
            }
            Method::ToolsCall => json!({
                "resultType": "complete", "content": [{"type": "text", "text": name}],
            }),
            Method::ResourcesRead => json!({
                "resultType": "complete", "contents": [{"uri": call.target, "text": name}],
            }),
            _ => json!({"resultType": "complete", "taskId": "t1", "status": "working",
                "createdAt": "2026-11-01T00:00:00Z", "lastUpdatedAt": "2026-11-01T00:00:00Z",
                "ttlMs": 60000}),
        }
    }

    pub(in crate::tests) fn rests(&self) -> bool {
        self.rests.lock().is_some()
    }
}

fn has(call: &Call<'_>, name: Key) -> bool {
    call.replaced.iter().any(|(member, value)| *member == name && value.is_some())
}

impl Upstream for Named {
    fn slug(&self) -> &str {
        &self.id.slug
    }

    fn organisation(&self) -> Option<&Arc<str>> {
        self.id.organisation.as_ref()
    }

    fn instance(&self) -> Instance {
        self.instance
    }

    fn status(&self) -> Arc<Status> {
        let peer = lockgate_upstream::Peer {
            era: Era::Modern,
            revision: Revision::V2026_07_28,
            transport: "http",
            name: "named".into(),
            version: "1".into(),
        };
        let since = SystemTime::UNIX_EPOCH;
        let (peer, trouble, restarts) = (Some(peer), None, 0);
        let state = if self.rests() { UpstreamState::Resting } else { UpstreamState::Connected };
        let (list_failure, last_good) = (None, None);
        Arc::new(Status { state, since, peer, trouble, list_failure, restarts, last_good })
    }

    fn catalog(&self) -> Arc<lockgate_upstream::Catalog> {
        Arc::clone(&self.catalog.lock())
    }

    fn streams_answers(&self) -> bool {
        true
    }

    fn calls(&self) -> &Arc<ConcurrencyLimit> {
        &self.calls
    }

    fn call<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, Result<Answer, UpstreamError>> {
        Box::pin(async move {
            let result = self.answer(&call);
            if call.target == "stream"
                && let Some(sink) = &call.sink
            {
                // All of it has arrived: there is nothing to wait for.
                let (start, rest) = LARGE_ANSWER;
                assert!(sink.begin(0, start.as_bytes()));
                sink.write(rest.into()).await.unwrap();
                sink.finish().await.unwrap();
            }
            let kind = match result["resultType"].as_str() {
                Some("input_required") => AnswerKind::InputRequired,
                Some("task") => AnswerKind::Task,
                _ => AnswerKind::Complete,
            };
            let text = json!({"jsonrpc": "2.0", "id": 0, "result": result}).to_string();
            let Ok(Message::Response(read)) = jsonrpc::parse(text.into(), 64, SentBy::Server)
            else {
                panic!("no response")
            };
            Ok(Answer { text: read.text, outcome: read.outcome, kind })
        })
    }

    fn subscribe<'a>(
        &'a self,
        _: &'a Topic,
        _: &'a Caller,
        _: CallerIdentity<'a>,
    ) -> BoxFuture<'a, Result<Subscription, UpstreamError>> {
        Box::pin(std::future::ready(Ok(Subscription::Shared)))
    }

    fn unsubscribe<'a>(&'a self, _: &'a Topic, _: Subscription) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }

    fn has_private_lists(&self) -> bool {
        self.private.lock().is_some()
    }

    fn private_lists(&self, _: CallerIdentity<'_>) -> Option<Arc<OwnLists>> {
        self.private.lock().clone()
    }

    fn touch(&self) {
        let Some((events, tools)) = self.rests.lock().take() else { return };
        let tools: Vec<&str> = tools.iter().map(String::as_str).collect();
        self.offer(1, &tools);
        // A gateway that is not subscribed yet merges the catalog anyway.
        let _ = events.send(Event::Changed { server: self.id.clone() });
    }

    fn forget_session(&self, session: u64) {
        self.forgotten.lock().push(session);
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}
