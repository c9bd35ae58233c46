//! Translation of a server's errors into codes and messages for the client. Replaces errors
//! that would distinguish hidden from nonexistent items, and codes that have another meaning for
//! clients.

use http::StatusCode;
use lockgate_protocol::code;
use lockgate_protocol::jsonrpc::ErrorObject;
use lockgate_protocol::key::Key;
use lockgate_protocol::method::Method;
use lockgate_protocol::revision::Revision;
use lockgate_telemetry::Outcome;
use lockgate_text::{date, json};
use lockgate_upstream::{ConnectPrompt, Upstream, UpstreamError};
use serde_json::{Value, json};

use super::RequestError;
use crate::authorize::Permitted;
use crate::catalog::is_legacy;
use crate::context::RequestContext;
use crate::response::scrub;

/// Maximum nesting at which required capabilities are compared.
const MAX_NESTING: usize = 8;
/// Maximum length of forwarded `data`. Parsing it into a tree takes many times its size.
const MAX_DATA: usize = 1 << 20;
/// Maximum length of a forwarded message in bytes.
const MAX_MESSAGE: usize = 64 << 10;

impl RequestError {
    /// Translates a server's error into the error for the client.
    pub(crate) fn relayed(
        context: &RequestContext,
        permitted: &Permitted,
        error: ErrorObject,
        text: &[u8],
    ) -> Self {
        match permitted.method() {
            // Must be identical to the error for a resource hidden by policy.
            Method::ResourcesRead | Method::SkillsGet | Method::DirectoryRead
                if is_missing(context, permitted, error.code) =>
            {
                let server = permitted.server().slug();
                tracing::debug!(
                    server,
                    code = error.code,
                    words = &*error.message(text),
                    "the server has no such resource"
                );
                let uri = context.request.param_str(Key::Uri);
                let uri = uri.as_deref().unwrap_or("");
                return Self::unknown_resource(uri, context.missing_resource());
            }
            // The gateway has checked the method, so the server means that the tool no longer
            // exists.
            Method::ToolsCall if error.code == code::METHOD_NOT_FOUND => {
                let name = context.request.param_str(Key::Name);
                return Self::unknown("tool", name.as_deref().unwrap_or(""));
            }
            // A server without completions has no values.
            Method::Complete if error.code == code::METHOD_NOT_FOUND => {
                return Self::no_values();
            }
            _ => {}
        }
        let mut problem = translated(context, error, text, is_legacy(&**permitted.server()));
        if let Some(rule) = permitted.response() {
            scrub::problem(rule, &mut problem);
        }
        problem.about(context.request.param(Key::Uri))
    }

    /// Replaces the server's own URI by the URI of the client's request.
    fn about(mut self, uri: Option<&[u8]>) -> Self {
        if let Some(raw) = uri
            && let Some(Value::Object(data)) = &mut self.data
            && let Some(named) = data.get_mut("uri")
            && let Ok(uri) = json::from_slice(raw)
        {
            *named = uri;
        }
        self
    }
}

/// Returns whether this error code means that the resource does not exist. Many servers of both
/// eras use the code for invalid parameters, and a read has no other parameters unless it is a
/// later round; some servers use code 0.
fn is_missing(context: &RequestContext, permitted: &Permitted, said: i64) -> bool {
    match said {
        code::RESOURCE_NOT_FOUND => true,
        code::INVALID_PARAMS => {
            !is_given(context, permitted, Key::InputResponses)
                && !is_given(context, permitted, Key::RequestState)
        }
        0 => !matches!(context.request.param_str(Key::Uri), Some(uri) if context.view.lists(&uri)),
        _ => false,
    }
}

/// Returns whether this parameter was sent to the server.
fn is_given(context: &RequestContext, permitted: &Permitted, key: Key) -> bool {
    context.request.param(key).is_some()
        || permitted.replaced().iter().any(|(n, v)| *n == key && v.is_some())
}

