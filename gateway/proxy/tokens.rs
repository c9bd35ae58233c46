//! Tokens that a client returns: request states and task ids. Sealed, bound to caller, endpoint,
//! server and request, and short-lived.

use std::time::Duration;

use lockgate_protocol::key::Key;
use lockgate_protocol::sealed::{Purpose, Reason};
use lockgate_protocol::write::Object;
use lockgate_protocol::{list, scan};
use lockgate_text::{date, json};
use lockgate_upstream::Upstream;

use crate::answers::Questions;
use crate::canonical::write_json;
use crate::context::{Replaced, RequestContext, Resumption};
use crate::peers::{self, Waiting};
use crate::rescue::RequestError;

/// Time for a client to complete a round.
const STATE_LIFE: Duration = Duration::from_secs(600);
/// Lifetime of a task id.
const TASK_LIFE: Duration = Duration::from_secs(7 * 24 * 3600);
/// Reason for the refusal of a state that was sealed for another caller.
const OTHER_CALLER: &str = "other_caller";
/// Maximum length of a server's state.
const MAX_STATE: usize = 32 * 1024;

/// The contents of a request state: the server's own state (JSON text of a string) if any, its
/// questions, and where the call resumes.
struct Round {
    inner: Option<Vec<u8>>,
    questions: Questions,
    resumption: Resumption,
}

/// The next round of an earlier request.
pub(crate) struct NextRound {
    /// Replaced members for the server.
    pub(crate) replaced: [Replaced; 2],
    pub(crate) resumption: Resumption,
    /// Answers for a parked call: JSON text of an object.
    pub(crate) answers: Option<Vec<u8>>,
}

/// Seals a server's `requestState` (JSON text of a string), if any, with its questions.
///
/// # Errors
/// A description of the limit that the server exceeded.
pub(crate) fn seal(
    context: &RequestContext,
    server: &dyn Upstream,
    target: &str,
    inner: Option<&[u8]>,
    requests: Option<&[u8]>,
    resumption: &Resumption,
) -> Result<String, &'static str> {
    let inner_bytes = inner.unwrap_or(b"").len();
    if inner_bytes > MAX_STATE {
        return Err("sent a request state that is too long");
    }
    let mut questions = Questions::default();
    if let Some(requests) = requests {
        let asked = Questions::of(requests).ok_or("sent questions that are too long")?;
        questions = asked;
    }
    let mut plain = Vec::with_capacity(128 + inner_bytes);
    plain.extend_from_slice(&mark_caller(context));
    let mut object = Object::open(&mut plain);
    if let Some(inner) = inner {
        object.raw("state", inner);
    }
    object.raw("asked", &serde_json::to_vec(&questions).unwrap_or_default());
    match resumption {
        Resumption::AtServer => {}
        Resumption::Parked(handle, _) => object.string("parked", handle),
        Resumption::Anew => object.raw("anew", b"true"),
    }
    object.close();
    let digest = digest(context);
    let server = server.qualified_name();
    let bound = [context.rights.endpoint.bound(), server.as_bytes(), target.as_bytes(), &digest];
    let sealed = context.snapshot.sealer.seal(
        Purpose::RequestState,
        &bound,
        date::now() + STATE_LIFE.as_secs(),
        &plain,
    );
    let Ok(sealed) = sealed else { return Err("sent a request state that is too long") };
    Ok(match resumption {
        Resumption::Parked(_, Some(address)) => {
            let sealer = &context.snapshot.sealer;
            peers::add_holder(sealer, context.bind(), sealed, Waiting::Call, *address)
        }
        _ => sealed,
    })
}

/// Opens a request state (JSON text of a string) that was sealed for this request and this caller.
///
/// # Errors
/// The reason, as a code for the log and the audit trail.
fn open(
    context: &RequestContext,
    server: &dyn Upstream,
    target: &str,
    state: &[u8],
) -> Result<Round, &'static str> {
    let state = scan::as_str(state).ok_or(Reason::Malformed.as_str())?;
    let token = peers::without_holder(&state);
    let digest = digest(context);
    let server = server.qualified_name();
    let bound = [context.rights.endpoint.bound(), server.as_bytes(), target.as_bytes(), &digest];
    let sealer = &context.snapshot.sealer;
    let plain = sealer
        .open(Purpose::RequestState, &bound, date::now(), token)
        .map_err(|refused| refused.reason().as_str())?;
    match plain.split_first_chunk() {
        Some((caller, round)) if *caller == mark_caller(context) => {
            read(round).ok_or(Reason::Malformed.as_str())
        }
        Some(_) => Err(OTHER_CALLER),
        None => Err(Reason::Malformed.as_str()),
    }
}

/// Returns the caller's digest in request states. It is part of the sealed contents, not of the
/// binding, so that states of other callers can be distinguished from forged ones.
fn mark_caller(context: &RequestContext) -> [u8; 32] {
    let [realm, subject, _] = context.bind();
    let mut hasher = blake3::Hasher::new();
    hasher.update(&(realm.len() as u64).to_be_bytes()).update(realm).update(subject);
    *hasher.finalize().as_bytes()
}

