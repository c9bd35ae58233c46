//! May they? What policy hides is not in the view, and answers like what does not exist; then
//! rates, then arguments. Only here is a [`Permitted`] made, and without one no server is reached.

mod completion;
mod evaluate;
mod missing;
mod permitted;
mod task_support;

use std::borrow::Cow;
use std::sync::Arc;

use lockgate_policy::response::Response;
use lockgate_policy::{ALWAYS_QUICK, InputSchema, Kind};
use lockgate_protocol::code;
use lockgate_protocol::jsonrpc::Request;
use lockgate_protocol::method::Method;
use lockgate_protocol::sealed::Purpose;
use lockgate_protocol::write;
use lockgate_upstream::Upstream;

use crate::context::RequestContext;
use completion::authorize_completion;
pub(crate) use evaluate::admit;
use evaluate::{answer_missing, evaluate};
use permitted::Judgement;
pub(crate) use permitted::{Parked, Permitted};
use task_support::find_use;

use crate::rescue::RequestError;
use crate::tokens::Resumption;
use crate::{answers, approve, tokens, unix_time};

/// Decides on a request that is for one server.
pub(crate) fn authorize(context: &RequestContext) -> Result<Permitted, RequestError> {
    match context.request.method {
        Method::ToolsCall => authorize_tool(context),
        Method::PromptsGet => authorize_prompt(context),
        Method::ResourcesRead | Method::Subscribe | Method::Unsubscribe => {
            authorize_resource(context)
        }
        Method::Complete => authorize_completion(context),
        Method::TasksGet | Method::TasksUpdate | Method::TasksCancel | Method::TasksResult => {
            authorize_task(context)
        }
        other => Err(RequestError::method_not_found(other.as_str())),
    }
}

/// Bytes of a URI, and of answers to questions, that are looked at in less than 5 ms.
const QUICK_URI: usize = 512;
const QUICK_ANSWERS: usize = 64 * 1024;

/// Whether the decision may take so long that it has to be made apart.
pub(crate) fn is_slow(context: &RequestContext) -> bool {
    let request = &context.request;
    // URIs are compared with templates, and policies that deny with several forms of them.
    if bytes_of(request, "uri") > QUICK_URI
        || bytes_of(request, "ref") > QUICK_URI
        || bytes_of(request, "inputResponses") > QUICK_ANSWERS
    {
        return true;
    }
    let bytes = bytes_of(request, "arguments");
    if bytes <= ALWAYS_QUICK {
        return false;
    }
    let Some(name) = context.request.param_str("name") else { return false };
    let seen = match context.request.method {
        Method::ToolsCall => context.view.tool(&name),
        Method::PromptsGet => context.view.prompt(&name),
        _ => None,
    };
    match seen {
        Some(seen) => {
            seen.entry.arguments.is_some()
                || context.snapshot.policy.evaluates_slowly(&seen.verdict, bytes)
        }
        None => false,
    }
}

fn bytes_of(request: &Request, name: &str) -> usize {
    request.param(name).unwrap_or(b"").len()
}

/// The answer about a name that nothing has: that it is unknown, or that a server which may have it
/// is not there yet. Of what policy would hide, it is the former in any case.
fn unknown_name(context: &RequestContext, kind: Kind, name: &str) -> RequestError {
    if let Some(server) = missing::find_server(context, kind, name) {
        server.revive();
        return RequestError::not_there_yet(&**server).of_server(server.slug());
    }
    RequestError::unknown(if kind == Kind::Tool { "tool" } else { "prompt" }, name)
}

fn require_string<'a>(request: &'a Request, name: &str) -> Result<Cow<'a, str>, RequestError> {
    match request.param_str(name) {
        Some(text) => Ok(text),
        None => Err(RequestError::invalid(format!("`params.{name}` must be a string"))),
    }
}

fn authorize_tool(context: &RequestContext) -> Result<Permitted, RequestError> {
    let name = require_string(&context.request, "name")?;
    let Some(seen) = context.tool(&name) else {
        return Err(answer_missing(context, unknown_name(context, Kind::Tool, &name)));
    };
    let entry = &seen.entry;
    if !context.request.param("arguments").unwrap_or(b"{}").starts_with(b"{") {
        return Err(RequestError::invalid("`params.arguments` must be an object"));
    }
    let scopes = context.snapshot.authenticator.may_call(
        &context.principal,
        &entry.slug,
        &entry.item.key,
        context.endpoint.resource(),
    );
    if let Err((why, challenge)) = scopes {
        return Err(RequestError::insufficient_scope(why, &challenge).of_server(&entry.slug));
    }
    let task_use = find_use(context, entry)?;
    let judged = evaluate(context, &seen.verdict, &entry.target(Kind::Tool))?;
    if let Some(schema) = &entry.arguments {
        check_arguments(context, schema, &judged).map_err(|p| p.of_server(&entry.slug))?;
    }
    let permitted =
        permit_round(context, Arc::clone(&entry.server), entry.item.key.to_string(), "name")?
            .with_metrics(entry.metrics.clone())
            .with_listed(context.view.shown(entry))
            .with_task(context.request.param("task").is_some(), task_use);
    Ok(permitted.with_judgement(judged))
}

