//! A call as it is submitted for approval: the digest that the executed call is compared with, and
//! its description for approvers. Also the question to a modern caller.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use lockgate_policy::response::{Response, Spec};
use lockgate_policy::{ApprovalRule, Refusal};
use lockgate_protocol::key::Key;
use lockgate_protocol::scan;
use lockgate_protocol::sealed::{Purpose, Reason};
use lockgate_text::unseen::is_unseen;
use lockgate_text::{date, json};
use lockgate_upstream::Upstream;
use serde_json::{Value, json};

use crate::answers::Questions;
use crate::approvals::waiting::join_names;
use crate::approvals::{CallerAnswer, Nonce};
use crate::authorize::Permitted;
use crate::canonical::write_json;
use crate::context::RequestContext;
use crate::peers::without_holder;
use crate::rescue::{ApprovalError, RequestError};
use crate::response::scrub::form::texts;
use crate::rights::name_principal;
use crate::tokens;

/// Limit on the request in bytes: approvers have to read it, and many calls may wait at once.
pub(crate) const MAX_REQUEST: usize = 64 * 1024;

pub(crate) struct ApprovedCall {
    /// Digest of principal, endpoint, server, tool and its definition, the arguments as sent to the
    /// server, and the current policies.
    pub(crate) digest: [u8; 32],
    arguments: Vec<u8>,
}

impl ApprovedCall {
    /// Creates the call with its digest.
    ///
    /// # Errors
    /// The call is too large to be shown, or its arguments have no canonical form.
    pub(crate) fn new(context: &RequestContext, permitted: &Permitted) -> Result<Self, Refusal> {
        if context.request.text.len() > MAX_REQUEST {
            let words = format!("it is larger than {} KiB", MAX_REQUEST / 1024);
            return Err(Refusal(words));
        }
        let mut arguments = context.request.param(Key::Arguments);
        for (name, written) in permitted.replaced() {
            if *name == Key::Arguments {
                arguments = written.as_deref();
            }
        }
        let arguments = arguments.unwrap_or(b"{}").to_vec();
        let mut canonical = Vec::with_capacity(arguments.len());
        if write_json(&arguments, None, &mut canonical).is_err() {
            return Err(Refusal("its arguments have too many members".into()));
        }
        let name = context.request.param_str(Key::Name);
        let seen = context.view.tool(name.as_deref().unwrap_or(""));
        let definition = seen.map_or(b"".as_slice(), |seen| &seen.entry.item.text);
        let mut hasher = blake3::Hasher::new();
        let [realm, subject, endpoint] = context.bind();
        let name = permitted.server().qualified_name();
        let target = permitted.target().as_bytes();
        // A server or policies that were replaced under the same name make it a different call.
        let server = permitted.server().instance().to_bytes();
        let policies = context.snapshot.policy.fingerprint();
        let mut parts =
            vec![realm, subject, endpoint, name.as_bytes(), target, definition, &canonical];
        parts.extend([server.as_slice(), policies.as_slice()]);
        parts.extend(permitted.approvals().iter().map(|rule| rule.rule.as_bytes()));
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
        }
        Ok(Self { digest: *hasher.finalize().as_bytes(), arguments })
    }

    pub(crate) fn digest_text(&self) -> String {
        blake3::Hash::from_bytes(self.digest).to_hex().to_string()
    }

    pub(crate) fn show(&self, context: &RequestContext, permitted: &Permitted) -> Value {
        let principal = &context.rights.principal;
        let tool = permitted.listed.as_deref().unwrap_or("");
        let needs: Vec<_> = permitted.approvals().iter().map(|rule| rule.needs()).collect();
        json!({
            "caller": name_principal(principal),
            "caller_name": principal.key_name.as_deref(),
            "organisation": principal.named_organisation(),
            "agent": principal.agent.as_deref(),
            "endpoint": context.rights.endpoint.path(),
            "server": permitted.server().slug(),
            "tool": show_text(tool),
            "arguments": show_arguments(&self.arguments, permitted.response()),
            "needs": needs,
            "digest": self.digest_text(),
        })
    }

    /// Returns the parameters of the elicitation that asks the caller.
    pub(crate) fn question(
        &self,
        context: &RequestContext,
        permitted: &Permitted,
        rules: &[Arc<ApprovalRule>],
    ) -> Value {
        let shown = self.show(context, permitted);
        let message = format!(
            "Approve this call?\nCaller: {}\nTool: {} (server {})\nArguments: {}\nPolicy: {}",
            text_of(&shown, "caller"),
            text_of(&shown, "tool"),
            text_of(&shown, "server"),
            text_of(&shown, "arguments"),
            join_names(rules),
        );
        json!({
            "mode": "form",
            "message": message,
            "requestedSchema": {
                "type": "object",
                "properties": {"decision": {
                    "type": "string",
                    "title": "Decision",
                    "description": "`approve` runs this call once, exactly as shown",
                    "enum": ["approve", "deny"],
                }},
                "required": ["decision"],
            },
        })
    }
}

