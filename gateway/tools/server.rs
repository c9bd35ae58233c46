//! One built-in server: its catalog, and the way of a call to its tools and material. What a model can mend (a wrong
//! argument, an operation that failed) is a result with `isError`; what a client did wrong is an error.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use bytes::Bytes;
use lockgate_admission::{Bounds, Charge, ConcurrencyLimit, Permit, Refused};
use lockgate_protocol::capabilities::Offers;
use lockgate_protocol::code;
use lockgate_protocol::jsonrpc::{self, From, Message, Outcome};
use lockgate_protocol::method::Method;
use lockgate_protocol::revision::{Era, Revision};
use lockgate_protocol::scan::MAX_DEPTH;
use lockgate_protocol::write;
use lockgate_upstream::{
    Answer, AnswerKind, BoxFuture, Call, Catalog, Event, Events, Failure, FailureKind, Item, ListKind, Peer, Stage,
    State, Status, Trouble, Upstream,
};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use crate::material::{Material, Target, Teller, Wanted};
use crate::registry::{Ended, Entry, Registry};
use crate::tool::{Arguments, Card, Client, Effect, MAX_TIMEOUT, Mistake, Output, TIMEOUT, Tool};
use crate::{Parts, schema, strict};

/// Most resources of one server that somebody is subscribed to.
const SUBSCRIPTIONS: usize = 1000;
/// Most values of a completion.
const VALUES: usize = 100;

/// Calls that run at once, and that wait, as the defaults are for servers of others.
const CALLS: Bounds = Bounds { running: 32, waiting: 128 };

/// What a category is made of.
pub(crate) struct Made {
    /// For models: what the server is for.
    pub(crate) instructions: String,
    pub(crate) tools: Vec<Box<dyn Tool>>,
    pub(crate) material: Option<Arc<dyn Material>>,
}

/// A built-in server.
pub(crate) struct Server {
    slug: &'static str,
    status: Arc<Status>,
    catalog: ArcSwap<Catalog>,
    instructions: Arc<str>,
    tools: Vec<Arc<Entry>>,
    by_name: HashMap<Box<str>, Arc<Entry>>,
    material: Option<Arc<dyn Material>>,
    registry: Arc<Registry>,
    events: Events,
    /// How many want to hear of each resource.
    subscriptions: Mutex<BTreeMap<String, usize>>,
    calls: Arc<ConcurrencyLimit>,
}

impl Server {
    pub(crate) fn start(
        slug: &'static str,
        version: &str,
        Parts { instructions, tools, material, trouble }: Parts,
        registry: Arc<Registry>,
        events: Events,
    ) -> Arc<Self> {
        let peer = Peer {
            era: Era::Modern,
            revision: Revision::V2026_07_28,
            transport: "builtin",
            name: slug.to_owned(),
            version: version.to_owned(),
        };
        let state = if trouble.is_some() { State::Failed } else { State::Connected };
        let trouble = trouble.map(|words| Trouble { stage: Stage::Start, words, stderr: Vec::new() });
        let status = Status { state, since: SystemTime::now(), peer: Some(peer), trouble, restarts: 0 };
        let by_name = tools.iter().map(|entry| (Box::from(entry.own()), Arc::clone(entry))).collect();
        let server = Arc::new(Self {
            slug,
            status: Arc::new(status),
            catalog: ArcSwap::default(),
            instructions: instructions.into(),
            tools,
            by_name,
            material,
            registry,
            events,
            subscriptions: Mutex::default(),
            calls: ConcurrencyLimit::new(CALLS, Charge::Turns, None),
        });
        if let Some(material) = &server.material {
            material.attach(Teller(Arc::downgrade(&server)));
        }
        server.read_lists();
        server
    }

