//! Calls of grouped tools become calls of the selected server's tool, before any other step, so
//! that every rule and record refers to that tool.

use bytes::Bytes;
use lockgate_protocol::jsonrpc::{self, Message, Request, SentBy};
use lockgate_protocol::key::Key;
use lockgate_protocol::method::Method;
use lockgate_protocol::scan::{self, Keys, Scanner};
use lockgate_protocol::write::{self, Object};

use crate::catalog::Groups;
use crate::context::RequestContext;
use crate::items::CALL;
use crate::rescue::RequestError;

/// Turns a call of a grouped tool into the call of a server's tool.
pub(crate) fn select_server(
    context: &mut RequestContext,
    groups: &Groups,
) -> Result<(), RequestError> {
    if context.request.method != Method::ToolsCall {
        return Ok(());
    }
    let name = context.request.param_str(Key::Name).unwrap_or_default();
    let Some(group) = groups.tool(&name) else { return Ok(()) };
    if !context.sees(&group.entry) {
        return Err(RequestError::unknown("tool", &name));
    }
    let arguments = context.request.param(Key::Arguments).unwrap_or(b"{}");
    let members = Scanner::new(arguments, context.snapshot.config.limits.depth)
        .and_then(|mut scanner| scanner.members(Keys::Strict));
    let Ok((_, members)) = members else {
        return Err(RequestError::invalid("`params.arguments` must be an object"));
    };
    let selected = scan::find_str(&members, arguments, &group.argument);
    let Some(own) = selected.and_then(|slug| group.members.get(&*slug)) else {
        let servers: Vec<&str> = group.members.keys().map(|slug| slug.as_str()).collect();
        let words = format!("`{}` must be one of {}", group.argument, servers.join(", "));
        return Err(RequestError::tool_error(words));
    };
    let mut rest = Vec::with_capacity(arguments.len());
    let mut object = Object::open(&mut rest);
    for member in &members {
        if !member.is(arguments, &group.argument) {
            object.copy(member.key.of(arguments), member.value.of(arguments));
        }
    }
    object.close();
    let text = rewrite(&context.request, &write::quoted(own), &rest);
    let depth = context.snapshot.config.limits.depth;
    // Unreachable errors: only valid parts were replaced.
    let Ok(Message::Request(mut request)) = jsonrpc::parse(text, depth, SentBy::Client) else {
        return Err(RequestError::invalid("`params` cannot be read"));
    };
    if request.param_str(Key::Name).as_deref() == Some(CALL) {
        request.unwrap_call().map_err(RequestError::invalid)?;
    }
    context.request = request;
    Ok(())
}

/// Returns a request's text with another name and other arguments.
fn rewrite(request: &Request, name: &[u8], arguments: &[u8]) -> Bytes {
    let text = &request.text;
    let mut out = Vec::with_capacity(text.len() + name.len());
    let mut at = 0;
    let mut parts = Vec::with_capacity(2);
    for member in request.params() {
        match member.known {
            Key::Name => parts.push((member.value.range(), name)),
            Key::Arguments => parts.push((member.value.range(), arguments)),
            _ => {}
        }
    }
    // Those of an unwrapped call may stand in another order.
    parts.sort_by_key(|(span, _)| span.start);
    for (span, new) in parts {
        out.extend_from_slice(&text[at..span.start]);
        out.extend_from_slice(new);
        at = span.end;
    }
    out.extend_from_slice(&text[at..]);
    out.into()
}