fn text_of<'a>(shown: &'a Value, name: &str) -> &'a str {
    shown[name].as_str().unwrap_or("")
}

/// Longest string that is shown uncut, in characters.
const MAX_STRING: usize = 1000;
/// Maximum size of the shown arguments, in bytes.
const MAX_SHOWN: usize = 16 * 1024;

/// Shown when removing secrets leaves invalid JSON, because two members get the same name. An empty
/// text would look like a call without arguments.
const HIDDEN: &str = "(not shown: several member names look like secrets)";

/// Renders arguments for approvers; `rule` is the policies' response filter.
pub(super) fn show_arguments(raw: &[u8], rule: Option<&Response>) -> String {
    let clean =
        Response::all(secrets().into_iter().chain(rule)).and_then(|rule| texts(&rule, "", raw));
    let mut text = Vec::with_capacity(raw.len());
    if write_json(clean.as_deref().unwrap_or(raw), Some(cut), &mut text).is_err() {
        return HIDDEN.to_owned();
    }
    let mut shown = show_text(&String::from_utf8_lossy(&text));
    if shown.len() > MAX_SHOWN {
        let all = shown.len();
        shown.truncate(shown.floor_char_boundary(MAX_SHOWN));
        shown.push_str(&format!("… (truncated: {all} bytes in total)"));
    }
    shown
}

/// Escapes invisible characters.
pub(super) fn show_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_unseen(c) { out.push_str(&format!("\\u{{{:x}}}", u32::from(c))) } else { out.push(c) }
    }
    out
}

/// Returns the filter for secrets, which applies regardless of policies.
fn secrets() -> Option<&'static Response> {
    static SECRETS: OnceLock<Option<Response>> = OnceLock::new();
    let compiled =
        SECRETS.get_or_init(|| Response::compile(&Spec { secrets: true, ..Spec::default() }).ok());
    compiled.as_ref()
}

fn cut(text: &str) -> Cow<'_, str> {
    let Some((end, _)) = text.char_indices().nth(MAX_STRING) else { return text.into() };
    let (begin, rest) = text.split_at(end);
    format!("{begin}… ({} more characters)", rest.chars().count()).into()
}

// The question to a modern caller, which answers with its next request.

/// The name of the question to the caller.
pub(super) const KEY: &str = "approval";

/// Seals the state that accompanies a question to a modern caller, bound to that caller and that
/// request.
pub(super) fn seal_question(
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
    let expires = date::now() + life.as_secs() + 1;
    context.snapshot.sealer.seal(Purpose::Approval, &bound, expires, nonce).ok()
}

/// Reads the answer of a request; `None` if its state is not that of an approval question.
///
/// # Errors
/// The answer does not fit the question, or is late.
pub(crate) fn read_answer(
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
    let opened = context.snapshot.sealer.open(Purpose::Approval, &bound, date::now(), token);
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
    let responses = context.request.param(Key::InputResponses);
    let approves = responses.map(|responses| read_decision(context, responses)).transpose()?;
    let approves = approves.flatten();
    Ok(Some(CallerAnswer { nonce, approves }))
}

fn read_decision(context: &RequestContext, responses: &[u8]) -> Result<Option<bool>, RequestError> {
    let asked = json!({KEY: {"method": "elicitation/create", "params": {
        "requestedSchema": {"type": "object", "required": ["decision"], "properties": {
            "decision": {"type": "string", "enum": ["approve", "deny"]}}}}}});
    let questions = Questions::of(asked.to_string().as_bytes()).unwrap_or_default();
    let taken = tokens::take_answers(context, responses, |raw| questions.take(raw))?;
    let answers = json::from_slice(&taken).unwrap_or(Value::Null);
    Ok(answers.get(KEY).map(is_approval))
}

pub(super) fn is_approval(result: &Value) -> bool {
    result["action"] == "accept" && result["content"]["decision"] == "approve"
}
