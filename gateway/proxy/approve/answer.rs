//! The sealed state that accompanies an approval question to a modern caller, and the answer that
//! comes back with it. The state is bound to that caller and that request.

use std::time::Duration;

use lockgate_protocol::key::Key;
use lockgate_protocol::scan;
use lockgate_protocol::sealed::{Purpose, Reason};
use lockgate_upstream::Upstream;
use serde_json::Value;

use crate::answers::Questions;
use crate::approvals::asked::{CallerAnswer, Nonce};
use crate::context::RequestContext;
use crate::peers::without_holder;
use crate::rescue::{ApprovalError, RequestError};
use crate::{tokens, unix_time};

pub(crate) const KEY: &str = "approval";

pub(crate) fn seal(
    context: &RequestContext,
    server: &dyn Upstream,
    target: &str,
    nonce: &Nonce,
    life: Duration,
) -> Option<String> {
    let digest = tokens::digest(context);
    let [realm, subject, endpoint] = context.bind();
    let server = server.qualified_name();
    let bound = [realm, subject, endpoint, server.as_bytes(), target.as_bytes(), &digest];
    // One second longer than the question is stored, so that a late answer is reported as expired.
    let expires = unix_time::now() + life.as_secs() + 1;
    context.snapshot.sealer.seal(Purpose::Approval, &bound, expires, nonce).ok()
}

/// Reads the answer of a request; `None` if its state is not that of an approval question.
///
/// # Errors
/// The answer does not fit the question, or is late.
pub(crate) fn read(
    context: &RequestContext,
    server: &dyn Upstream,
    target: &str,
) -> Result<Option<CallerAnswer>, RequestError> {
    let Some(token) = context.request.param(Key::RequestState).and_then(scan::as_str) else {
        return Ok(None);
    };
    let digest = tokens::digest(context);
    let [realm, subject, endpoint] = context.bind();
    let server = server.qualified_name();
    let bound = [realm, subject, endpoint, server.as_bytes(), target.as_bytes(), &digest];
    let token = without_holder(&token);
    let opened = context.snapshot.sealer.open(Purpose::Approval, &bound, unix_time::now(), token);
    let plain = match opened {
        Ok(plain) => plain,
        Err(refused) if refused.reason() == Reason::Expired => {
            let error = ApprovalError::StateExpired;
            let problem = RequestError::unapproved(&error, None);
            return Err(problem.of_server(&server));
        }
        Err(_) => return Ok(None),
    };
    let Ok(nonce) = Nonce::try_from(plain.as_slice()) else { return Ok(None) };
    let approves = match context.request.param(Key::InputResponses) {
        Some(responses) => read_decision(context, responses)?,
        None => None,
    };
    Ok(Some(CallerAnswer { nonce, approves }))
}

fn read_decision(context: &RequestContext, responses: &[u8]) -> Result<Option<bool>, RequestError> {
    let asked = serde_json::json!({KEY: {"method": "elicitation/create", "params": {
        "requestedSchema": {"type": "object", "required": ["decision"], "properties": {
            "decision": {"type": "string", "enum": ["approve", "deny"]}}}}}});
    let questions = Questions::of(asked.to_string().as_bytes()).unwrap_or_default();
    let taken = tokens::take_answers(context, responses, |raw| questions.take(raw))?;
    let answers = serde_json::from_slice(&taken).unwrap_or(Value::Null);
    Ok(answers.get(KEY).map(is_approval))
}

pub(crate) fn is_approval(result: &Value) -> bool {
    result["action"] == "accept" && result["content"]["decision"] == "approve"
}
