//! JSON bodies of requests. Unknown members are rejected, and errors include the location.

use std::sync::Arc;

use axum::body::{Bytes, to_bytes};
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, StatusCode};
use lockgate_admission::CallerId;
use lockgate_authn::Principal;
use lockgate_text::json::Reader;
use serde::Deserializer;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::{Path, Segment};

use super::problem::{Problem, Result};
use super::state::ApiState;
use crate::is_json;

/// Maximum nesting depth of a body.
const MAX_DEPTH: usize = 64;
/// Maximum number of members per object in a body.
const MAX_MEMBERS: usize = 100_000;
const READER: Reader = Reader { members: MAX_MEMBERS, ..Reader::exact(MAX_DEPTH) };
/// Larger bodies are parsed on a separate thread (bytes).
const LARGE_BODY: usize = 1 << 20;

/// A body as `T`, which rejects unknown members. An empty body is an empty object.
pub(crate) struct Body<T>(pub(crate) T);

/// Converts a body that was composed in this process.
pub(crate) fn body<T: DeserializeOwned>(value: Value) -> Result<Body<T>> {
    Ok(Body(read(value)?))
}

impl<T: DeserializeOwned + Send + 'static> FromRequest<Arc<ApiState>> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &Arc<ApiState>) -> Result<Self> {
        let headers = request.headers().clone();
        let caller = request.extensions().get::<Principal>();
        let caller = caller.map_or_else(|| CallerId::alone(0), |caller| caller.caller_id());
        // The composition root has already read the body within its limits.
        let Ok(text) = to_bytes(request.into_body(), usize::MAX).await else {
            return Err(Problem::in_body("", "the body is incomplete"));
        };
        if text.len() <= LARGE_BODY {
            return Ok(Self(parse(&headers, &text)?));
        }
        let Ok(turn) = state.gateway.cpu_pool().turn(caller).await else {
            let detail = "too many large bodies are being read: retry in a moment";
            return Err(Problem::overloaded(detail, 1));
        };
        Ok(Self(turn.run(move || parse(&headers, &text)).await?))
    }
}

fn parse<T: DeserializeOwned>(headers: &HeaderMap, text: &Bytes) -> Result<T> {
    let text = match text.trim_ascii() {
        [] => b"{}",
        text => {
            check_type(headers)?;
            text
        }
    };
    let value = READER.check(text);
    let value =
        value.map_err(|words| Problem::in_body("", format!("the body is not JSON: {words}")))?;
    if !value.is_object() {
        return Err(Problem::in_body("", "the body must be a JSON object"));
    }
    // Deserialized from the text, so that raw values are forwarded as they were written.
    read(&mut serde_json::Deserializer::from_slice(text))
}

/// Deserializes a body, with the location of a mistake.
fn read<'de, T: DeserializeOwned>(from: impl Deserializer<'de>) -> Result<T> {
    serde_path_to_error::deserialize(from).map_err(|error| {
        let pointer = write_pointer(error.path());
        let words = error.into_inner().to_string();
        let words = words.split(" at line ").next().unwrap_or("").to_owned();
        Problem::in_body(&pointer, words)
    })
}

fn check_type(headers: &HeaderMap) -> Result<()> {
    if is_json(headers) {
        return Ok(());
    }
    let detail = "Content-Type must be application/json";
    Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UNSUPPORTED_MEDIA_TYPE", detail))
}

/// Returns a path as a JSON Pointer (RFC 6901).
fn write_pointer(path: &Path) -> String {
    let segments = path.iter().map(|segment| match segment {
        Segment::Seq { index } => format!("/{index}"),
        Segment::Map { key } => segment_of(key),
        Segment::Enum { .. } | Segment::Unknown => String::new(),
    });
    segments.collect()
}

/// Returns a key as a part of a JSON Pointer.
pub(crate) fn segment_of(key: &str) -> String {
    format!("/{}", key.replace('~', "~0").replace('/', "~1"))
}

#[cfg(test)]
mod tests;
