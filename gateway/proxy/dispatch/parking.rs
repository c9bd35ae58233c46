//! Calls of modern clients at legacy servers that may ask questions during a call. The call runs in
//! a separate task, so that it outlives a single request. The server's questions become the
//! response to the client's request, and the client's next request carries the answers to the
//! parked call. Pages: basic/patterns/mrtr.mdx (2026-07-28), client/elicitation.mdx (2025-11-25).

use std::sync::Arc;

use lockgate_admission::spawn;
use lockgate_protocol::capabilities::declares;
use lockgate_protocol::code;
use lockgate_protocol::jsonrpc::{self, Message, SentBy};
use lockgate_protocol::key::Key;
use lockgate_protocol::method::Method;
use lockgate_protocol::scan;
use lockgate_text::json;
use lockgate_upstream::{
    Answer, AnswerKind, BackChannel, Call, Caller, ClientChannel, ListKind, QuestionError,
    ServerId, UpstreamError,
};
use serde_json::{Map, Value, json};
use tokio_util::task::AbortOnDropHandle;

use crate::answers::{MAX_QUESTIONS, read_question};
use crate::authorize::{Parked, Permitted, TaskUse};
use crate::client_channel::CallChannel;
use crate::context::{RequestContext, Resumption};
use crate::dispatch::record::CallRecord;
use crate::gateway::Gateway;
use crate::modern_clients::WantedLane;
use crate::own_lists;
use crate::parked::{Bridge, ParkedCall};
use crate::rescue::RequestError;

/// Maximum number of elicitations in an error.
const MAX_ELICITATIONS: usize = 32;
/// Limit on the `data` of such an error in bytes; its parsed form takes many times that memory.
const MAX_DATA: usize = 1 << 20;

/// Returns whether the server may ask questions during the call, or has asked already.
pub(super) fn may_park(context: &RequestContext, permitted: &Permitted) -> bool {
    if permitted.parked.is_some() {
        return true;
    }
    context.caller.interactive
        && context.protocol().asks_by_result
        && is_pausable(permitted.method())
        // Tasks are followed on the shared connection.
        && !matches!(permitted.task_use, TaskUse::OfGateway | TaskUse::Converted)
        && permitted.server().back_channel() != BackChannel::None
}

/// Starts or resumes a call and runs it until the server responds or asks questions.
///
/// # Errors
/// The call to resume is over, or the limit of parked calls is reached.
pub(super) async fn make_call(
    record: &CallRecord<'_>,
    permitted: &mut Permitted,
    channel: Option<Arc<CallChannel>>,
) -> Result<Result<Answer, UpstreamError>, RequestError> {
    let CallRecord { gateway, context, .. } = *record;
    let call = match permitted.parked.take() {
        Some(parked) => resume(gateway, &parked, channel)?,
        None => begin(record, permitted, channel)?,
    };
    match call.bridge.step().await {
        Some(answer) => Ok(answer),
        None => {
            let questions = call.bridge.questions();
            let slug = permitted.server().slug();
            let limits = &context.snapshot.config.limits;
            let handle = gateway.parked.keep(call, &context.rights.principal, slug, limits)?;
            permitted.resumption = Resumption::Parked(handle, gateway.own_address());
            Ok(Ok(write_questions(questions, limits.depth)?))
        }
    }
}

/// Starts a call in a lane; alone there if the server's questions may not name their call.
fn begin(
    record: &CallRecord<'_>,
    permitted: &Permitted,
    channel: Option<Arc<CallChannel>>,
) -> Result<ParkedCall, RequestError> {
    let CallRecord { gateway, context, .. } = *record;
    let server = permitted.server();
    let limits = &context.snapshot.config.limits;
    let capabilities = &context.caller.capabilities;
    let id = ServerId::of(&**server);
    let bridge = Bridge::new(
        id.clone(),
        capabilities.clone(),
        context.revision,
        limits.question_timeout,
        channel,
    );
    let way_back: Arc<dyn ClientChannel> = bridge.clone();
    let declared = (context.rights.principal.clone(), capabilities.clone());
    let among = find_lanes(gateway, context, permitted);
    let is_alone = server.back_channel() == BackChannel::PerConnection;
    let at = WantedLane { server: &id, is_alone, among: &among };
    let way_back = Arc::downgrade(&way_back);
    let lease = gateway
        .modern_clients
        .lease(declared, at, way_back, limits.sessions)
        .map_err(RequestError::no_lane)?;
    let server = Arc::clone(server);
    let target = permitted.target().to_owned();
    let request = context.request.clone();
    let replaced = permitted.replaced().to_vec();
    let caller = Caller { session: Some(lease.session()), ..context.caller.clone() };
    let tool = permitted.metrics.clone();
    let trace = record.call_trace();
    let answered = Arc::clone(&bridge);
    let task = spawn(async move {
        let call = Call {
            replaced: &replaced,
            channel: Some(answered.clone()),
            tool,
            trace,
            ..Call::new(&target, &request, &caller)
        };
        answered.finish(server.call(call).await);
    });
    Ok(ParkedCall::new(bridge, AbortOnDropHandle::new(task), lease))
}

