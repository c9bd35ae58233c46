//! Rewriting of a server's result for the client: its id, its `_meta`, its URIs. Unchanged
//! parts of large results are neither copied nor parsed into a tree.

pub(crate) mod scrub;
pub(crate) mod splice;

use std::sync::Arc;

use bytes::Bytes;
use lockgate_admission::budget::{Budget, Hold};
use lockgate_policy::response::Response;
use lockgate_protocol::key::Key;
use lockgate_protocol::method::Method;
use lockgate_protocol::revision::Revision;
use lockgate_protocol::scan::{self, Member};
use lockgate_protocol::write::{self, Object};
use lockgate_protocol::{list, question};
use lockgate_text::json;
use lockgate_upstream::{Answer, AnswerKind, ServerId};
use serde_json::{Value, json};
use smallvec::SmallVec;

use splice::{splice, write_cache_hints, write_meta};

use crate::answers::{MAX_QUESTIONS, read_question};
use crate::authorize::{Permitted, TaskUse};
use crate::context::RequestContext;
use crate::rescue::RequestError;
use crate::transport::Text;
use crate::{skills, tokens};

/// Results up to this size are copied into a single buffer.
const MAX_COPIED_BYTES: usize = 16 * 1024;
/// Maximum size of a completion that is parsed into a tree, which takes many times its bytes.
const MAX_TREE: usize = 1 << 20;
/// Values of a completion (specification: at most 100).
const MAX_VALUES: usize = 100;

/// Writes the response. Copies of a large result are reserved in `budget` first.
pub(crate) fn write_response(
    context: &RequestContext,
    permitted: &Permitted,
    answer: &Answer,
    budget: &Arc<Budget>,
) -> Result<Text, RequestError> {
    let text = &answer.text;
    let rule = permitted.response();
    if let Some(rule) = rule
        && let Some(most) = rule.too_large(text.len())
    {
        return Err(too_large(context, text.len(), most));
    }
    let _copies = hold_copies(context, permitted, answer, budget)?;
    if text.len() > MAX_COPIED_BYTES {
        // The response contains this memory.
        return write_text(&mut Vec::new(), context, permitted, answer);
    }
    write::with_buffer(|head| write_text(head, context, permitted, answer))
}

fn write_text(
    head: &mut Vec<u8>,
    context: &RequestContext,
    permitted: &Permitted,
    answer: &Answer,
) -> Result<Text, RequestError> {
    let text = &answer.text;
    let rule = permitted.response();
    head.reserve(512 + if text.len() <= MAX_COPIED_BYTES { text.len() } else { 0 });
    write::result_head(head, context.request.id());
    let mut object = Object::open(head);
    if context.protocol().describes_results {
        describe_result(&mut object, context, answer);
    }
    meta(&mut object, context, answer, rule);
    let Members { kept, mut changed, requests } = rewrite_members(context, permitted, answer)?;
    if is_tool_result(permitted, answer)
        && let Some(content) = missing_content(answer, rule.is_some())
    {
        changed.push((b"content".as_slice(), content));
    }
    if answer.kind == AnswerKind::InputRequired {
        let server = &**permitted.server();
        let target = permitted.target();
        let inner = answer.member(Key::RequestState);
        let resumption = &permitted.resumption;
        let sealed = tokens::seal(context, server, target, inner, requests.as_deref(), resumption);
        object.string("requestState", &sealed.map_err(|what| permitted.broken(what))?);
    }
    if text.len() > MAX_COPIED_BYTES {
        return Ok(match splice(std::mem::take(head), text, answer, &kept, changed) {
            Text::Shared(parts) if is_builtin(permitted) => Text::Spliced(parts),
            text => text,
        });
    }
    for (key, value) in &changed {
        object.copy(key, value);
    }
    for member in kept {
        object.copy(member.key.of(text), member.value.of(text));
    }
    object.close();
    head.push(b'}');
    Ok(Text::Whole(Bytes::copy_from_slice(head)))
}

struct Members<'a> {
    kept: SmallVec<[&'a Member; 8]>,
    /// Members with new values, by key.
    changed: Vec<(&'a [u8], Vec<u8>)>,
    /// The server's questions, if any.
    requests: Option<Vec<u8>>,
}

fn rewrite_members<'a>(
    context: &RequestContext,
    permitted: &Permitted,
    answer: &'a Answer,
) -> Result<Members<'a>, RequestError> {
    let text = &answer.text;
    let rule = permitted.response();
    let slug = if context.view.namespaced { Some(permitted.server().slug()) } else { None };
    let mut members = Members { kept: SmallVec::new(), changed: Vec::new(), requests: None };
    for member in answer.members() {
        let own = member.value.of(text);
        let clean = rule.and_then(|rule| scrub::member(rule, answer.kind, &member.name(text), own));
        let value = clean.as_deref().unwrap_or(own);
        let change = rewrite(context, permitted, answer, member.known, value, slug)?;
        if member.known == Key::InputRequests {
            members.requests = Some(value.to_vec());
        }
        match (change, clean) {
            (Change::Drop, _) => {}
            (Change::Keep, None) => members.kept.push(member),
            (Change::To(value), _) | (Change::Keep, Some(value)) => {
                members.changed.push((member.key.of(text), value));
            }
        }
    }
    Ok(members)
}

