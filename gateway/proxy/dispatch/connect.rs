//! Calls that lack an account of their caller at the server. Clients that open pages for their user
//! are asked to open the link; with `auth.waits`, the call then waits for the account and is made
//! once more. Others get the link as text (`rescue/account`). Pages: client/elicitation.mdx
//! (2025-11-25, 2026-07-28).

use lockgate_protocol::code;
use lockgate_protocol::list;
use lockgate_protocol::method::Method;
use lockgate_protocol::question;
use lockgate_protocol::revision::Era;
use lockgate_protocol::scan;
use lockgate_upstream::{Answer, ConnectPrompt};
use serde_json::{Map, Value, json};

use super::parking::write_input_required;
use crate::authorize::Permitted;
use crate::caller_view::RequestCallerView;
use crate::client_channel::CallChannel;
use crate::context::RequestContext;
use crate::interact::is_pausable;
use crate::parked::new_handle;
use crate::rescue::RequestError;
use crate::tokens::Resumption;

/// Key of the question to a modern client.
const KEY: &str = "connect";
const ACCEPT: &str = "accept";

/// Asks the caller to connect an account. Returns the response with the question, or `None` after
/// an account was connected or the time for it has passed: the call is then made again.
///
/// # Errors
/// The response with the link, or too many calls are waiting.
pub(super) async fn ask(
    permitted: &mut Permitted,
    channel: Option<&CallChannel>,
    prompt: &ConnectPrompt,
    caller: &RequestCallerView<'_>,
) -> Result<Option<Answer>, RequestError> {
    let context = caller.context;
    let slug = permitted.server().slug();
    let plain = RequestError::needs_account(context, slug, prompt);
    let params = json!({
        "mode": "url", "url": prompt.url,
        "message": format!("Connect your account at the server {slug}, then return."),
    });
    let declared = &context.caller.capabilities;
    let text = params.to_string();
    if !question::may_ask(declared, Method::Elicit, text.as_bytes(), context.revision) {
        return Err(plain);
    }
    let is_accepted = match (context.era(), channel) {
        (Era::Modern, _) if !is_pausable(permitted.method()) => return Err(plain),
        (Era::Modern, _) => match find_action(context) {
            Some(action) => action == ACCEPT,
            None => {
                permitted.resume_at(Resumption::Anew);
                let question = json!({"method": Method::Elicit.as_str(), "params": params});
                let questions = Map::from_iter([(KEY.to_owned(), question)]);
                return write_input_required(questions, scan::MAX_DEPTH).map(Some);
            }
        },
        (Era::Legacy, Some(channel)) if !prompt.waits.is_zero() => {
            let answer = channel.ask_own(text.as_bytes(), prompt.waits).await;
            let answer = answer.ok().and_then(|text| serde_json::from_slice::<Value>(&text).ok());
            answer.is_some_and(|answer| answer["action"] == ACCEPT)
        }
        (Era::Legacy, _) => return Err(url_elicitation_error(plain, params)),
    };
    if !is_accepted || prompt.waits.is_zero() {
        return Err(plain);
    }
    // Waits as one of the caller's parked calls.
    let limits = &context.snapshot.config.limits;
    let _share = caller.gateway.parked.take_share(&context.principal, limits)?;
    let _ = tokio::time::timeout(prompt.waits, permitted.server().wait_for_account(caller)).await;
    Ok(None)
}

/// Returns the modern client's answer to the question, if this is its next round.
fn find_action(context: &RequestContext) -> Option<String> {
    context.request.param("requestState")?;
    let answer = list::member(context.request.param("inputResponses")?, KEY)?;
    Some(scan::as_str(list::member(answer, "action")?)?.into_owned())
}

/// Returns the error that a client of 2025-11-25 with URL elicitation requires.
fn url_elicitation_error(plain: RequestError, mut params: Value) -> RequestError {
    let Some(id) = new_handle() else { return plain };
    params["elicitationId"] = (&*id).into();
    let mut problem = RequestError::new(code::URL_ELICITATION, plain.message.clone());
    problem.data = Some(json!({"elicitations": [params], "reason": "needs_account"}));
    problem.outcome = plain.outcome;
    problem
}
