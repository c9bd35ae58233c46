//! A server's own error in the code and words that the client's era knows. It refuses to pass on
//! what would tell a thing that policy hides from one that does not exist, and codes that mean
//! something else on the client's side.

use lockgate_protocol::code;
use lockgate_protocol::jsonrpc::ErrorObject;
use lockgate_protocol::meta;
use lockgate_protocol::method::Method;
use lockgate_protocol::revision::{Era, Revision};
use serde_json::{Value, json};

use super::RequestError;
use crate::authorize::Permitted;
use crate::context::RequestContext;
use crate::response::scrub;

/// Deepest nesting of a required capability that is compared.
const MAX_NESTING: usize = 8;
/// Longest `data` that is passed on: it is read into a tree, which takes many times its bytes.
const MAX_DATA: usize = 1 << 20;
/// Longest message that is passed on, in bytes.
const MAX_MESSAGE: usize = 64 << 10;

impl RequestError {
    /// The answer to a request that a server refused.
    pub(crate) fn relayed(
        context: &RequestContext,
        permitted: &Permitted,
        error: ErrorObject,
        text: &[u8],
    ) -> Self {
        let peer = match &permitted.server().status().peer {
            Some(peer) => peer.era,
            None => Era::Modern,
        };
        match permitted.method() {
            // In the same words as for a resource that policy hides.
            Method::ResourcesRead if is_missing(context, permitted, error.code) => {
                let server = permitted.server().slug();
                tracing::debug!(
                    server,
                    code = error.code,
                    words = &*error.message(text),
                    "the server has no such resource"
                );
                let uri = context.request.param_str("uri");
                return Self::unknown_resource(uri.as_deref().unwrap_or(""), context.era());
            }
            // The method is ours to know: what the server means is that it has no such tool any
            // more.
            Method::ToolsCall if error.code == code::METHOD_NOT_FOUND => {
                let name = context.request.param_str("name");
                return Self::unknown("tool", name.as_deref().unwrap_or(""));
            }
            // Servers that complete nothing have no values.
            Method::Complete if error.code == code::METHOD_NOT_FOUND => {
                return Self::no_values(context.era());
            }
            _ => {}
        }
        let mut problem = translated(context, error, text, peer);
        if let Some(rule) = permitted.response() {
            scrub::problem(rule, &mut problem);
        }
        problem.about(context.request.param("uri"))
    }

    /// Names the resource that the client asked for, where the server named its own.
    fn about(mut self, uri: Option<&[u8]>) -> Self {
        if let Some(raw) = uri
            && let Some(Value::Object(data)) = &mut self.data
            && let Some(named) = data.get_mut("uri")
            && let Ok(uri) = serde_json::from_slice(raw)
        {
            *named = uri;
        }
        self
    }
}

/// Whether a server says with this code that it has no such resource. Many servers say it with the
/// code for wrong parameters, in either era, and a read has no other ones unless it is a later
/// round; some say it with no code at all.
fn is_missing(context: &RequestContext, permitted: &Permitted, said: i64) -> bool {
    match said {
        code::RESOURCE_NOT_FOUND => true,
        code::INVALID_PARAMS => {
            !is_given(context, permitted, "inputResponses")
                && !is_given(context, permitted, "requestState")
        }
        0 => !matches!(context.request.param_str("uri"), Some(uri) if context.view.lists(&uri)),
        _ => false,
    }
}

/// Whether the server got a parameter of this name.
fn is_given(context: &RequestContext, permitted: &Permitted, name: &str) -> bool {
    context.request.param(name).is_some()
        || permitted.replaced().iter().any(|(n, v)| *n == name && v.is_some())
}

fn translated(
    context: &RequestContext,
    error: ErrorObject,
    text: &[u8],
    from: Era,
) -> RequestError {
    let to = context.era();
    let data = read_data(error, text);
    if error.code == code::MISSING_CAPABILITY
        && from == Era::Modern
        && let Some(required) = missing_capabilities(context, data.as_ref())
    {
        let problem = RequestError::new(error.code, short_message(error, text));
        return problem.data(json!({"requiredCapabilities": required}));
    }
    let code = match error.code {
        code::RESOURCE_NOT_FOUND if to == Era::Modern => code::INVALID_PARAMS,
        code::RESOURCE_NOT_FOUND => code::RESOURCE_NOT_FOUND,
        code::URL_ELICITATION if from == Era::Legacy && knows_pages(context) => {
            code::URL_ELICITATION
        }
        // The method is ours to know; what the server means is that it has no such feature.
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
    if data.len() > MAX_DATA {
        return None;
    }
    serde_json::from_slice(data).ok()
}

/// Whether the client's revision has the code that sends its user to a page first.
fn knows_pages(context: &RequestContext) -> bool {
    context.revision == Revision::V2025_11_25
}

/// The capabilities that a server requires and a modern client did not declare; empty where the
/// server names none. `None` where the client may have declared them: the gateway withheld them
/// then, which is no fault of the client.
fn missing_capabilities(context: &RequestContext, data: Option<&Value>) -> Option<Value> {
    if context.era() != Era::Modern {
        return None;
    }
    let mut declared = match context.request.meta(meta::CLIENT_CAPABILITIES) {
        Some(raw) => serde_json::from_slice(raw).unwrap_or(Value::Null),
        None => Value::Null,
    };
    // An elicitation that names no mode means forms.
    if let Some(Value::Object(modes)) = declared.get_mut("elicitation")
        && modes.is_empty()
    {
        modes.insert("form".into(), json!({}));
    }
    let required = required_capabilities(data);
    let is_withheld = if required == json!({}) {
        let carried: Value = serde_json::from_slice(&context.caller.capabilities).ok()?;
        !covers(&carried, &declared, MAX_NESTING)
    } else {
        covers(&declared, &required, MAX_NESTING)
    };
    if is_withheld { None } else { Some(required) }
}

/// What a server says that it requires, as the object that clients expect. Servers of drafts give
/// names.
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

/// Whether everything that is required stands in what is declared.
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