/// Returns whether the server is built in. Responses of built-in servers do not arrive over a
/// connection, so they are not counted in the budget.
fn is_builtin(permitted: &Permitted) -> bool {
    permitted.server().stats().is_none()
}

/// Reserves memory for the copies made while a large response is rewritten, and for the response
/// itself if it is not counted yet.
fn hold_copies(
    context: &RequestContext,
    permitted: &Permitted,
    answer: &Answer,
    budget: &Arc<Budget>,
) -> Result<Option<Hold>, RequestError> {
    if answer.text.len() <= MAX_COPIED_BYTES {
        return Ok(None);
    }
    let uncounted = if is_builtin(permitted) { answer.text.len() } else { 0 };
    let mut copies = Hold::none(Arc::clone(budget));
    let bytes = bytes_of_copies(context, answer, permitted.response()) + uncounted;
    if copies.admit(bytes).is_err() { Err(RequestError::no_memory()) } else { Ok(Some(copies)) }
}

/// Returns the size of the temporary copies made while a large response is rewritten.
fn bytes_of_copies(context: &RequestContext, answer: &Answer, rule: Option<&Response>) -> usize {
    let text = &answer.text;
    if rule.is_some() {
        return text.len() * 2;
    }
    let mut bytes = 0;
    for member in answer.members() {
        let value = member.value.of(text);
        let is_content =
            matches!(member.known, Key::Content | Key::Contents | Key::Messages | Key::Result);
        if is_content && list::may_adapt(value, context.view.namespaced, context.revision) {
            bytes += value.len();
        }
    }
    bytes
}

/// Writes the type of the result, and its cache hints.
fn describe_result(object: &mut Object<'_>, context: &RequestContext, answer: &Answer) {
    let kind: &[u8] = match answer.kind {
        AnswerKind::InputRequired => b"\"input_required\"",
        AnswerKind::Task => b"\"task\"",
        AnswerKind::Complete | AnswerKind::Error => b"\"complete\"",
    };
    object.raw("resultType", kind);
    let is_cached = matches!(
        context.request.method,
        Method::ResourcesRead | Method::SkillsGet | Method::DirectoryRead
    );
    if is_cached && answer.kind == AnswerKind::Complete {
        write_cache_hints(object, answer.member(Key::TtlMs));
    }
}

fn meta(
    object: &mut Object<'_>,
    context: &RequestContext,
    answer: &Answer,
    rule: Option<&Response>,
) {
    let own = answer.member(Key::Meta);
    let clean = match (rule, own) {
        (Some(rule), Some(own)) => scrub::form::texts(rule, "_meta", own),
        _ => None,
    };
    let task = related_task(context);
    let info = context.info().map(|info| &**info);
    write_meta(object, clean.as_deref().or(own), info, task.as_deref());
}

enum Change {
    Keep,
    Drop,
    To(Vec<u8>),
}

fn rewrite(
    context: &RequestContext,
    permitted: &Permitted,
    answer: &Answer,
    key: Key,
    value: &[u8],
    slug: Option<&str>,
) -> Result<Change, RequestError> {
    Ok(match key {
        Key::ResultType | Key::Meta => Change::Drop,
        Key::TtlMs if answer.kind == AnswerKind::Task || is_task(permitted.method()) => {
            Change::Keep
        }
        Key::TtlMs | Key::CacheScope => Change::Drop,
        Key::Content | Key::Contents | Key::Messages | Key::Result => {
            if key == Key::Contents {
                skills::check_file(context, permitted, value)?;
            }
            list::adapt_content(value, slug, context.revision).map_or(Change::Keep, Change::To)
        }
        Key::StructuredContent if !takes_structured(context.revision, value) => Change::Drop,
        Key::TaskId if answer.kind == AnswerKind::Task => {
            let own = scan::as_str(value);
            let own = own.as_deref().unwrap_or("");
            let Some(token) = tokens::seal_task(context, &**permitted.server(), own) else {
                return Err(permitted.broken("sent a task id that is too long"));
            };
            Change::To(write::quoted(&token))
        }
        Key::TaskId if is_task(permitted.method()) => {
            let token = context.request.param_str(Key::TaskId);
            Change::To(write::quoted(token.as_deref().unwrap_or("")))
        }
        Key::Task if permitted.task_use == TaskUse::OfClient => {
            let task = write_task(context, permitted, value);
            Change::To(task.map_err(|what| permitted.broken(what))?)
        }
        // Replaced by our own state, even if the server sent none.
        Key::RequestState if answer.kind == AnswerKind::InputRequired => Change::Drop,
        Key::InputRequests => questions(context, permitted, value, slug)?,
        Key::Completion => completion(value),
        Key::Skill if permitted.method() == Method::SkillsGet => {
            Change::To(skills::rewrite_skill(context, permitted, value)?)
        }
        Key::Resources if permitted.method() == Method::DirectoryRead => {
            Change::To(skills::rewrite_children(context, permitted, value)?)
        }
        Key::NextCursor if permitted.method() == Method::DirectoryRead => {
            Change::To(skills::seal_cursor(context, value)?)
        }
        _ => Change::Keep,
    })
}