fn translated(
    context: &RequestContext,
    error: ErrorObject,
    text: &[u8],
    is_legacy: bool,
) -> RequestError {
    let data = read_data(error, text);
    if error.code == code::MISSING_CAPABILITY
        && !is_legacy
        && let Some(required) = missing_capabilities(context, data.as_ref())
    {
        let problem = RequestError::new(error.code, short_message(error, text));
        let problem = problem.status(StatusCode::BAD_REQUEST);
        return problem.data(json!({"requiredCapabilities": required}));
    }
    let code = match error.code {
        code::RESOURCE_NOT_FOUND => context.missing_resource(),
        code::URL_ELICITATION if is_legacy && knows_pages(context) => code::URL_ELICITATION,
        // The gateway has checked the method, so the server lacks the feature.
        code::METHOD_NOT_FOUND => code::INTERNAL,
        other if code::is_relayable(other) => other,
        _ => code::INTERNAL,
    };
    let mut problem = RequestError::new(code, short_message(error, text));
    problem.data = data;
    if code != error.code && code == code::INTERNAL {
        problem.data = Some(json!({"upstreamCode": error.code}));
    }
    problem
}

fn short_message(error: ErrorObject, text: &[u8]) -> String {
    let mut message = error.message(text).into_owned();
    if message.len() > MAX_MESSAGE {
        message.truncate(message.floor_char_boundary(MAX_MESSAGE));
        message.push('…');
    }
    message
}

fn read_data(error: ErrorObject, text: &[u8]) -> Option<Value> {
    let data = error.data(text)?;
    if data.len() > MAX_DATA { None } else { json::from_slice(data).ok() }
}

/// Returns whether the client's revision has the error code for URL elicitation.
fn knows_pages(context: &RequestContext) -> bool {
    context.revision == Revision::V2025_11_25
}

/// Returns the capabilities that a server requires and that the client did not declare in its
/// request, empty if the server names none. Returns `None` in a session, and if the client may have
/// declared them: the gateway then withheld them, which is not the client's fault.
fn missing_capabilities(context: &RequestContext, data: Option<&Value>) -> Option<Value> {
    if context.session.is_some() {
        return None;
    }
    let declared = context.request.meta(Key::MetaClientCapabilities);
    let declared = declared.and_then(|raw| json::from_slice(raw).ok());
    let mut declared: Value = declared.unwrap_or_default();
    // An elicitation without modes supports forms.
    if let Some(Value::Object(modes)) = declared.get_mut("elicitation")
        && modes.is_empty()
    {
        modes.insert("form".into(), json!({}));
    }
    let required = required_capabilities(data);
    let is_withheld = if required == json!({}) {
        let carried: Value = json::from_slice(&context.caller.capabilities).ok()?;
        !covers(&carried, &declared, MAX_NESTING)
    } else {
        covers(&declared, &required, MAX_NESTING)
    };
    if is_withheld { None } else { Some(required) }
}

/// Returns the required capabilities as the object that clients expect. Servers of draft revisions
/// send names instead.
fn required_capabilities(data: Option<&Value>) -> Value {
    let named = match data {
        Some(Value::Object(data)) => data.get("requiredCapabilities"),
        other => other,
    };
    let names = match named {
        Some(Value::Object(_)) => return named.cloned().unwrap_or_default(),
        Some(Value::Array(names)) => names.as_slice(),
        Some(name) => std::slice::from_ref(name),
        None => &[],
    };
    let names = names.iter().filter_map(Value::as_str);
    Value::Object(names.map(|name| (name.to_owned(), json!({}))).collect())
}

/// Returns whether `declared` includes everything in `required`.
fn covers(declared: &Value, required: &Value, depth: usize) -> bool {
    let Value::Object(required) = required else { return true };
    depth > 0
        && required.iter().all(|(name, required)| match declared.get(name) {
            None | Some(Value::Null | Value::Bool(false)) => {
                matches!(required, Value::Null | Value::Bool(false))
            }
            Some(declared) => covers(declared, required, depth - 1),
        })
}

// The response to a call that lacks an account of its caller at the server: a link for every
// client, as text that a model can pass on, and as data.

/// The key in `_meta` of a result with a link.
const CONNECT: &str = "io.github.lockgate/connect";

impl RequestError {
    /// Returns the response to a failed request to a server, with a link if that helps.
    pub fn of_failure(
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
