//! `web/request`: an HTTP request with method, headers and body, and its unmodified response.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, header};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::Web;
use super::config::Config;
use super::exchange::{Reply, Wish};
use super::reading;
use crate::tool::{
    Arguments, Client, Effect, Output, Tool, ToolError, ToolSpec, first_chars, milliseconds,
    timeout_schema,
};

/// Maximum number of returned response headers, and maximum size of a value in bytes.
const MAX_HEADERS: usize = 128;
const MAX_HEADER_BYTES: usize = 4 << 10;

pub(super) struct Request(pub(super) Arc<Web>);

impl Tool for Request {
    fn spec(&self) -> ToolSpec {
        let config = &self.0.config;
        ToolSpec::new(
            "web/request",
            "Send an HTTP request",
            format!(
            "Sends one HTTP request to an allowed host and returns status, headers and body. Use \
                it for APIs; use `fetch` to read pages. Give at most one of `json`, `form` and \
                `text` as the body. A response with an error status is a result, not a failure: \
                check `status`. Redirects are followed for GET and HEAD, and within the same host \
                for others. Allowed are {}.",
                self.0.rule.allowed()
            ),
        )
        .input(input_schema(config))
        .output(output_schema())
        .effect(Effect::Writes { destructive: true, idempotent: false })
        .open_world()
        .tags(&["web", "http"])
        .permissions(&["web:request"])
        .timeout(config.timeout + Duration::from_secs(5))
        // Control characters take six bytes in JSON, and the body is in the result twice.
        .cap(config.response_size.saturating_mul(14) + (1 << 20))
    }

    async fn run(&self, arguments: Arguments, _: Client<'_>) -> Result<Output, ToolError> {
        let began = Instant::now();
        let wish = self.wish(&arguments, began)?;
        let reply = self.0.exchange(wish).await?;
        Ok(told(&reply, began.elapsed()).into())
    }
}

fn input_schema(config: &Config) -> Value {
    let limit = config.timeout;
    json!({
        "url": {
            "type": "string", "minLength": 1, "maxLength": 8192,
            "description": "Absolute, such as https://api.example.com/v1/items?page=1",
        },
        "method?": {
            "type": "string", "enum": config.methods, "default": config.methods.first(),
            "description": "The HTTP method",
        },
        "headers?": {
            "type": "object", "additionalProperties": {"type": "string"},
            "description": "Request headers; Host, User-Agent and those of the connection are \
                set for you",
        },
        "json?": {"description": "Body: any JSON value, sent as application/json"},
        "form?": {
            "type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]},
            "description": "Body: fields, sent as application/x-www-form-urlencoded",
        },
        "text?": {
            "type": "string",
            "description": "Body: text, sent as text/plain unless a content-type header is given",
        },
        "follow_redirects?": {
            "type": "boolean", "default": true, "description": "false returns the redirect itself",
        },
        "timeout_ms?": timeout_schema(limit, limit, "For the whole exchange with its redirects"),
    })
}

fn output_schema() -> Value {
    json!({
        "status": {"type": "integer", "description": "HTTP status"},
        "url": {"type": "string", "description": "The URL of the response, after redirects"},
        "headers": {
            "type": "object", "additionalProperties": {"type": "string"},
            "description": "Names in lower case; more than one value on lines of their own",
        },
        "content_type": "string",
        "body": {"type": "string", "description": "Text, or base64 according to `encoding`"},
        "encoding": {"type": "string", "enum": ["text", "base64"]},
        "size": {"type": "integer", "description": "Bytes of the body that were read"},
        "truncated": {"type": "boolean", "description": "The body exceeded the size limit"},
        "duration_ms": "number",
        "redirects": {
            "type": "array", "items": {"type": "string"}, "description": "URLs that redirected",
        },
    })
}

impl Request {
    fn wish(&self, arguments: &Arguments, began: Instant) -> Result<Wish, ToolError> {
        let config = &self.0.config;
        let method = arguments.text("method")?;
        let Ok(method) = Method::from_bytes(method.as_bytes()) else {
            return Err(ToolError::new("`method` is not an HTTP method"));
        };
        let mut headers = match arguments.get("headers") {
            Some(Value::Object(given)) => self.0.headers.take(given)?,
            _ => HeaderMap::new(),
        };
        let body = body(arguments, &mut headers)?;
        let size = body.len();
        let most = config.request_size;
        if size > most {
            return Err(ToolError(format!(
                "the body has {size} bytes and at most {most} may be sent; send less"
            )));
        }
        if !body.is_empty() && matches!(method, Method::GET | Method::HEAD) {
            return Err(ToolError(format!(
                "a {method} request has no body; use another method, or put the values into the URL"
            )));
        }
        Ok(Wish {
            method,
            url: arguments.text("url")?.to_owned(),
            headers,
            body,
            follow: arguments.flag("follow_redirects"),
            max: config.response_size,
            deadline: began + Duration::from_millis(arguments.whole("timeout_ms")?),
        })
    }
}

/// Returns the body, and adds its content type unless the caller set one.
fn body(arguments: &Arguments, headers: &mut HeaderMap) -> Result<Bytes, ToolError> {
    let given: Vec<&str> =
        ["json", "form", "text"].into_iter().filter(|name| arguments.get(name).is_some()).collect();
    if given.len() > 1 {
        return Err(ToolError(format!(
            "`{}` and `{}` are both given; a request has one body",
            given[0], given[1]
        )));
    }
    let (kind, text) = if let Some(value) = arguments.get("json") {
        ("application/json", value.to_string())
    } else if let Some(Value::Object(fields)) = arguments.get("form") {
        ("application/x-www-form-urlencoded", form(fields))
    } else if let Some(text) = arguments.maybe_text("text") {
        ("text/plain; charset=utf-8", text.to_owned())
    } else {
        return Ok(Bytes::new());
    };
    headers.entry(header::CONTENT_TYPE).or_insert(HeaderValue::from_static(kind));
    Ok(text.into())
}

fn form(fields: &Map<String, Value>) -> String {
    let mut form = url::form_urlencoded::Serializer::new(String::new());
    for (name, value) in fields {
        match value {
            Value::String(text) => form.append_pair(name, text),
            value => form.append_pair(name, &value.to_string()),
        };
    }
    form.finish()
}

fn told(reply: &Reply, took: Duration) -> Value {
    let kind = reading::kind(&reply.headers);
    let (encoding, body) = if reading::is_text(&kind, &reply.body) {
        ("text", reading::text(&reply.headers, &reply.body).into_owned())
    } else {
        ("base64", STANDARD.encode(&reply.body))
    };
    let mut headers: Map<String, Value> = Map::new();
    for (name, value) in reply.headers.iter().take(MAX_HEADERS) {
        let value = String::from_utf8_lossy(value.as_bytes());
        let value = first_chars(&value, MAX_HEADER_BYTES);
        match headers.get_mut(name.as_str()) {
            Some(Value::String(before)) => *before = format!("{before}\n{value}"),
            _ => {
                headers.insert(name.as_str().to_owned(), value.into());
            }
        }
    }
    json!({
        "status": reply.status.as_u16(),
        "url": reply.url.as_str(),
        "headers": headers,
        "content_type": kind,
        "body": body,
        "encoding": encoding,
        "size": reply.body.len(),
        "truncated": reply.truncated,
        "duration_ms": milliseconds(took),
        "redirects": reply.hops,
    })
}
