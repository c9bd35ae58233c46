//! Authorization of completion requests. Hidden prompts and resources are reported as unknown.

use std::borrow::Cow;
use std::sync::Arc;

use lockgate_policy::TargetKind;
use lockgate_protocol::method::Method;
use lockgate_protocol::{scan, write};
use lockgate_upstream::Upstream;

use super::evaluate::{answer_missing, evaluate};
use super::missing::find_verdict;
use super::permitted::{Judgement, Permitted};
use crate::context::RequestContext;
use crate::rescue::RequestError;

pub(super) fn authorize_completion(context: &RequestContext) -> Result<Permitted, RequestError> {
    let Some(Reference { raw: reference, members, key, name }) = read_reference(context) else {
        return Err(RequestError::invalid(
            "`params.ref` must be a ref/prompt with `name` or a ref/resource with `uri`",
        ));
    };
    let Completed { server, own, judged } = match key {
        "name" => authorize_prompt_values(context, &name)?,
        _ => authorize_resource_values(context, &name)?,
    };
    let mut own_reference = Vec::with_capacity(reference.len());
    let mut object = write::Object::open(&mut own_reference);
    for m in &members {
        if m.is(reference, key) {
            object.string(key, &own)
        } else {
            object.copy(m.key.of(reference), m.value.of(reference))
        }
    }
    object.close();
    let replaced = vec![("ref", Some(own_reference))];
    Ok(Permitted::new(server, Method::Complete, own.into(), replaced).with_judgement(judged))
}

/// The prompt or resource in `params.ref`.
struct Reference<'a> {
    raw: &'a [u8],
    members: scan::Members,
    /// The member that holds the name or URI.
    key: &'static str,
    name: Cow<'a, str>,
}

fn read_reference(context: &RequestContext) -> Option<Reference<'_>> {
    let raw = context.request.param("ref")?;
    let mut scanner = scan::Scanner::new(raw, scan::MAX_DEPTH).ok()?;
    let (_, members) = scanner.members(scan::Keys::Strict).ok()?;
    let key = match &*scan::find_str(&members, raw, "type")? {
        "ref/prompt" => "name",
        "ref/resource" => "uri",
        _ => return None,
    };
    let name = scan::find_str(&members, raw, key)?;
    Some(Reference { raw, members, key, name })
}

struct Completed {
    server: Arc<dyn Upstream>,
    /// The server's own name or URI.
    own: String,
    judged: Judgement,
}

fn authorize_prompt_values(
    context: &RequestContext,
    name: &str,
) -> Result<Completed, RequestError> {
    let Some(seen) = context.prompt(name) else {
        return Err(answer_missing(context, RequestError::unknown("prompt", name)));
    };
    let target = seen.entry.target(TargetKind::PromptCompletion);
    let Some(verdict) = find_verdict(context, &target) else {
        return Err(answer_missing(context, RequestError::unknown("prompt", name)));
    };
    let judged = evaluate(context, &verdict, &target)?;
    let own = seen.entry.item.key.to_string();
    Ok(Completed { server: Arc::clone(&seen.entry.server), own, judged })
}

/// Authorizes completion for a listed resource that the caller may read. Others are refused without
/// asking the server, since its errors would distinguish hidden from missing resources.
fn authorize_resource_values(
    context: &RequestContext,
    uri: &str,
) -> Result<Completed, RequestError> {
    let found = match context.view.resource(uri, TargetKind::Resource) {
        Some(found) if context.view.lists(uri) => found,
        _ => return Err(answer_missing(context, RequestError::unknown("resource", uri))),
    };
    let target = found.target(TargetKind::ResourceCompletion);
    let Some(verdict) = find_verdict(context, &target) else {
        return Err(answer_missing(context, RequestError::unknown("resource", uri)));
    };
    let judged = evaluate(context, &verdict, &target)?;
    let own = found.own.clone();
    Ok(Completed { server: Arc::clone(&found.server), own, judged })
}
