//! Dispatch of requests in either era: lists and discovery are served from the view, other requests
//! by the server that `authorize` permits. The response is a single JSON object, or an event stream
//! if messages precede it.

mod answer;
mod parking;
mod record;
mod rounds;
mod task;

pub use answer::join_instructions;
pub(crate) use record::audit_listen;
pub use record::{audit_allow, audit_denial};

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{StreamExt, stream};
use lockgate_admission::future_pool::{FuturePool, PooledFuture, Slots};
use lockgate_protocol::key::Key;
use lockgate_protocol::method::Method;
use lockgate_upstream::{ListKind, LogLevel, Upstream};
use tokio::sync::mpsc;

use crate::approve::{Step, obtain_approval};
use crate::authorize::Permitted;
use crate::client_channel::{CallChannel, Outlet, Waiting, open_response_stream};
use crate::context::RequestContext;
use crate::gateway::Gateway;
use crate::quota::OpenStream;
use crate::relay::{Relay, stream_message};
use crate::rescue::RequestError;
use crate::search::Lookup;
use crate::transport::{Outgoing, Reply, Text, Transport};
use crate::{approve, authorize, search, server_operation, skills};
use answer::{write_discovery, write_page};
use record::CallRecord;
use rounds::{ClientPaths, run_rounds};

/// The reply to a request, or the permitted call that gives the reply.
pub enum Answered {
    Reply(Reply),
    Call(PermittedCall),
}

/// A call with its permission, which holds for this request only.
pub struct PermittedCall {
    context: Box<RequestContext>,
    permitted: Permitted,
}

impl PermittedCall {
    /// Returns the server to be called.
    pub fn server(&self) -> &Arc<dyn Upstream> {
        self.permitted.server()
    }

    /// Opens the call's channel to its client, with the least severe level of log messages.
    pub fn open_channel(
        &self,
        outlet: Arc<dyn Outlet>,
        level: Option<LogLevel>,
    ) -> Arc<CallChannel> {
        CallChannel::open(outlet, &self.context, &self.permitted, level)
    }
}

impl From<Reply> for Answered {
    fn from(reply: Reply) -> Self {
        Self::Reply(reply)
    }
}

/// Handles a request of a modern client.
pub(crate) async fn answer_modern(gateway: &Arc<Gateway>, context: Box<RequestContext>) -> Reply {
    let call = match answer_request(gateway, context).await {
        Answered::Reply(reply) => return reply,
        Answered::Call(call) => call,
    };
    if may_stream(&call.context) {
        // Boxed because it is rare, to keep the future of a request small.
        return Box::pin(stream_modern(gateway, call)).await;
    }
    run_modern(gateway, call).await
}

/// Handles a request of an authenticated caller, up to the call of a server.
pub async fn answer_request(gateway: &Gateway, context: Box<RequestContext>) -> Answered {
    let kind = match context.request.method {
        Method::ToolsList => ListKind::Tools,
        Method::PromptsList => ListKind::Prompts,
        Method::ResourcesList => ListKind::Resources,
        Method::TemplatesList => ListKind::Templates,
        Method::SkillsList if skills::is_offered(Method::SkillsList, &context.view.offers) => {
            ListKind::Skills
        }
        Method::Discover => {
            let answer = admit_list(gateway, &context).map(|()| write_discovery(&context));
            return write_reply(&context, answer).into();
        }
        Method::ToolsCall | Method::PromptsGet | Method::ResourcesRead | Method::Complete => {
            if context.view.search.is_some()
                && let Some(lookup) = search::find_lookup(&context)
            {
                // Boxed because it is rare, to keep the future of a request small.
                return Box::pin(answer_lookup(gateway, context, lookup)).await.into();
            }
            return permit_call(gateway, context).await;
        }
        method @ (Method::SkillsGet | Method::DirectoryRead)
            if skills::is_offered(method, &context.view.offers) =>
        {
            return permit_call(gateway, context).await;
        }
        Method::Unknown if context.passes() => return permit_call(gateway, context).await,
        Method::TasksGet | Method::TasksUpdate | Method::TasksCancel | Method::TasksResult
            if context.serves_tasks() =>
        {
            return permit_call(gateway, context).await;
        }
        _ => {
            let problem = RequestError::method_not_found(&context.request.method_name());
            audit_denial(gateway, &context, &problem);
            return write_reply(&context, Err(problem)).into();
        }
    };
    if let Err(problem) = admit_list(gateway, &context) {
        return write_reply(&context, Err(problem)).into();
    }
    for server in context.view.servers.values() {
        server.touch();
    }
    let answer = write_page(&context, kind);
    write_reply(&context, answer).into()
}

/// Charges lists and discovery to the rate limits.
pub fn admit_list(gateway: &Gateway, context: &RequestContext) -> Result<(), RequestError> {
    match authorize::admit(&context.snapshot, &context.rights, context.request.method) {
        Ok(_) => Ok(()),
        Err(problem) => {
            audit_denial(gateway, context, &problem);
            Err(problem)
        }
    }
}

