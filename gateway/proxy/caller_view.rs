//! Requests of the gateway on behalf of a client, which pass through `authorize` and `dispatch` as
//! the client's own requests do: those of a built-in server, by its caller's view, and reads of
//! tasks.

use std::sync::Arc;

use bytes::Bytes;
use lockgate_authn::Role;
use lockgate_protocol::jsonrpc::{self, Message, Outcome, Response, SentBy};
use lockgate_protocol::method::Method;
use lockgate_protocol::scan::MAX_DEPTH;
use lockgate_protocol::write::Object;
use lockgate_upstream::{BoxFuture, CallerIdentity, CallerView, ListKind, Upstream, VisibleItem};

use crate::context::{RequestContext, about, identity_of};
use crate::gateway::Gateway;

pub(crate) struct RequestCallerView<'a> {
    pub(crate) gateway: &'a Gateway,
    pub(crate) context: &'a RequestContext,
}

impl CallerView for RequestCallerView<'_> {
    fn identity(&self) -> CallerIdentity<'_> {
        identity_of(&self.context.rights.principal)
    }

    fn is_operator(&self) -> bool {
        let authenticator = &self.context.snapshot.authenticator;
        authenticator.role_of(&self.context.rights.principal) == Role::Operator
    }

    fn servers(&self) -> Vec<Arc<dyn Upstream>> {
        self.context.view.servers.values().cloned().collect()
    }

    fn calls_fail(&self, server: &dyn Upstream) -> bool {
        self.gateway.failing_calls_of(server).is_some()
    }

    fn items(&self, kind: ListKind) -> Vec<VisibleItem> {
        let view = &self.context.view;
        let entries = view.items[crate::catalog::index(kind)].iter();
        let visible = entries.filter(|entry| self.context.sees(entry)).map(|entry| VisibleItem {
            slug: entry.slug.as_str().into(),
            exposed: Arc::clone(view.shown(entry)),
            text: entry.item.text.clone(),
        });
        visible.collect()
    }

    fn read<'a>(&'a self, uri: &'a str) -> BoxFuture<'a, Result<Bytes, String>> {
        Box::pin(async move {
            let Some(context) = about(self.context, Method::ResourcesRead, uri) else {
                return Err("the URI cannot be read".into());
            };
            let answer = self.gateway.forward(Box::new(context)).await;
            let text = answer.map_err(|problem| problem.message.to_string())?.into_bytes();
            match jsonrpc::parse(text.clone(), MAX_DEPTH, SentBy::Server) {
                Ok(Message::Response(response)) => match response.outcome {
                    Outcome::Result(span, _) => Ok(text.slice(span.range())),
                    Outcome::Error(error) => Err(error.message(&text).into_owned()),
                },
                _ => Err("the server's response is not valid".into()),
            }
        })
    }
}

/// Reads a task with a request for its state. Returns `None` if that fails.
pub async fn read_task(gateway: &Gateway, context: Box<RequestContext>) -> Option<Response> {
    let depth = context.snapshot.config.limits.depth;
    let text = gateway.forward(context).await.ok()?.into_bytes();
    match jsonrpc::parse(text, depth, SentBy::Server) {
        Ok(Message::Response(response)) => Some(response),
        _ => None,
    }
}

/// Writes the state of a task as the parameters of a notification.
pub fn write_task(params: &mut Object<'_>, task: &Response) {
    let Outcome::Result(_, members) = &task.outcome else { return };
    for member in members {
        if !matches!(&*member.name(&task.text), "resultType" | "_meta") {
            params.copy(member.key.of(&task.text), member.value.of(&task.text));
        }
    }
}
