//! A built-in server's access to its caller's view, with reads that pass through `authorize` and
//! `dispatch` as the caller's own requests do. Nothing else is reachable.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use lockgate_authn::{Principal, Role};
use lockgate_protocol::jsonrpc::{self, Message, Outcome, Request, SentBy};
use lockgate_protocol::method::Method;
use lockgate_protocol::scan::MAX_DEPTH;
use lockgate_upstream::{
    BoxFuture, CallerIdentity, CallerToken, CallerView, ListKind, Upstream, VisibleItem,
};
use serde_json::{Value, json};

use crate::context::RequestContext;
use crate::gateway::Gateway;
use crate::rescue::RequestError;
use crate::transport::Text;

/// Authorizes a request, sends it to its server and returns the response that the caller would get.
pub(crate) type Forward =
    for<'a> fn(&'a Gateway, Box<RequestContext>) -> BoxFuture<'a, Result<Text, RequestError>>;

pub(crate) struct RequestCallerView<'a> {
    pub(crate) gateway: &'a Gateway,
    pub(crate) context: &'a RequestContext,
    pub(crate) forward: Forward,
}

/// Returns the identity for servers at which callers have their own accounts.
pub(crate) fn identity_of(principal: &Principal) -> CallerIdentity<'_> {
    let token = principal.access_token().map(|token| CallerToken {
        text: &token.text,
        digest: &token.digest,
        expires_at: UNIX_EPOCH + Duration::from_secs(token.expires),
    });
    CallerIdentity {
        organisation: principal.named_organisation(),
        issuer: &principal.issuer,
        subject: &principal.subject,
        access_token: token,
    }
}

/// Builds a request of the gateway's own.
pub(crate) fn make_request(method: Method, params: &Value) -> Option<Request> {
    let text = json!({"jsonrpc": "2.0", "id": 0, "method": method.as_str(), "params": params});
    match jsonrpc::parse(text.to_string().into(), MAX_DEPTH, SentBy::Client) {
        Ok(Message::Request(request)) => Some(request),
        _ => None,
    }
}

/// Builds a request for a URI by the same caller at the same endpoint.
pub(crate) fn about(context: &RequestContext, method: Method, uri: &str) -> Option<RequestContext> {
    Some(context.instead(make_request(method, &json!({"uri": uri}))?))
}

impl CallerView for RequestCallerView<'_> {
    fn identity(&self) -> CallerIdentity<'_> {
        identity_of(&self.context.principal)
    }

    fn is_operator(&self) -> bool {
        let authenticator = &self.context.snapshot.authenticator;
        authenticator.role_of(&self.context.principal) == Role::Operator
    }

    fn servers(&self) -> Vec<Arc<dyn Upstream>> {
        self.context.view.servers.values().cloned().collect()
    }

    fn calls_fail(&self, server: &dyn Upstream) -> bool {
        self.gateway.failing_calls_of(server).is_some()
    }

    fn items(&self, kind: ListKind) -> Vec<VisibleItem> {
        let view = &self.context.view;
        let mut visible = Vec::new();
        for entry in &view.items[crate::catalog::index(kind)] {
            if self.context.sees(entry) {
                visible.push(VisibleItem {
                    slug: entry.slug.as_str().into(),
                    exposed: Arc::clone(view.shown(entry)),
                    text: entry.item.text.clone(),
                });
            }
        }
        visible
    }

    fn read<'a>(&'a self, uri: &'a str) -> BoxFuture<'a, Result<Bytes, String>> {
        Box::pin(async move {
            let Some(context) = about(self.context, Method::ResourcesRead, uri) else {
                return Err("the URI cannot be read".into());
            };
            let text = match (self.forward)(self.gateway, Box::new(context)).await {
                Ok(answer) => answer.into_bytes(),
                Err(problem) => return Err(problem.message.to_string()),
            };
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
