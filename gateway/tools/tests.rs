//! Tests of `tools`, and the rig shared by the tests of its servers.

mod calls;
mod metrics;
mod system;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lockgate_protocol::jsonrpc::{self, Message, Outcome, Request, SentBy};
use lockgate_protocol::key::Key;
use lockgate_protocol::method::Method;
use lockgate_protocol::revision::Era;
use lockgate_upstream::{
    Answer, BoxFuture, Call, Caller, CallerIdentity, CallerView, ClientChannel, Event, ListKind,
    QuestionError, UpstreamError, VisibleItem,
};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::*;

/// Built-in servers without a gateway around them.
pub(crate) struct Rig {
    pub(crate) builtin: Builtin,
    pub(crate) heard: tokio::sync::broadcast::Receiver<Event>,
    /// Names of tools hidden from the caller.
    pub(crate) hidden: Vec<&'static str>,
    pub(crate) is_operator: bool,
}

pub(crate) fn rig(config: &Config) -> Rig {
    let egress = lockgate_egress::Config {
        connect_timeout: Duration::from_secs(5),
        idle_connections: 4,
        idle_timeout: Duration::from_secs(5),
        ..lockgate_egress::Config::default()
    };
    let (events, heard) = tokio::sync::broadcast::channel(64);
    let about = About {
        name: "gate".into(),
        version: "1.2.3".into(),
        started: Instant::now(),
        events,
        connector: Arc::new(Connector::new(&egress).unwrap()),
    };
    let builtin = Builtin::new(about);
    builtin.adopt(builtin.prepare(config).unwrap());
    Rig { builtin, heard, hidden: Vec::new(), is_operator: false }
}

/// Returns a configuration with the servers that need no settings.
pub(crate) fn plain() -> Config {
    Config { example: Some(true), ..Config::default() }
}

pub(crate) fn request(method: Method, params: &Value) -> Request {
    let text =
        json!({"jsonrpc": "2.0", "id": 1, "method": method.as_str(), "params": params}).to_string();
    request_text(text)
}

/// Returns a caller without any attributes.
/// The identity of no caller in particular.
pub(crate) const NOBODY: CallerIdentity<'static> =
    CallerIdentity { organisation: None, issuer: "", subject: "", access_token: None };

pub(crate) fn somebody() -> Caller {
    Caller {
        id: lockgate_admission::CallerId::alone(1),
        capabilities: "{}".into(),
        interactive: false,
        assertion: None,
        log_level: None,
        session: None,
        era: Era::Modern,
    }
}

fn request_text(text: String) -> Request {
    let Ok(Message::Request(request)) = jsonrpc::parse(text.into(), 64, SentBy::Client) else {
        panic!("not a request")
    };
    request
}

impl Rig {
    pub(crate) fn apply(&self, config: &Config) {
        self.builtin.adopt(self.builtin.prepare(config).unwrap());
    }

    /// Returns the figures of a tool.
    pub(crate) fn figures(&self, name: &str) -> registry::ToolStats {
        let tools = self.builtin.registry.all();
        tools.iter().find(|tool| &*tool.name == name).unwrap().figures(None)
    }

    pub(crate) fn server(&self, slug: &str) -> Arc<dyn Upstream> {
        self.builtin.servers().into_iter().find(|s| s.slug() == slug).unwrap()
    }

    /// Calls a tool (`category/name`). Returns the structured result, or the `isError` text.
    pub(crate) async fn call(&self, name: &str, arguments: Value) -> Result<Value, String> {
        let (slug, own) = name.split_once('/').unwrap();
        let result =
            self.ask(slug, Method::ToolsCall, own, json!({"arguments": arguments})).await.unwrap();
        if result["isError"] == json!(false) {
            let structured = result["structuredContent"].clone();
            let tools = self.server(slug).catalog();
            let item = tools.items(ListKind::Tools).iter().find(|item| &*item.key == own).unwrap();
            let item: Value = serde_json::from_slice(&item.text).unwrap();
            let output = schema::Schema::compile(&item["outputSchema"]).unwrap();
            output.check(structured).map_err(|words| panic!("{name}: {words}"))
        } else {
            Err(result["content"][0]["text"].as_str().unwrap().to_owned())
        }
    }

