//! The response to a call that lacks an account of its caller at the server: a link for every
//! client, as text that a model can pass on, and as data.

use lockgate_protocol::code;
use lockgate_protocol::method::Method;
use lockgate_telemetry::Outcome;
use lockgate_text::date;
use lockgate_upstream::{ConnectPrompt, Upstream, UpstreamError};
use serde_json::json;

use super::RequestError;
use crate::context::RequestContext;

/// The key in `_meta` of a result with a link.
const CONNECT: &str = "io.github.lockgate/connect";

impl RequestError {
    /// Returns the response to a failed request to a server, with a link if that helps.
    pub(crate) fn of_failure(
        context: &RequestContext,
        server: &dyn Upstream,
        failure: &UpstreamError,
    ) -> Self {
        match &failure.connect {
            Some(prompt) => Self::needs_account(context, server.slug(), prompt),
            None => Self::of_call(server, failure),
        }
    }

    /// Returns the response for a caller that has to connect an account, or to grant more scopes.
    pub(crate) fn needs_account(
        context: &RequestContext,
        server: &str,
        prompt: &ConnectPrompt,
    ) -> Self {
        let why = match prompt.state {
            "needs_scope" => "needs more permissions at your account",
            _ => "needs your account",
        };
        let url = &prompt.url;
        let words = format!(
            "The server {server} {why}. Open this link in a browser, connect the account, and then \
                try again: {url}"
        );
        let connect = json!({
            "server": server,
            "url": url,
            "state": prompt.state,
            "scopes": prompt.scopes,
            "expiresAt": date::of_time(prompt.expires_at),
        });
        let mut problem = Self::new(code::NEEDS_ACCOUNT, words.clone());
        if context.request.method == Method::ToolsCall {
            let content = json!([{"type": "text", "text": words}]);
            problem.result =
                Some(json!({"content": content, "isError": true, "_meta": {CONNECT: connect}}));
        }
        problem.data = Some(json!({"reason": "needs_account", "connect": connect}));
        problem.outcome = Outcome::ToolError;
        problem
    }
}