/// Writes the reply to a request, and records an error in its span.
pub fn write_reply(context: &RequestContext, answer: Result<Text, RequestError>) -> Reply {
    match answer {
        Ok(text) => Reply::message(text),
        Err(problem) => {
            let is_call = context.request.method == Method::ToolsCall;
            let problem = match context.transport {
                Transport::Trpc if is_call => problem.without_result(),
                Transport::Mcp | Transport::Rest | Transport::Trpc => problem,
            };
            server_operation::refuse(context.operation.as_ref(), &problem);
            context.refuse(&problem)
        }
    }
}

/// Answers a lookup of tools. Like a list, it counts against the rate limits.
async fn answer_lookup(gateway: &Gateway, context: Box<RequestContext>, lookup: Lookup) -> Reply {
    if let Err(problem) = admit_list(gateway, &context) {
        return write_reply(&context, Err(problem));
    }
    let (context, answer) = search::answer(gateway, context, lookup).await;
    write_reply(&context, answer)
}

/// Authorizes a request for a server.
async fn permit_call(gateway: &Gateway, context: Box<RequestContext>) -> Answered {
    let (context, permitted) = authorize_request(gateway, context).await;
    match permitted {
        Ok(permitted) => {
            gateway.record_caller(&context.rights.principal, &**permitted.server());
            Answered::Call(PermittedCall { context, permitted })
        }
        Err(problem) => {
            audit_denial(gateway, &context, &problem);
            write_reply(&context, Err(problem)).into()
        }
    }
}

async fn authorize_request(
    gateway: &Gateway,
    context: Box<RequestContext>,
) -> (Box<RequestContext>, Result<Permitted, RequestError>) {
    if authorize::is_slow(&context) {
        // Boxed because it is rare, to keep the future of a request small.
        return Box::pin(authorize_slowly(gateway, context)).await;
    }
    let permitted = authorize::authorize(&context);
    (context, permitted)
}

/// Authorizes a request on the CPU pool, to keep this thread responsive.
async fn authorize_slowly(
    gateway: &Gateway,
    context: Box<RequestContext>,
) -> (Box<RequestContext>, Result<Permitted, RequestError>) {
    let turn = match gateway.wait_for_turn(&context.rights.principal).await {
        Ok(turn) => turn,
        Err(problem) => return (context, Err(problem)),
    };
    turn.run(move || {
        let permitted = authorize::authorize(&context);
        (context, permitted)
    })
    .await
}

/// Returns whether a modern client requests progress or log messages.
fn may_stream(context: &RequestContext) -> bool {
    context.request.meta(Key::ProgressToken).is_some() || context.caller.log_level.is_some()
}

/// Runs a modern call without messages ahead of the response. Dropping the future cancels the call.
async fn run_modern(gateway: &Arc<Gateway>, call: PermittedCall) -> Reply {
    let PermittedCall { context, permitted } = call;
    let Some(relay) = Relay::new(&context, &permitted, gateway.budget()) else {
        let answer = call_server(gateway, &context, permitted, ClientPaths::default()).await;
        return write_reply(&context, answer);
    };
    let relay = Arc::new(relay);
    let paths = ClientPaths { channel: None, relay: Some(Arc::clone(&relay)) };
    let call = (Arc::clone(gateway), context, permitted, paths);
    let mut work = CALLS.with(|calls| calls.run(call));
    tokio::select! {
        biased;
        (context, answer) = &mut work => match Relay::ended(Some(&relay), &answer) {
            Some(reply) => reply,
            None => write_reply(&context, answer),
        },
        (relay, pieces) = Relay::pieces(Some(&relay)) => stream_message(relay, work, pieces),
    }
}

/// The input of the future of a call.
pub type PooledCall = (Arc<Gateway>, Box<RequestContext>, Permitted, ClientPaths);

thread_local! {
    /// The futures of the thread's calls.
    static CALLS: Arc<FuturePool<PooledCall, Called>> = FuturePool::new(run_pooled);
}

/// Calls the server, and returns its answer with the context.
async fn run_pooled(slots: Arc<Slots<PooledCall, Called>>) -> Called {
    let Some((gateway, context, permitted, paths)) = slots.take_input() else {
        return std::future::pending().await;
    };
    let answer = call_server(&gateway, &context, permitted, paths).await;
    (context, answer)
}

/// A running call.
pub type RunningCall = PooledFuture<PooledCall, Called>;

/// Starts a call with a channel to its client. Returns it with the relay of a large response, if
/// the response may be streamed.
pub fn start_call(
    gateway: &Arc<Gateway>,
    call: PermittedCall,
    channel: Arc<CallChannel>,
) -> (RunningCall, Option<Arc<Relay>>) {
    let PermittedCall { context, permitted } = call;
    let relay = Relay::new(&context, &permitted, gateway.budget());
    let relay = relay.map(|relay| Arc::new(relay.beside(&channel)));
    let paths = ClientPaths { channel: Some(channel), relay: relay.clone() };
    let call = (Arc::clone(gateway), context, permitted, paths);
    (CALLS.with(|calls| calls.run(call)), relay)
}