/// Returns the lanes with a connection that lists the item; empty if all do.
fn find_lanes(gateway: &Gateway, context: &RequestContext, permitted: &Permitted) -> Vec<u64> {
    let kind = ListKind::of_call(permitted.method()).unwrap_or(ListKind::Resources);
    let own = gateway.own_clients_of(context);
    own_lists::find_adding(&own, &**permitted.server(), (kind, permitted.target()))
}

/// Takes the parked call and passes it the client's answers.
fn resume(
    gateway: &Gateway,
    parked: &Parked,
    channel: Option<Arc<CallChannel>>,
) -> Result<ParkedCall, RequestError> {
    let Some(call) = gateway.parked.take(&parked.handle) else {
        return Err(RequestError::invalid(
            "the call that asked this has ended: it was already answered, its question timed out \
                (limits.question_timeout), the gateway was restarted, or another gateway holds it \
                and `replicas.address` is not set. It had started, so it may have taken effect: \
                check before a retry without requestState",
        ));
    };
    call.bridge.attach(channel);
    let answers = parked.answers.as_deref().unwrap_or(b"{}");
    let answers: Map<String, Value> = json::from_slice(answers).unwrap_or_default();
    for (key, answer) in answers {
        call.bridge.answer(&key, answer.to_string().into());
    }
    Ok(call)
}

/// Writes the questions of a running call in the format of a modern server.
fn write_questions(
    questions: Vec<(String, Method, bytes::Bytes)>,
    depth: usize,
) -> Result<Answer, RequestError> {
    let mut requests = Map::new();
    for (key, method, params) in questions {
        let mut params = json::from_slice(&params).unwrap_or(Value::Null);
        remove_hop_members(&mut params);
        requests.insert(key, json!({"method": method.as_str(), "params": params}));
    }
    write_input_required(requests, depth)
}

/// Removes members that are hop-by-hop or specific to the legacy era.
fn remove_hop_members(params: &mut Value) {
    if let Value::Object(params) = params {
        params.remove("elicitationId");
        params.remove("task");
        params.remove("_meta");
    }
}

/// Writes questions as the result of a modern server.
pub(super) fn write_input_required(
    requests: Map<String, Value>,
    depth: usize,
) -> Result<Answer, RequestError> {
    let result = json!({"resultType": "input_required", "inputRequests": Value::Object(requests)});
    let message = json!({"jsonrpc": "2.0", "id": 0, "result": result});
    // The questions are nested deeper in this message than in the server's own.
    match jsonrpc::parse(message.to_string().into(), depth + 4, SentBy::Server) {
        Ok(Message::Response(response)) => Ok(Answer {
            text: response.text,
            outcome: response.outcome,
            kind: AnswerKind::InputRequired,
        }),
        _ => Err(RequestError::new(code::INTERNAL, "the server's question is not valid")),
    }
}

