//! Traces of a request to a server: the CLIENT span and the trace context sent with it.

use lockgate_protocol::jsonrpc::Outcome;
use lockgate_protocol::key::Key;
use lockgate_protocol::method::Method;
use lockgate_telemetry::{CallTrace, Network, Note, OperationSpan, Target, TraceContext};

use crate::call::{Answer, Call};
use crate::config::Transport;
use crate::connection::{Connection, ServerTransport};
use crate::failure::UpstreamError;
use crate::shared::Shared;

/// Opens the span of the request `id` on `connection` and returns the context to send with it.
pub(super) fn begin(
    shared: &Shared,
    trace: &CallTrace,
    call: &Call<'_>,
    connection: &Connection,
    id: Option<u64>,
) -> TraceContext {
    trace.begin(call.method.as_str(), |span| {
        span.set_target(find_target(call), true);
        if let Some(id) = id {
            span.set_request_id(id.to_string().as_bytes());
        }
        span.set_protocol(connection.peer.revision.as_str());
        describe_way(span, shared, connection);
        span.note(Note::Server, &shared.id.to_string());
    })
}

pub(super) fn end(trace: &CallTrace, result: &Result<Answer, UpstreamError>) {
    trace.end(|span| match result {
        Ok(answer) => match &answer.outcome {
            Outcome::Error(error) => {
                span.answered_with_error(error.code, &error.message(&answer.text));
            }
            Outcome::Result(..) if answer.member(Key::IsError) == Some(b"true") => {
                span.answered_with_tool_error();
            }
            Outcome::Result(..) => {}
        },
        Err(failure) => span.failed(failure.kind.as_str(), &failure.words),
    });
}

fn find_target<'a>(call: &Call<'a>) -> Target<'a> {
    match call.method {
        Method::ToolsCall => Target::Tool(call.target),
        Method::PromptsGet => Target::Prompt(call.target),
        Method::ResourcesRead | Method::DirectoryRead | Method::SkillsGet => {
            Target::Resource(call.target)
        }
        _ => Target::Nothing,
    }
}

fn describe_way(span: &mut OperationSpan, shared: &Shared, connection: &Connection) {
    let mut version = None;
    if let ServerTransport::Http(transport) = &connection.transport {
        version = transport.version();
        if let Some(session) = transport.session() {
            span.set_session(&session);
        }
    }
    let config = shared.config.load();
    let url = match &config.transport {
        Transport::Stdio { .. } => return span.set_network(Network::Pipe),
        Transport::Http { url, .. } | Transport::Sse { url, .. } => url,
    };
    span.set_network(Network::Http(version));
    if let Some(host) = url.host_str() {
        span.set_peer(host.trim_matches(['[', ']']), url.port_or_known_default());
    }
}
