//! How a task is now, read with `tasks/get` in the name of whoever follows it: what is told of its
//! news is what they would be answered, by the same path, and nothing of the server's own message.

use bytes::Bytes;
use lockgate_protocol::jsonrpc::{self, Message, Outcome, Request, Response, SentBy};
use lockgate_protocol::method::Method;
use lockgate_protocol::write::Object;
use serde_json::json;

use crate::context::RequestContext;
use crate::dispatch;
use crate::gateway::Gateway;

/// The request for a task, by the id that its client knows.
pub(crate) fn make_request(token: &str, depth: usize) -> Option<Request> {
    let method = Method::TasksGet.as_str();
    let text = json!({"jsonrpc": "2.0", "id": 0, "method": method, "params": {"taskId": token}});
    match jsonrpc::parse(Bytes::from(text.to_string()), depth, SentBy::Client) {
        Ok(Message::Request(request)) => Some(request),
        _ => None,
    }
}

/// Makes that request.
pub(crate) async fn read(gateway: &Gateway, context: Box<RequestContext>) -> Option<Response> {
    let depth = context.snapshot.config.limits.depth;
    let text = dispatch::forward_nested(gateway, context).await.ok()?.into_bytes();
    match jsonrpc::parse(text, depth, SentBy::Server) {
        Ok(Message::Response(response)) => Some(response),
        _ => None,
    }
}

/// Writes the answer as the parameters of a notification.
pub(crate) fn write(params: &mut Object<'_>, task: &Response) {
    let Outcome::Result(_, members) = &task.outcome else { return };
    for member in members {
        if !matches!(&*member.name(&task.text), "resultType" | "_meta") {
            params.copy(member.key.of(&task.text), member.value.of(&task.text));
        }
    }
}