fn is_tool_result(permitted: &Permitted, answer: &Answer) -> bool {
    matches!(permitted.method(), Method::ToolsCall | Method::TasksResult)
        && answer.kind == AnswerKind::Complete
}

/// Returns a `content` member for a tool result that has none, because clients of every revision
/// require it. It contains the structured content as text, unless a policy rule applies to the
/// result.
pub(crate) fn missing_content(answer: &Answer, has_rule: bool) -> Option<Vec<u8>> {
    if answer.member(Key::Content).is_some() || answer.member(Key::Task).is_some() {
        return None;
    }
    let mut content = b"[".to_vec();
    if let Some(structured) = answer.member(Key::StructuredContent)
        && let Ok(text) = std::str::from_utf8(structured)
        && !has_rule
        && text.len() <= MAX_COPIED_BYTES
    {
        let mut block = Object::open(&mut content);
        block.string("type", "text");
        block.string("text", text);
        block.close();
    }
    content.push(b']');
    Some(content)
}

/// Returns the error for a result that exceeds the policy's size limit: for tools, a result that
/// the model can act on.
fn too_large(context: &RequestContext, bytes: usize, most: u64) -> RequestError {
    let words = format!(
        "the result has {bytes} bytes, and policy allows {most}; request less, such as a part of it"
    );
    match context.request.method {
        Method::ToolsCall => RequestError::tool_error(words),
        _ => RequestError::new(lockgate_protocol::code::INTERNAL, words),
    }
}

fn is_task(method: Method) -> bool {
    matches!(method, Method::TasksGet | Method::TasksUpdate | Method::TasksCancel)
}

/// Returns whether a revision accepts this structured content: objects since 2025-06-18, any value
/// since 2026-07-28.
fn takes_structured(revision: Revision, value: &[u8]) -> bool {
    revision >= Revision::V2026_07_28
        || revision >= Revision::V2025_06_18 && value.starts_with(b"{")
}

/// Checks that the client declared support for each question, and labels the questions with the
/// server.
fn questions(
    context: &RequestContext,
    permitted: &Permitted,
    value: &[u8],
    slug: Option<&str>,
) -> Result<Change, RequestError> {
    let Ok(Value::Object(mut all)) = json::from_slice::<Value>(value) else {
        return Err(permitted.broken("sent questions that are not an object"));
    };
    if all.len() > MAX_QUESTIONS {
        return Err(permitted.broken("sent too many questions"));
    }
    let mut changed = false;
    for question in all.values_mut() {
        let (method, params) = read_question(question);
        if !question::may_ask(
            &context.caller.capabilities,
            method,
            params.as_bytes(),
            context.revision,
        ) {
            return Err(permitted.broken(
                "sent a question, but the client did not declare the capability to answer it",
            ));
        }
        if method == Method::Elicit && slug.is_some() {
            let labelled = question::label(slug, method, params.as_bytes());
            if let (Some(params), Ok(new)) =
                (question.get_mut("params"), json::from_slice(&labelled))
            {
                *params = new;
                changed = true;
            }
        }
    }
    Ok(if changed { Change::To(Value::Object(all).to_string().into_bytes()) } else { Change::Keep })
}

/// Truncates a completion to 100 values, as the specification requires.
fn completion(value: &[u8]) -> Change {
    if value.len() > MAX_TREE {
        return Change::To(b"{\"values\":[]}".to_vec());
    }
    let Ok(mut whole) = json::from_slice::<Value>(value) else { return Change::Keep };
    match whole.get_mut("values") {
        Some(Value::Array(values)) if values.len() > MAX_VALUES => values.truncate(MAX_VALUES),
        _ => return Change::Keep,
    }
    whole["hasMore"] = true.into();
    Change::To(whole.to_string().into_bytes())
}

/// Writes the task that a call created.
///
/// # Errors
/// A description of an invalid task.
fn write_task(
    context: &RequestContext,
    permitted: &Permitted,
    value: &[u8],
) -> Result<Vec<u8>, &'static str> {
    let mut task = json::from_slice(value).unwrap_or(Value::Null);
    let Some(own) = task["taskId"].as_str() else { return Err("sent a task without an id") };
    let server = &**permitted.server();
    let token = tokens::seal_task(context, server, own).ok_or("sent a task id that is too long")?;
    if let Some(session) = &context.session {
        session.remember_task(&token, ServerId::of(server), own);
    }
    task["taskId"] = token.into();
    Ok(task.to_string().into_bytes())
}

/// Returns the `related-task` value for a request for a task's result.
fn related_task(context: &RequestContext) -> Option<String> {
    let request = &context.request;
    if request.method != Method::TasksResult {
        return None;
    }
    let id = request.param_str(Key::TaskId)?;
    Some(json!({"taskId": id}).to_string())
}
