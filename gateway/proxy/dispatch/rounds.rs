//! The calls that one request makes at its server: for a legacy client, the gateway asks what a
//! modern server wants to know and calls again. Gives the answer as the client gets it.

use std::sync::Arc;

use lockgate_protocol::code;
use lockgate_protocol::jsonrpc;
use lockgate_protocol::revision::Era;
use lockgate_telemetry::Outcome;
use lockgate_upstream::{Answer, AnswerKind, Call, Conversation, ResponseSink, Upstream};

use super::record::CallRecord;
use crate::authorize::Permitted;
use crate::caller_view::{Forward, RequestCallerView};
use crate::client_channel::CallChannel;
use crate::context::RequestContext;
use crate::gateway::Gateway;
use crate::relay::Relay;
use crate::rescue::RequestError;
use crate::transport::Text;
use crate::{interact, response};

/// Bytes of an answer that are looked at in less than the time that others may be held up.
const LARGE: usize = 1 << 20;

/// The ways of a call back to its client.
#[derive(Default)]
pub(super) struct ClientPaths {
    pub(super) channel: Option<Arc<CallChannel>>,
    /// For a large answer.
    pub(super) relay: Option<Arc<Relay>>,
}

impl ClientPaths {
    pub(super) fn through(channel: Arc<CallChannel>) -> Self {
        Self { channel: Some(channel), relay: None }
    }
}

/// Calls the server until it gives a result.
pub(super) async fn run_rounds(
    gateway: &Gateway,
    context: &RequestContext,
    permitted: Permitted,
    paths: ClientPaths,
    forward: Forward,
    record: &mut CallRecord<'_>,
) -> Result<Text, RequestError> {
    let mut permitted = permitted;
    let mut rounds = 0;
    let eyes = RequestCallerView { gateway, context, forward };
    loop {
        let server = Arc::clone(permitted.server());
        let call = Call {
            method: permitted.method(),
            target: permitted.target(),
            request: &context.request,
            replaced: permitted.replaced(),
            caller: &context.caller,
            caller_view: Some(&eyes),
            conversation: paths.channel.clone().map(|channel| channel as Arc<dyn Conversation>),
            sink: paths.relay.clone().map(|relay| relay as Arc<dyn ResponseSink>),
            trace: record.trace_headers(),
            timeout: None,
        };
        let answer = make_call(&*server, call, record).await?;
        if let Some(outcome) = paths.relay.as_ref().and_then(|relay| relay.outcome()) {
            record.outcome = outcome;
            return Ok(Text::default());
        }
        interact::check_questions(&permitted, &answer)?;
        match (answer.kind, context.era(), &answer.outcome) {
            (_, _, jsonrpc::Outcome::Error(error)) => {
                return Err(RequestError::relayed(context, &permitted, *error, &answer.text));
            }
            (AnswerKind::InputRequired, Era::Legacy, _) => {
                rounds += 1;
                if rounds > context.snapshot.config.limits.question_rounds {
                    return Err(broken(&*server, "asked too many rounds of questions"));
                }
                permitted =
                    interact::ask_client(&permitted, &answer, paths.channel.as_deref()).await?;
            }
            (AnswerKind::Task, Era::Legacy, _) => {
                return Err(broken(
                    &*server,
                    "answered with a task, which this client cannot follow",
                ));
            }
            _ => {
                let failed = answer.member("isError") == Some(b"true");
                record.outcome = if failed { Outcome::ToolError } else { Outcome::Ok };
                return write_answer(gateway, context, permitted, answer).await;
            }
        }
    }
}

/// What a server did that cannot be answered to this client.
fn broken(server: &dyn Upstream, what: &str) -> RequestError {
    RequestError::new(code::INTERNAL, format!("server {} {what}", server.slug()))
}

async fn make_call(
    server: &dyn Upstream,
    call: Call<'_>,
    record: &CallRecord<'_>,
) -> Result<Answer, RequestError> {
    server.call(call).await.map_err(|failure| {
        let ms = record.began.elapsed().as_millis();
        if failure.is_refusal() {
            // Told once for many by whoever refuses: a crowd that asks again at once must not fill
            // the log.
            tracing::debug!(server = server.slug(), %failure, ms, "call refused");
        } else {
            tracing::info!(server = server.slug(), %failure, ms, "call failed");
        }
        RequestError::failed(server.slug(), &failure)
    })
}

/// Writes the answer for the client; a large one apart, so that nothing else on this thread waits
/// for it.
async fn write_answer(
    gateway: &Gateway,
    context: &RequestContext,
    permitted: Permitted,
    answer: Answer,
) -> Result<Text, RequestError> {
    if answer.text.len() <= LARGE {
        return response::write_response(context, &permitted, &answer, gateway.budget());
    }
    let context = context.instead(context.request.clone());
    let budget = Arc::clone(gateway.budget());
    // Boxed, as is everything that is rare, so that the future of a request stays small.
    Box::pin(async move {
        let turn = gateway
            .apart
            .turn(context.principal.key())
            .await
            .map_err(|_| RequestError::no_turn())?;
        turn.run(move || response::write_response(&context, &permitted, &answer, &budget)).await
    })
    .await
}