/// Holds the arguments, as the server would get them, against the tool's schema.
#[cold]
fn check_arguments(
    context: &RequestContext,
    schema: &InputSchema,
    judged: &Judgement,
) -> Result<(), RequestError> {
    let given = context.request.param("arguments").unwrap_or(b"{}");
    let arguments = judged.passed.arguments.as_deref().unwrap_or(given);
    schema
        .check(arguments)
        .map_err(|refusal| RequestError::tool_error(refusal.to_string(), context.era()))
}

fn authorize_prompt(context: &RequestContext) -> Result<Permitted, RequestError> {
    let name = require_string(&context.request, "name")?;
    let Some(seen) = context.prompt(&name) else {
        return Err(answer_missing(context, unknown_name(context, Kind::Prompt, &name)));
    };
    let judged = evaluate(context, &seen.verdict, &seen.entry.target(Kind::Prompt))?;
    let permitted = permit_round(
        context,
        Arc::clone(&seen.entry.server),
        seen.entry.item.key.to_string(),
        "name",
    )?;
    Ok(permitted.with_listed(context.view.shown(&seen.entry)).with_judgement(judged))
}

fn authorize_resource(context: &RequestContext) -> Result<Permitted, RequestError> {
    let uri = require_string(&context.request, "uri")?;
    let Some(found) = context.view.resource(&uri, Kind::Resource) else {
        let unknown = RequestError::unknown_resource(&uri, context.era());
        return Err(answer_missing(context, unknown));
    };
    let judged = evaluate(context, &found.verdict, &found.target(Kind::Resource))?;
    Ok(permit_round(context, found.server, found.own, "uri")?.with_judgement(judged))
}

/// A request that may be the next round of an earlier one.
fn permit_round(
    context: &RequestContext,
    server: Arc<dyn Upstream>,
    target: String,
    key: &'static str,
) -> Result<Permitted, RequestError> {
    let mut replaced = vec![(key, Some(write::quoted(&target)))];
    let mut parked = None;
    let mut answer = None;
    if tokens::is_next_round(&context.request) {
        if context.request.method == Method::ToolsCall {
            answer = approve::answer::read(context, &*server, &target)?;
        }
        if answer.is_some() {
            replaced.extend([("requestState", None), ("inputResponses", None)]);
        } else {
            let round = tokens::next_round(context, &*server, &target)?;
            replaced.extend(round.replaced);
            if let Resumption::Parked(handle, _) = round.resumption {
                parked = Some(Parked { handle, answers: round.answers });
            }
        }
    }
    let permitted = Permitted::new(server, context.request.method, target, replaced);
    let permitted = permitted.with_parked(parked);
    Ok(match answer {
        Some(answer) => permitted.with_answer(answer),
        None => permitted,
    })
}

/// A task is found by the token that we made of its server and id; a foreign token is an unknown
/// task.
fn authorize_task(context: &RequestContext) -> Result<Permitted, RequestError> {
    let token = require_string(&context.request, "taskId")?;
    let Some(task) = find_task(context, &token) else {
        return Err(answer_missing(context, RequestError::unknown_task()));
    };
    let held = admit(&context.snapshot, &context.rights, context.request.method)?;
    let method = context.request.method;
    let mut replaced = vec![("taskId", Some(write::quoted(&task.own)))];
    if let Some(responses) = context.request.param("inputResponses") {
        replaced.push((
            "inputResponses",
            Some(tokens::take_answers(context, responses, answers::take_unremembered)?),
        ));
    }
    let permitted = Permitted::new(task.server, method, task.own, replaced);
    Ok(permitted.with_held(held).with_response(task.response))
}

/// A task of a tool that its caller may still use.
pub(crate) struct Task {
    pub(crate) server: Arc<dyn Upstream>,
    /// The server's own id.
    pub(crate) own: String,
    /// What may come back from the tool.
    response: Option<Arc<Response>>,
}

/// The task behind a token that this caller was given here. What policy hides meanwhile takes its
/// tasks along.
pub(crate) fn find_task(context: &RequestContext, token: &str) -> Option<Task> {
    let plain = context
        .snapshot
        .sealer
        .open(Purpose::Task, &context.bind(), unix_time::now(), token)
        .ok()?;
    let plain = String::from_utf8(plain).ok()?;
    let (server, rest) = plain.split_once('\0')?;
    let (tool, own) = rest.split_once('\0')?;
    let seen = context.tool(tool)?;
    if *seen.entry.server.qualified_name() != *server {
        return None;
    }
    let response = seen.verdict.response().cloned();
    Some(Task { server: Arc::clone(&seen.entry.server), own: own.to_owned(), response })
}

/// The capability that a tasks request needs.
pub(crate) fn require_tasks(context: &RequestContext) -> Result<(), RequestError> {
    use lockgate_protocol::capabilities::{TASKS, declares};
    if declares(&context.caller.capabilities, &["extensions", TASKS]) {
        return Ok(());
    }
    let needed = serde_json::json!({"requiredCapabilities": {"extensions": {TASKS: {}}}});
    Err(RequestError::new(code::MISSING_CAPABILITY, "the request needs the tasks extension")
        .data(needed))
}
