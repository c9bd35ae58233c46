//! Authorization: visibility in the view (hidden items are reported as unknown), then rate limits,
//! then arguments. Servers are reached only with a [`Permitted`], which only this module creates.

mod permitted;

use std::borrow::Cow;
use std::sync::Arc;

use http::StatusCode;
use lockgate_policy::response::Response;
use lockgate_policy::{ALWAYS_QUICK, InputSchema, Target, TargetKind, Verdict};
use lockgate_protocol::capabilities::{TASKS, declares};
use lockgate_protocol::jsonrpc::Request;
use lockgate_protocol::key::Key;
use lockgate_protocol::method::Method;
use lockgate_protocol::name::Slug;
use lockgate_protocol::revision::Revision;
use lockgate_protocol::sealed::Purpose;
use lockgate_protocol::{code, list, write};
use lockgate_text::date;
use lockgate_upstream::{Upstream, UpstreamState};

use crate::approve::call::read_answer;
use crate::authorize::permitted::{answer_missing, evaluate};
use crate::catalog::{CatalogEntry, category, is_legacy, unlisted_target};
use crate::context::{RequestContext, Resumption, read_reference};
use crate::rescue::RequestError;
use crate::{answers, skills, tokens};
use permitted::Judgement;

pub use crate::authorize::permitted::admit;
pub use permitted::Permitted;
pub(crate) use permitted::{Parked, TaskUse};

/// Decides on a request for a server. The result is the only key to that server.
pub fn authorize(context: &RequestContext) -> Result<Permitted, RequestError> {
    match context.request.method {
        Method::ToolsCall => authorize_tool(context),
        Method::PromptsGet => authorize_prompt(context),
        Method::ResourcesRead
        | Method::Subscribe
        | Method::Unsubscribe
        | Method::SkillsGet
        | Method::DirectoryRead => authorize_resource(context),
        Method::Complete => authorize_completion(context),
        Method::TasksGet | Method::TasksUpdate | Method::TasksCancel | Method::TasksResult => {
            authorize_task(context)
        }
        Method::Unknown if context.passes() => authorize_unknown(context),
        other => Err(RequestError::method_not_found(other.as_str())),
    }
}

/// Permits a method that the operator lets through. The caller sees the server, and rates count.
fn authorize_unknown(context: &RequestContext) -> Result<Permitted, RequestError> {
    let name = context.request.method_name();
    let server = context.view.servers.values().next();
    let server = server.ok_or_else(|| RequestError::method_not_found(&name))?;
    let held = admit(&context.snapshot, &context.rights, Method::Unknown)?;
    let permitted =
        Permitted::new(Arc::clone(server), Method::Unknown, (&*name).into(), Vec::new());
    Ok(permitted.with_held(held))
}

/// Sizes, in bytes, up to which a URI or the answers to questions are checked in less than 5 ms.
const QUICK_URI: usize = 512;
const QUICK_ANSWERS: usize = 64 * 1024;

/// Returns whether authorization may take so long that it has to run on the CPU pool.
pub(crate) fn is_slow(context: &RequestContext) -> bool {
    let request = &context.request;
    // URIs are matched against templates, and in several forms against policies that deny.
    if bytes_of(request, Key::Uri) > QUICK_URI
        || bytes_of(request, Key::Ref) > QUICK_URI
        || bytes_of(request, Key::InputResponses) > QUICK_ANSWERS
    {
        return true;
    }
    let bytes = bytes_of(request, Key::Arguments);
    if bytes <= ALWAYS_QUICK {
        return false;
    }
    let Some(name) = context.request.param_str(Key::Name) else { return false };
    match context.view.named(context.request.method, &name) {
        Some(seen) => {
            seen.entry.arguments.is_some()
                || context.snapshot.policy.evaluates_slowly(&seen.verdict, bytes)
        }
        None => false,
    }
}

fn bytes_of(request: &Request, key: Key) -> usize {
    request.param(key).unwrap_or(b"").len()
}

/// Returns the error for an unknown name: not found, or not there yet if a server that has never
/// been listed may have it. Names that policy would hide are always reported as not found.
fn unknown_name(context: &RequestContext, kind: TargetKind, name: &str) -> RequestError {
    if let Some(server) = find_server(context, kind, name) {
        server.revive();
        return RequestError::not_there_yet(&**server).of_server(server.slug());
    }
    RequestError::unknown(if kind == TargetKind::Tool { "tool" } else { "prompt" }, name)
}