/// Converts a legacy server's URL elicitation error to a modern question. Returns `None` for other
/// errors, and for clients without the capability.
pub(super) fn ask_to_open(
    context: &RequestContext,
    permitted: &mut Permitted,
    answer: &Answer,
) -> Option<Result<Answer, RequestError>> {
    let jsonrpc::Outcome::Error(error) = &answer.outcome else { return None };
    let capabilities = &context.caller.capabilities;
    if !context.protocol().asks_by_result
        || error.code != code::URL_ELICITATION
        || !declares(capabilities, &["elicitation", "url"])
    {
        return None;
    }
    let data = error.data(&answer.text)?;
    if data.len() > MAX_DATA {
        return None;
    }
    let data: Value = json::from_slice(data).ok()?;
    let wanted = data.get("elicitations")?.as_array()?;
    let mut requests = Map::new();
    for (number, elicitation) in wanted.iter().take(MAX_ELICITATIONS).enumerate() {
        let mut params = elicitation.clone();
        remove_hop_members(&mut params);
        let Value::Object(members) = &mut params else { continue };
        members.insert("mode".into(), "url".into());
        requests.insert(
            format!("u{}", number + 1),
            json!({"method": Method::Elicit.as_str(), "params": params}),
        );
    }
    if requests.is_empty() {
        return None;
    }
    permitted.resumption = Resumption::Anew;
    Some(write_input_required(requests, scan::MAX_DEPTH))
}

// A modern server's questions to a legacy client: the gateway asks them in sequence and repeats the
// call with the answers. Modern clients get the questions themselves.

/// Limit in bytes on the questions of a round and on an answer; their parsed form takes many times
/// that memory.
const MAX_TREE: usize = 1 << 20;

/// Checks that the server may pause this request, and has given questions or a state.
pub(super) fn check_questions(permitted: &Permitted, answer: &Answer) -> Result<(), RequestError> {
    if answer.kind == AnswerKind::InputRequired && answer.text.len() > MAX_TREE {
        return Err(permitted.broken("sent questions that are too long"));
    }
    if answer.kind != AnswerKind::InputRequired {
        return Ok(());
    }
    let asks = answer.member(Key::InputRequests).unwrap_or(b"{}") != b"{}";
    if is_pausable(permitted.method()) && (asks || answer.member(Key::RequestState).is_some()) {
        return Ok(());
    }
    Err(permitted.broken("paused a request without a question or a state"))
}

/// Returns whether a request of this method may be answered with questions.
pub(super) fn is_pausable(method: Method) -> bool {
    matches!(method, Method::ToolsCall | Method::PromptsGet | Method::ResourcesRead)
}

/// Asks the client the server's questions and returns the permit for the next round.
pub(super) async fn ask_client(
    permitted: &Permitted,
    answer: &Answer,
    talk: Option<&CallChannel>,
) -> Result<Permitted, RequestError> {
    let state = answer.member(Key::RequestState).map(<[u8]>::to_vec);
    let asked = answer.member(Key::InputRequests).unwrap_or(b"{}");
    let questions: Map<String, Value> = json::from_slice(asked)
        .map_err(|_| permitted.broken("sent questions that are not valid"))?;
    if questions.is_empty() {
        // Without questions, the server expects the call to be repeated later.
        tokio::time::sleep(std::time::Duration::from_millis(250)).await;
        return Ok(permitted.next_round(None, state));
    }
    if questions.len() > MAX_QUESTIONS {
        return Err(permitted.broken("sent questions that are not valid"));
    }
    let talk =
        talk.ok_or_else(|| permitted.broken("has a question, but this client cannot be asked"))?;
    let mut answers = Map::new();
    for (key, question) in questions {
        let (method, params) = read_question(&question);
        let answer = match talk.ask(method, params.into()).await {
            Ok(result) if result.len() > MAX_TREE => {
                return Err(permitted.broken("has a question, but the answer is too long"));
            }
            Ok(result) => json::from_slice(&result).unwrap_or(Value::Null),
            Err(QuestionError::Undeclared) => {
                let words = "has a question, but this client did not declare the capability to \
                    answer it";
                return Err(permitted.broken(words));
            }
            // Only an elicitation has a result that means "no answer", and an invalid answer is not
            // a cancellation by the user.
            Err(reason)
                if method != Method::Elicit || matches!(reason, QuestionError::Unusable(_)) =>
            {
                return Err(permitted.broken(&format!("has a question, but {reason}")));
            }
            Err(_) => json!({"action": "cancel"}),
        };
        answers.insert(key, answer);
    }
    let answers = Value::Object(answers).to_string().into_bytes();
    Ok(permitted.next_round(Some(answers), state))
}