/// Runs a modern call that may stream: the reply is JSON if the response comes first, else a
/// stream. Dropping either cancels the call.
async fn stream_modern(gateway: &Arc<Gateway>, call: PermittedCall) -> Reply {
    let (outlet, receiver) = open_response_stream(gateway.budget());
    let channel = call.open_channel(outlet, call.context.caller.log_level);
    let PermittedCall { context, permitted } = call;
    let shared = Arc::clone(gateway);
    let work = Box::pin(async move {
        let answer = call_server(&shared, &context, permitted, ClientPaths::through(channel)).await;
        (context, answer)
    });
    let mut messages = CallMessages { receiver, work: Some(work), ended: None, _open: None };
    let first = poll_fn(|cx| messages.poll_message(cx)).await;
    if first.is_none()
        && let Some((context, answer)) = messages.ended
    {
        return write_reply(&context, answer);
    }
    messages._open = Some(gateway.streams.of_call());
    let rest = stream::poll_fn(move |cx| messages.poll_event(cx));
    Reply::events(Box::pin(stream::iter(first.map(write_event)).chain(rest)))
}

/// The messages of a modern call, of which the last is the response.
struct CallMessages {
    receiver: mpsc::Receiver<Waiting>,
    /// The call, until it ends.
    work: Option<BoxFuture<'static, Called>>,
    /// The ended call, until its response is written.
    ended: Option<Called>,
    /// Set if there is a stream.
    _open: Option<OpenStream>,
}

impl CallMessages {
    /// Returns the next message before the response, or `None` once the call has ended.
    fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(work) = &mut self.work {
            if let Poll::Ready(Some(waiting)) = self.receiver.poll_recv(cx) {
                return Poll::Ready(Some(waiting.text));
            }
            self.ended = Some(ready!(work.as_mut().poll(cx)));
            self.work = None;
        }
        // Messages that arrived with the response are sent before it.
        Poll::Ready(self.receiver.try_recv().ok().map(|waiting| waiting.text))
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Outgoing>> {
        if let Some(text) = ready!(self.poll_message(cx)) {
            return Poll::Ready(Some(write_event(text)));
        }
        let last = self.ended.take();
        Poll::Ready(last.map(|(context, answer)| write_final_text(&context, answer).into()))
    }
}

fn write_event(text: Bytes) -> Outgoing {
    Text::from(text).into()
}

/// Handles a request of a built-in server on behalf of its caller: authorized and recorded like the
/// caller's own requests, but without a channel to the client.
pub(crate) fn forward_nested(
    gateway: &Gateway,
    context: Box<RequestContext>,
) -> BoxFuture<'_, Result<Text, RequestError>> {
    Box::pin(async move {
        let (context, permitted) = authorize_request(gateway, context).await;
        match permitted.and_then(approve::refuse_nested) {
            Ok(permitted) => {
                call_server(gateway, &context, permitted, ClientPaths::default()).await
            }
            Err(problem) => {
                audit_denial(gateway, &context, &problem);
                Err(problem)
            }
        }
    })
}

/// Calls the server, renders its response for the client and records the outcome.
async fn call_server(
    gateway: &Gateway,
    context: &RequestContext,
    permitted: Permitted,
    paths: ClientPaths,
) -> Result<Text, RequestError> {
    let mut permitted = permitted;
    if permitted.awaits_approval() {
        let channel = paths.channel.as_deref();
        let step = Box::pin(obtain_approval(gateway, context, permitted, channel)).await;
        permitted = match step {
            Ok(Step::Go(approved)) => approved,
            Ok(Step::Ask(question)) => return Ok(question),
            Err(problem) => {
                audit_denial(gateway, context, &problem);
                return Err(problem);
            }
        };
    }
    let mut record = CallRecord::begin(gateway, context, &permitted)?;
    let mut ending = gateway.ending.subscribe();
    let answer = {
        // Pinned here, because a future that is passed as an argument is stored twice.
        let rounds = run_rounds(&mut record, &mut permitted, &paths);
        let mut rounds = pin!(rounds);
        tokio::select! {
            biased;
            answer = &mut rounds => Some(answer),
            _ = ending.wait_for(|ending| *ending) => None,
        }
    };
    let answer = answer.unwrap_or_else(|| Err(RequestError::cut_off(permitted.server().slug())));
    if let Some(channel) = &paths.channel {
        channel.finish();
    }
    if let Err(problem) = &answer {
        record.outcome = problem.outcome;
        record.failure = problem.failure_type();
        server_operation::refuse(context.operation.as_ref(), problem);
    }
    answer
}

/// An ended call.
pub type Called = (Box<RequestContext>, Result<Text, RequestError>);

/// Writes the response to a call, or the error.
pub fn write_final_text(context: &RequestContext, answer: Result<Text, RequestError>) -> Text {
    answer.unwrap_or_else(|problem| context.write_error(&problem).into())
}