    pub(crate) fn name(&self) -> &'static str {
        self.slug
    }

    pub(crate) fn tell(&self, event: Event) {
        // Nobody listens before the gateway runs, and it reads every list then.
        let _ = self.events.send(event);
    }

    /// Reads every list again.
    pub(crate) fn read_lists(&self) {
        let list = |kind: ListKind| -> Vec<Item> {
            let own = self.tools.iter().filter(|_| kind == ListKind::Tools).map(|entry| entry.card.item());
            let more = self.material.as_ref().map(|m| m.items(kind)).unwrap_or_default();
            own.chain(more).filter_map(|item| entry(&item, kind)).collect()
        };
        let offers = self.material.as_ref().map(|m| m.offers()).unwrap_or_default();
        let catalog = Catalog {
            version: self.catalog.load().version + 1,
            tools: list(ListKind::Tools),
            prompts: list(ListKind::Prompts),
            resources: list(ListKind::Resources),
            templates: list(ListKind::Templates),
            instructions: Some(Arc::clone(&self.instructions)),
            offers: Offers { tools: !self.tools.is_empty(), ..offers },
            ..Catalog::default()
        };
        self.catalog.store(Arc::new(catalog));
        self.tell(Event::Changed { slug: self.slug.into() });
    }

    async fn answer(&self, call: &Call<'_>) -> Result<Value, (i64, String)> {
        let invalid = |words: String| (code::INVALID_PARAMS, words);
        let client = Client { conversation: call.conversation.clone(), sight: call.sight };
        let material = self.material.as_ref();
        match call.method {
            Method::ToolsCall => self.tool(call, client).await.map_err(invalid),
            Method::PromptsGet => {
                let material = material.ok_or_else(|| invalid(format!("unknown prompt: {}", call.target)))?;
                let arguments = object(call, "arguments").map_err(invalid)?;
                material.prompt(call.target, &arguments, client).await.map_err(invalid)
            }
            Method::ResourcesRead => {
                let material = material.ok_or_else(|| invalid("resource not found".into()))?;
                match material.read(call.target, client).await.map_err(|words| (code::INTERNAL, words))? {
                    Some(contents) => Ok(contents.result()),
                    None => Err(invalid("resource not found".into())),
                }
            }
            Method::Complete => self.complete(call).map_err(invalid),
            other => Err((code::METHOD_NOT_FOUND, format!("method not found: {}", other.as_str()))),
        }
    }

    async fn tool(&self, call: &Call<'_>, client: Client<'_>) -> Result<Value, String> {
        let entry = self.by_name.get(call.target).ok_or_else(|| format!("unknown tool: {}", call.target))?;
        let mut arguments = object(call, "arguments")?;
        let mut run = self.registry.begin(entry);
        let limit = call.timeout.unwrap_or(entry.card.timeout).min(MAX_TIMEOUT);
        let outcome = match schema::fit(&entry.card.input, &mut arguments) {
            Ok(()) => match tokio::time::timeout(limit, entry.tool.run(Arguments(arguments), client)).await {
                Ok(outcome) => outcome,
                Err(_) => Err(late(&entry.card, limit)),
            },
            Err(words) => Err(Mistake(words)),
        };
        let (result, ended) = match outcome.and_then(|output| result(output, entry.card.cap)) {
            Ok(result) => (result, Ended::Success),
            Err(mistake) => {
                (json!({"content": [{"type": "text", "text": mistake.0}], "isError": true}), Ended::Failure)
            }
        };
        run.ended = ended;
        Ok(result)
    }

    /// A place among the calls that run at once; none is needed to wait for another server.
    async fn enter(&self, call: &Call<'_>, limit: Duration) -> Result<Option<Permit>, Failure> {
        let entry = self.by_name.get(call.target).filter(|_| call.method == Method::ToolsCall);
        if entry.is_some_and(|entry| entry.card.asks_servers) {
            return Ok(None);
        }
        if let Some(permit) = self.calls.try_acquire(call.caller.principal) {
            return Ok(Some(permit));
        }
        match tokio::time::timeout(limit, Box::pin(self.calls.acquire(call.caller.principal))).await {
            Ok(permit) => permit.map(Some).map_err(|refused| self.refused(refused)),
            Err(_) => Err(self.refused(Refused::Full)),
        }
    }

    fn refused(&self, refused: Refused) -> Failure {
        let words = match refused {
            Refused::Displaced => "too many calls of this caller wait for it, and others wait as well".to_owned(),
            Refused::Full | Refused::PoolFull => {
                format!("{} calls run and {} wait already", CALLS.running, CALLS.waiting)
            }
        };
        Failure::new(FailureKind::Overloaded, words).retry_after(self.calls.expected_wait())
    }

    fn complete(&self, call: &Call<'_>) -> Result<Value, String> {
        let reference = object(call, "ref")?;
        let argument = object(call, "argument")?;
        let part = |name: &str| argument.get(name).and_then(Value::as_str).unwrap_or_default();
        let target = match reference.get("type").and_then(Value::as_str) {
            Some("ref/prompt") => Target::Prompt(call.target),
            Some("ref/resource") => Target::Resource(call.target),
            _ => return Err("`params.ref` must be a ref/prompt or a ref/resource".into()),
        };
        let wanted = Wanted { target, argument: part("name"), typed: part("value") };
        let mut values = self.material.as_ref().map(|m| m.complete(&wanted)).unwrap_or_default();
        let total = values.len();
        values.truncate(VALUES);
        Ok(json!({"completion": {"values": values, "total": total, "hasMore": total > VALUES}}))
    }
}