    /// Sends any request. Returns the result, or `code message` of the error.
    pub(crate) async fn ask(
        &self,
        slug: &str,
        method: Method,
        target: &str,
        params: Value,
    ) -> Result<Value, String> {
        open(&self.send(slug, target, &request(method, &params), &[], None, None).await.unwrap())
    }

    pub(crate) async fn send(
        &self,
        slug: &str,
        target: &str,
        request: &Request,
        replaced: &[(Key, Option<Vec<u8>>)],
        channel: Option<Arc<dyn ClientChannel>>,
        timeout: Option<Duration>,
    ) -> Result<Answer, UpstreamError> {
        let caller = somebody();
        let server = self.server(slug);
        let call = Call::new(target, request, &caller);
        server.call(Call { replaced, caller_view: Some(self), channel, timeout, ..call }).await
    }
}

fn open(answer: &Answer) -> Result<Value, String> {
    match answer.outcome {
        Outcome::Result(span, _) => Ok(serde_json::from_slice(span.of(&answer.text)).unwrap()),
        Outcome::Error(error) => Err(format!("{} {}", error.code, error.message(&answer.text))),
    }
}

/// Sees everything except hidden items, as `slug__name` and with unchanged URIs.
impl CallerView for Rig {
    fn identity(&self) -> CallerIdentity<'_> {
        CallerIdentity {
            organisation: Some("acme"),
            issuer: "local",
            subject: "user",
            access_token: None,
        }
    }

    fn is_operator(&self) -> bool {
        self.is_operator
    }

    fn calls_fail(&self, _: &dyn Upstream) -> bool {
        false
    }

    fn servers(&self) -> Vec<Arc<dyn Upstream>> {
        self.builtin.servers().into_iter().filter(|s| !self.hidden.contains(&s.slug())).collect()
    }

    fn items(&self, kind: ListKind) -> Vec<VisibleItem> {
        let mut seen = Vec::new();
        for server in self.servers() {
            for item in server.catalog().items(kind) {
                let exposed = match kind {
                    ListKind::Tools | ListKind::Prompts => {
                        format!("{}__{}", server.slug(), item.key)
                    }
                    _ => item.key.to_string(),
                };
                if !self.hidden.contains(&&*exposed) {
                    seen.push(VisibleItem {
                        slug: server.slug().into(),
                        exposed: exposed.into(),
                        text: item.text.clone(),
                    });
                }
            }
        }
        seen
    }

    fn read<'a>(&'a self, uri: &'a str) -> BoxFuture<'a, Result<Bytes, String>> {
        Box::pin(async move {
            for server in self.servers() {
                if let Ok(found) =
                    self.ask(server.slug(), Method::ResourcesRead, uri, json!({})).await
                {
                    return Ok(found.to_string().into());
                }
            }
            Err("resource not found".into())
        })
    }
}

/// Records the notifications of a call.
#[derive(Default)]
pub(crate) struct Notes {
    pub(crate) progress: Mutex<Vec<Value>>,
}

impl ClientChannel for Notes {
    fn wants_progress(&self) -> bool {
        true
    }

    fn progress(&self, note: &Request) {
        let params: BTreeMap<String, Value> = note
            .params()
            .iter()
            .map(|m| {
                (
                    m.name(&note.text).into_owned(),
                    serde_json::from_slice(m.value.of(&note.text)).unwrap(),
                )
            })
            .collect();
        self.progress.lock().push(json!(params));
    }

    fn log(&self, _: &Request) {}

    fn waiting(&self, _: Option<Duration>) {}

    fn ask(&self, _: Method, _: Bytes) -> BoxFuture<'_, Result<Bytes, QuestionError>> {
        Box::pin(async { Err(QuestionError::Undeclared) })
    }
}