fn require_string<'a>(request: &'a Request, key: Key) -> Result<Cow<'a, str>, RequestError> {
    let text = request.param_str(key);
    text.ok_or_else(|| RequestError::invalid(format!("`params.{key}` must be a string")))
}

fn authorize_tool(context: &RequestContext) -> Result<Permitted, RequestError> {
    let name = require_string(&context.request, Key::Name)?;
    let Some(seen) = context.tool(&name) else {
        return Err(answer_missing(context, unknown_name(context, TargetKind::Tool, &name)));
    };
    let entry = &seen.entry;
    if !context.request.param(Key::Arguments).unwrap_or(b"{}").starts_with(b"{") {
        return Err(RequestError::invalid("`params.arguments` must be an object"));
    }
    let scopes = context.snapshot.authenticator.may_call(
        &context.rights.principal,
        &entry.slug,
        &entry.item.key,
        context.rights.endpoint.resource(),
    );
    if let Err((why, challenge)) = scopes {
        return Err(RequestError::insufficient_scope(why, &challenge).of_server(&entry.slug));
    }
    let task_use = find_use(context, entry)?;
    let judged = evaluate(context, &seen.verdict, &entry.target(TargetKind::Tool))?;
    if let Some(schema) = &entry.arguments {
        check_arguments(context, schema, &judged).map_err(|p| p.of_server(&entry.slug))?;
    }
    let mut permitted =
        permit_round(context, Arc::clone(&entry.server), Arc::clone(&entry.item.key))?;
    permitted.metrics = entry.metrics.clone();
    permitted.listed = Some(Arc::clone(context.view.recorded(entry)));
    permitted.set_task(context.request.param(Key::Task).is_some(), task_use);
    Ok(permitted.with_judgement(judged))
}

// Task support of a legacy server's tool, and its effect on calls with and without a task request.
// Pages: server/tools.mdx, basic/utilities/tasks.mdx (2025-11-25).

/// Decides how a tool call runs.
///
/// # Errors
/// The client requests a task for a tool without task support.
fn find_use(context: &RequestContext, entry: &CatalogEntry) -> Result<TaskUse, RequestError> {
    let asks =
        context.revision == Revision::V2025_11_25 && context.request.param(Key::Task).is_some();
    match (asks, find_support(entry)) {
        (true, Support::Forbidden) => Err(RequestError::new(
            code::METHOD_NOT_FOUND,
            "the tool does not support tasks: call it without `task`",
        )),
        (true, _) => Ok(TaskUse::OfClient),
        (false, Support::Required) if has_extension(context) => Ok(TaskUse::Converted),
        (false, Support::Required) => Ok(TaskUse::OfGateway),
        (false, _) => Ok(TaskUse::None),
    }
}

/// Returns whether the client supports the tasks extension.
fn has_extension(context: &RequestContext) -> bool {
    context.protocol().has_task_extension
        && declares(&context.caller.capabilities, &["extensions", TASKS])
}

#[derive(PartialEq)]
enum Support {
    Forbidden,
    Optional,
    Required,
}

