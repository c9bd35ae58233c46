//! Reads the status of a task with `tasks/get` on behalf of each follower, through the usual
//! request path. A status notification thus contains only data that the follower may read, never
//! data of the server's own notification.

use bytes::Bytes;
use lockgate_protocol::jsonrpc::{self, Message, Outcome, Request, Response, SentBy};
use lockgate_protocol::method::Method;
use lockgate_protocol::write::Object;
use serde_json::json;

use crate::context::RequestContext;
use crate::dispatch;
use crate::gateway::Gateway;

/// Builds the request for a task by its client's id.
pub(crate) fn make_request(token: &str, depth: usize) -> Option<Request> {
    let method = Method::TasksGet.as_str();
    let text = json!({"jsonrpc": "2.0", "id": 0, "method": method, "params": {"taskId": token}});
    match jsonrpc::parse(Bytes::from(text.to_string()), depth, SentBy::Client) {
        Ok(Message::Request(request)) => Some(request),
        _ => None,
    }
}

pub(crate) async fn read(gateway: &Gateway, context: Box<RequestContext>) -> Option<Response> {
    let depth = context.snapshot.config.limits.depth;
    let text = dispatch::forward_nested(gateway, context).await.ok()?.into_bytes();
    match jsonrpc::parse(text, depth, SentBy::Server) {
        Ok(Message::Response(response)) => Some(response),
        _ => None,
    }
}

/// Writes the response as the parameters of a notification.
pub(crate) fn write(params: &mut Object<'_>, task: &Response) {
    let Outcome::Result(_, members) = &task.outcome else { return };
    for member in members {
        if !matches!(&*member.name(&task.text), "resultType" | "_meta") {
            params.copy(member.key.of(&task.text), member.value.of(&task.text));
        }
    }
}