/// What a tool that took too long says.
fn late(card: &Card, limit: Duration) -> Mistake {
    let done = match card.effect {
        Effect::Reads => "",
        Effect::Writes { .. } => " It may have changed something before: look before you call it again.",
    };
    let name = &card.name;
    Mistake(format!(
        "`{name}` did not end within {} s, its time limit, and was stopped. Ask for less at once, such as a narrower \
         place or fewer results, or try again later.{done}",
        limit.as_secs_f64()
    ))
}

/// A member of `params` that must be an object, as policy left it; empty when it is absent.
fn object(call: &Call<'_>, name: &str) -> Result<Map<String, Value>, String> {
    let replaced = call.replaced.iter().find(|(replaced, _)| *replaced == name);
    let text = match replaced {
        Some((_, value)) => value.as_deref(),
        None => call.request.param(name),
    };
    match text.map(strict::read) {
        None => Ok(Map::new()),
        Some(Ok(Value::Object(all))) => Ok(all),
        Some(Ok(_)) => Err(format!("`params.{name}` must be an object")),
        Some(Err(words)) => Err(format!("`params.{name}`: {words}")),
    }
}

/// The result of `tools/call`, within its bound.
fn result(output: Output, cap: usize) -> Result<Value, Mistake> {
    let content = match output.content.is_empty() {
        true => vec![json!({"type": "text", "text": output.structured.to_string()})],
        false => output.content,
    };
    let result = json!({"content": content, "structuredContent": output.structured, "isError": false});
    let size = result.to_string().len();
    if size > cap {
        return Err(Mistake(format!("the result has {size} bytes and at most {cap} are possible; ask for less")));
    }
    Ok(result)
}

fn entry(item: &Value, kind: ListKind) -> Option<Item> {
    let key = item.get(kind.key())?.as_str()?.into();
    Some(Item { key, text: item.to_string().into(), headers: None })
}

impl Upstream for Server {
    fn slug(&self) -> &str {
        self.slug
    }

    fn status(&self) -> Arc<Status> {
        Arc::clone(&self.status)
    }

    fn catalog(&self) -> Arc<Catalog> {
        self.catalog.load_full()
    }

    fn calls(&self) -> &Arc<ConcurrencyLimit> {
        &self.calls
    }

    fn call<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, Result<Answer, Failure>> {
        Box::pin(async move {
            let limit = call.timeout.unwrap_or(TIMEOUT).min(MAX_TIMEOUT);
            let late = |_| {
                let words = format!("it did not end within {} s", limit.as_secs_f64());
                Failure::new(FailureKind::Timeout, words).after_send()
            };
            let _permit = self.enter(&call, limit).await?;
            let answer = match call.method {
                // Tools have limits of their own, and results that say so.
                Method::ToolsCall => self.answer(&call).await,
                _ => tokio::time::timeout(limit, self.answer(&call)).await.map_err(late)?,
            };
            let text = match answer {
                Ok(result) => write::result(b"0", result.to_string().as_bytes()),
                Err((code, words)) => write::error(Some(b"0"), code, &words, None),
            };
            let text = Bytes::from(text);
            match jsonrpc::parse(text.clone(), MAX_DEPTH, From::Server) {
                Ok(Message::Response(response)) => {
                    let error = matches!(response.outcome, Outcome::Error(_));
                    let kind = if error { AnswerKind::Error } else { AnswerKind::Complete };
                    Ok(Answer { text, outcome: response.outcome, kind })
                }
                _ => Err(Failure::new(FailureKind::Garbage, "a built-in tool gave a result that is not a message")),
            }
        })
    }

    fn subscribe<'a>(&'a self, uri: &'a str) -> BoxFuture<'a, Result<(), Failure>> {
        Box::pin(async move {
            // What cannot be read cannot be subscribed to either, and is not there, whatever is wrong with it.
            let refused = |words: String| Failure::new(FailureKind::NotFound, words);
            let material =
                self.material.as_ref().ok_or_else(|| refused("the server does not offer subscriptions".into()))?;
            let mut all = self.subscriptions.lock();
            if let Some(count) = all.get_mut(uri) {
                *count += 1;
                return Ok(());
            }
            if all.len() >= SUBSCRIPTIONS {
                return Err(Failure::new(FailureKind::Overloaded, "too many resources are subscribed to"));
            }
            material.subscribe(uri).map_err(refused)?;
            all.insert(uri.to_owned(), 1);
            Ok(())
        })
    }

    fn unsubscribe<'a>(&'a self, uri: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let mut all = self.subscriptions.lock();
            let Some(count) = all.get_mut(uri) else { return };
            *count -= 1;
            if *count == 0 {
                all.remove(uri);
                if let Some(material) = &self.material {
                    material.unsubscribe(uri);
                }
            }
        })
    }

    fn touch(&self) {}

    fn forget_session(&self, _session: u64) {}

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}