/// Reads the tool's task support, if its server supports legacy tasks.
fn find_support(entry: &CatalogEntry) -> Support {
    if !is_legacy(&*entry.server) || !entry.server.catalog().offers.legacy_tasks {
        return Support::Forbidden;
    }
    let execution = list::member(&entry.item.text, "execution").unwrap_or(b"{}");
    match list::member(execution, "taskSupport") {
        Some(br#""required""#) => Support::Required,
        Some(br#""optional""#) => Support::Optional,
        _ => Support::Forbidden,
    }
}

/// Validates the arguments, after changes by policy, against the tool's schema.
#[cold]
fn check_arguments(
    context: &RequestContext,
    schema: &InputSchema,
    judged: &Judgement,
) -> Result<(), RequestError> {
    let given = context.request.param(Key::Arguments).unwrap_or(b"{}");
    let arguments = judged.passed.arguments.as_deref().unwrap_or(given);
    schema.check(arguments).map_err(|refusal| RequestError::tool_error(refusal.to_string()))
}

fn authorize_prompt(context: &RequestContext) -> Result<Permitted, RequestError> {
    let name = require_string(&context.request, Key::Name)?;
    let Some(seen) = context.prompt(&name) else {
        return Err(answer_missing(context, unknown_name(context, TargetKind::Prompt, &name)));
    };
    let judged = evaluate(context, &seen.verdict, &seen.entry.target(TargetKind::Prompt))?;
    let entry = &seen.entry;
    let mut permitted =
        permit_round(context, Arc::clone(&entry.server), Arc::clone(&entry.item.key))?;
    permitted.listed = Some(Arc::clone(context.view.recorded(entry)));
    Ok(permitted.with_judgement(judged))
}

/// Authorizes a read of a URI. `skills/get` and `resources/directory/read` are authorized as such.
fn authorize_resource(context: &RequestContext) -> Result<Permitted, RequestError> {
    let uri = require_string(&context.request, Key::Uri)?;
    let method = context.request.method;
    let of_skill = matches!(method, Method::SkillsGet | Method::DirectoryRead);
    let mut found = context.view.resource(&uri, TargetKind::Resource);
    if of_skill {
        found = found.filter(|found| skills::is_offered(method, &found.server.catalog().offers));
    }
    let Some(found) = found else {
        let unknown = RequestError::unknown_resource(&uri, context.missing_resource());
        return Err(answer_missing(context, unknown));
    };
    let judged = evaluate(context, &found.verdict, &found.target(TargetKind::Resource))?;
    if !of_skill {
        return Ok(permit_round(context, found.server, found.own.into())?.with_judgement(judged));
    }
    let cursor = skills::open_cursor(context, &uri)?;
    let replaced = Vec::from_iter(cursor.map(|own| (Key::Cursor, Some(own))));
    let permitted = Permitted::new(found.server, method, found.own.into(), replaced);
    Ok(permitted.with_judgement(judged))
}

/// Permits a request, which may continue an earlier call.
fn permit_round(
    context: &RequestContext,
    server: Arc<dyn Upstream>,
    target: Arc<str>,
) -> Result<Permitted, RequestError> {
    let method = context.request.method;
    if !context.is_next_round() {
        return Ok(Permitted::new(server, method, target, Vec::new()));
    }
    if method == Method::ToolsCall
        && let Some(answer) = read_answer(context, &*server, &target)?
    {
        let replaced = vec![(Key::RequestState, None), (Key::InputResponses, None)];
        let mut permitted = Permitted::new(server, method, target, replaced);
        permitted.set_answer(answer);
        return Ok(permitted);
    }
    let round = tokens::next_round(context, &*server, &target)?;
    let mut permitted = Permitted::new(server, method, target, round.replaced.into());
    if let Resumption::Parked(handle, _) = round.resumption {
        permitted.parked = Some(Box::new(Parked { handle, answers: round.answers }));
    }
    Ok(permitted)
}

/// Authorizes a task request by the token that the gateway made of server and task id. A token of
/// another caller is reported as an unknown task.
fn authorize_task(context: &RequestContext) -> Result<Permitted, RequestError> {
    let token = require_string(&context.request, Key::TaskId)?;
    let Some(task) = find_task(context, &token) else {
        return Err(answer_missing(context, RequestError::unknown_task()));
    };
    let held = admit(&context.snapshot, &context.rights, context.request.method)?;
    let method = context.request.method;
    let mut replaced = Vec::new();
    if let Some(responses) = context.request.param(Key::InputResponses) {
        replaced.push((
            Key::InputResponses,
            Some(tokens::take_answers(context, responses, answers::take_unremembered)?),
        ));
    }
    let mut permitted = Permitted::new(task.server, method, task.own.into(), replaced);
    permitted.response = task.response;
    Ok(permitted.with_held(held))
}

/// A task of a tool that the caller may still use.
pub(crate) struct Task {
    pub(crate) server: Arc<dyn Upstream>,
    /// The server's own id.
    pub(crate) own: String,
    response: Option<Arc<Response>>,
}

/// Finds the task behind a token issued to this caller at this endpoint, unless policy now hides
/// its tool.
pub(crate) fn find_task(context: &RequestContext, token: &str) -> Option<Task> {
    let plain =
        context.snapshot.sealer.open(Purpose::Task, &context.bind(), date::now(), token).ok()?;
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

/// Checks that the client has declared the tasks extension.
pub(crate) fn require_tasks(context: &RequestContext) -> Result<(), RequestError> {
    if declares(&context.caller.capabilities, &["extensions", TASKS]) {
        return Ok(());
    }
    let needed = serde_json::json!({"requiredCapabilities": {"extensions": {TASKS: {}}}});
    Err(RequestError::new(code::MISSING_CAPABILITY, "the request needs the tasks extension")
        .status(StatusCode::BAD_REQUEST)
        .data(needed))
}

fn authorize_completion(context: &RequestContext) -> Result<Permitted, RequestError> {
    let Some(reference) = read_reference(&context.request) else {
        return Err(RequestError::invalid(
            "`params.ref` must be a ref/prompt with `name` or a ref/resource with `uri`",
        ));
    };
    let name = &*reference.name;
    let found;
    let (what, item) = if reference.is_prompt {
        let seen = context.prompt(name).map(|seen| &seen.entry);
        let kind = TargetKind::PromptCompletion;
        ("prompt", seen.map(|entry| (&entry.server, entry.target(kind))))
    } else {
        // Only listed resources that the caller may read. Others are refused without asking the
        // server, since its errors would distinguish hidden from missing resources.
        found = context.view.resource(name, TargetKind::Resource);
        let listed = found.as_ref().filter(|_| context.view.lists(name));
        let kind = TargetKind::ResourceCompletion;
        ("resource", listed.map(|found| (&found.server, found.target(kind))))
    };
    let judged =
        item.and_then(|(server, target)| Some((server, find_verdict(context, &target)?, target)));
    let Some((server, verdict, target)) = judged else {
        return Err(answer_missing(context, RequestError::unknown(what, name)));
    };
    let judged = evaluate(context, &verdict, &target)?;
    let own_name = write::quoted(target.own);
    let own_reference = list::with_member(reference.raw, reference.key(), &own_name);
    // Cannot fail, because the reference has been scanned.
    let own_reference = own_reference.unwrap_or_else(|| b"{}".to_vec());
    let replaced = vec![(Key::Ref, Some(own_reference))];
    let own = target.own.into();
    Ok(Permitted::new(Arc::clone(server), Method::Complete, own, replaced).with_judgement(judged))
}

// Unknown names while a server has never been listed: the name may be that server's, as far as
// policy would show it. Calls are never routed by such a name.

/// Finds a server in the caller's view that is not ready yet and may have the name.
fn find_server<'a>(
    context: &'a RequestContext,
    kind: TargetKind,
    name: &str,
) -> Option<&'a Arc<dyn Upstream>> {
    for (slug, server) in &context.view.servers {
        let is_known = server.catalog().version > 0;
        if is_known
            || matches!(server.status().state, UpstreamState::Connected | UpstreamState::Disabled)
        {
            continue;
        }
        let own = if context.view.namespaced { own_name(context, slug, name) } else { Some(name) };
        let Some(own) = own else { continue };
        let category = category(&**server);
        let target = unlisted_target(kind, &**server, (name, own), category.as_deref());
        if find_verdict(context, &target).is_some() {
            return Some(server);
        }
    }
    None
}

/// Strips the server's namespace from an exposed name.
fn own_name<'a>(context: &RequestContext, slug: &Slug, name: &'a str) -> Option<&'a str> {
    let rest = name.strip_prefix(slug.as_str())?;
    let separators = [context.snapshot.naming.separator.as_str(), "__", "/"];
    let own = separators.into_iter().find_map(|separator| rest.strip_prefix(separator))?;
    if own.is_empty() { None } else { Some(own) }
}

/// Returns the verdict on an item that is not in the view, or `None` if policy hides it.
fn find_verdict(context: &RequestContext, target: &Target<'_>) -> Option<Verdict> {
    let subject = context.rights.subject();
    let verdict = context
        .snapshot
        .policy
        .verdict(&context.rights.class, &context.rights.question(&subject, target));
    if verdict.is_visible() { Some(verdict) } else { None }
}
