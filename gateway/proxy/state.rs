//! Tokens that a client gives back: request states and task ids. Sealed, bound to the caller, the endpoint, the server
//! and the request they were made for, and short-lived.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lockgate_protocol::sealed::Purpose;
use serde_json::Value;

use crate::stage::Asked;

/// How long a client may take for one round.
const STATE_LIFE: Duration = Duration::from_secs(600);
/// How long a task can be asked about.
const TASK_LIFE: Duration = Duration::from_secs(7 * 24 * 3600);
/// Longest state of a server.
const MAX_STATE: usize = 32 * 1024;

/// Unix time in seconds.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

/// Wraps a server's `requestState` (JSON text of a string). `None` when it is longer than we carry.
pub(crate) fn seal(asked: &Asked, slug: &str, target: &str, inner: &[u8]) -> Option<String> {
    if inner.len() > MAX_STATE {
        return None;
    }
    let digest = digest(asked);
    let bind = asked.bind();
    let bound = [bind[0], bind[1], bind[2], slug.as_bytes(), target.as_bytes(), &digest];
    asked.setup.sealer.seal(Purpose::RequestState, &bound, now() + STATE_LIFE.as_secs(), inner).ok()
}

/// The server's `requestState` in a token of ours, if it was made for this very request.
pub(crate) fn open(asked: &Asked, slug: &str, target: &str, token: &str) -> Option<Vec<u8>> {
    let digest = digest(asked);
    let bind = asked.bind();
    let bound = [bind[0], bind[1], bind[2], slug.as_bytes(), target.as_bytes(), &digest];
    match asked.setup.sealer.open(Purpose::RequestState, &bound, now(), token) {
        Ok(inner) => Some(inner),
        Err(refused) => {
            tracing::info!(server = slug, reason = refused.reason().as_str(), "request state refused");
            None
        }
    }
}

/// Makes a task id for the client, which remembers the tool that it called.
pub(crate) fn seal_task(asked: &Asked, slug: &str, own: &str) -> Option<String> {
    let plain = format!("{slug}\0{}\0{own}", asked.request.param_str("name")?);
    asked.setup.sealer.seal(Purpose::Task, &asked.bind(), now() + TASK_LIFE.as_secs(), plain.as_bytes()).ok()
}

/// What a request is about, whatever order its keys have: method and parameters without `_meta` and the round's own.
fn digest(asked: &Asked) -> [u8; 32] {
    let request = &asked.request;
    let mut hasher = blake3::Hasher::new();
    hasher.update(request.method.as_str().as_bytes());
    let mut members: Vec<_> =
        request.params().iter().map(|m| (m.name(&request.text), m.value.of(&request.text))).collect();
    members.sort();
    for (name, value) in members {
        if matches!(&*name, "_meta" | "inputResponses" | "requestState") {
            continue;
        }
        let mut text = Vec::new();
        match serde_json::from_slice::<Value>(value) {
            Ok(value) => canonical(&value, &mut text),
            Err(_) => text.extend_from_slice(value),
        }
        hasher.update(&[0]).update(name.as_bytes()).update(&[0]).update(&text);
    }
    *hasher.finalize().as_bytes()
}

fn canonical(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Object(all) => {
            let mut members: Vec<_> = all.iter().collect();
            members.sort_by_key(|(name, _)| *name);
            out.push(b'{');
            for (name, value) in members {
                lockgate_protocol::write::string(out, name);
                out.push(b':');
                canonical(value, out);
                out.push(b',');
            }
            out.push(b'}');
        }
        Value::Array(all) => {
            out.push(b'[');
            for value in all {
                canonical(value, out);
                out.push(b',');
            }
            out.push(b']');
        }
        scalar => out.extend_from_slice(scalar.to_string().as_bytes()),
    }
}