fn read(plain: &[u8]) -> Option<Round> {
    let inner = list::member(plain, "state").map(<[u8]>::to_vec);
    let questions = json::from_slice(list::member(plain, "asked")?).ok()?;
    let parked = list::member(plain, "parked").and_then(scan::as_str);
    let resumption = match parked {
        Some(handle) => Resumption::Parked(handle.into(), None),
        None if list::member(plain, "anew").is_some() => Resumption::Anew,
        None => Resumption::AtServer,
    };
    Some(Round { inner, questions, resumption })
}

/// Prepares the next round of an earlier request. Its state must have been sealed for this request,
/// and its answers must match the questions of that round. Answers without a state match no
/// question: they are dropped, as the specification requires for unexpected answers, and the server
/// asks again.
pub(crate) fn next_round(
    context: &RequestContext,
    server: &dyn Upstream,
    target: &str,
) -> Result<NextRound, RequestError> {
    let nothing = [(Key::RequestState, None), (Key::InputResponses, None)];
    let Some(state) = context.request.param(Key::RequestState) else {
        let resumption = Resumption::AtServer;
        return Ok(NextRound { replaced: nothing, resumption, answers: None });
    };
    let round = match open(context, server, target, state) {
        Ok(round) => round,
        Err(reason) => {
            let server = &*server.qualified_name();
            tracing::info!(server, reason, "request state refused");
            let words = "the request state is not valid for this request, or has expired";
            return Err(RequestError::invalid(words).recorded_as(reason));
        }
    };
    let responses = context.request.param(Key::InputResponses);
    let taken = responses
        .map(|responses| take_answers(context, responses, |raw| round.questions.take(raw)))
        .transpose()?;
    let resumption = round.resumption;
    Ok(match resumption {
        Resumption::AtServer => {
            let replaced = [(Key::RequestState, round.inner), (Key::InputResponses, taken)];
            NextRound { replaced, resumption, answers: None }
        }
        Resumption::Parked(..) => NextRound { replaced: nothing, resumption, answers: taken },
        Resumption::Anew => NextRound { replaced: nothing, resumption, answers: None },
    })
}

/// Validates answers to questions within the size limit.
pub(crate) fn take_answers(
    context: &RequestContext,
    raw: &[u8],
    take: impl Fn(&[u8]) -> Result<Vec<u8>, String>,
) -> Result<Vec<u8>, RequestError> {
    let most = context.snapshot.config.limits.answer_bytes;
    if raw.len() > most {
        return Err(RequestError::invalid(format!(
            "`params.inputResponses` has more than {most} bytes (limits.answer_bytes)"
        )));
    }
    take(raw).map_err(RequestError::invalid)
}

/// Lifetime of a cursor.
const CURSOR_LIFE: Duration = Duration::from_secs(3600);

/// Seals a position in a list of the method, and of the URI if it has one, as a cursor.
pub(crate) fn seal_cursor(context: &RequestContext, of: &[&str], plain: &[u8]) -> Option<String> {
    let expires = date::now() + CURSOR_LIFE.as_secs();
    let sealer = &context.snapshot.sealer;
    sealer.seal(Purpose::Cursor, &bind_cursor(context, of), expires, plain).ok()
}

/// Opens a cursor (JSON text of a string) for this caller at this endpoint.
pub(crate) fn open_cursor(context: &RequestContext, of: &[&str], cursor: &[u8]) -> Option<Vec<u8>> {
    let token = scan::as_str(cursor)?;
    let bound = bind_cursor(context, of);
    context.snapshot.sealer.open(Purpose::Cursor, &bound, date::now(), &token).ok()
}

fn bind_cursor<'a>(context: &'a RequestContext, of: &[&'a str]) -> Vec<&'a [u8]> {
    let mut bound = context.bind().to_vec();
    bound.extend(of.iter().map(|part| part.as_bytes()));
    bound
}

/// Creates a task id for the client, which includes the called tool.
pub(crate) fn seal_task(
    context: &RequestContext,
    server: &dyn Upstream,
    own: &str,
) -> Option<String> {
    let tool = context.request.param_str(Key::Name)?;
    let plain = format!("{}\0{tool}\0{own}", server.qualified_name());
    context
        .snapshot
        .sealer
        .seal(Purpose::Task, &context.bind(), date::now() + TASK_LIFE.as_secs(), plain.as_bytes())
        .ok()
}

/// Returns a digest of a request, independent of key order: method and parameters without `_meta`
/// and the members of rounds.
pub(crate) fn digest(context: &RequestContext) -> [u8; 32] {
    let request = &context.request;
    let mut hasher = blake3::Hasher::new();
    hasher.update(request.method.as_str().as_bytes());
    let members = request.params().iter();
    let mut members: Vec<_> =
        members.map(|one| (one.name(&request.text), one.value.of(&request.text))).collect();
    members.sort();
    for (name, value) in members {
        if matches!(&*name, "_meta" | "inputResponses" | "requestState") {
            continue;
        }
        let mut text = Vec::new();
        if write_json(value, None, &mut text).is_err() {
            text = value.to_vec();
        }
        hasher.update(&[0]).update(name.as_bytes()).update(&[0]).update(&text);
    }
    *hasher.finalize().as_bytes()
}
