//! Calls of the management tools: `call_tool` becomes the call that it contains before any other
//! step, so that every rule applies as to a direct call; the others are answered from the view.
//! Likewise, calls of grouped tools become calls of the selected server's tool.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use lockgate_protocol::jsonrpc::{self, Message, Request, SentBy};
use lockgate_protocol::key::Key;
use lockgate_protocol::list::{self, Shown};
use lockgate_protocol::method::Method;
use lockgate_protocol::scan::{self, Keys, Scanner};
use lockgate_protocol::write::{self, Object};
use lockgate_search::{Query, Vector};
use lockgate_text::json;
use lockgate_upstream::ListKind;
use serde_json::{Map, Value, json};

use crate::catalog::tool_index::{FOUND, MAX_DESCRIBED, MAX_FOUND, first_sentence};
use crate::catalog::{CatalogEntry, Groups, Similar};
use crate::config::{CALL, DESCRIBE, FIND, is_management};
use crate::context::RequestContext;
use crate::gateway::Gateway;
use crate::rescue::{RequestError, write_result};
use crate::transport::Text;

const FIND_ARGUMENTS: [&str; 3] = ["query", "server", "limit"];
/// Bytes of the arguments of `find_tools` and `describe_tools`.
const MAX_ARGUMENTS: usize = 64 * 1024;
/// Bytes of the definitions in a result of `describe_tools`.
const MAX_DEFINITIONS: usize = 512 * 1024;

/// A management tool that the gateway answers itself.
#[derive(Clone, Copy)]
pub(crate) enum Lookup {
    Find,
    Describe,
}

/// Turns a call of `call_tool` into the call that it contains, and the call of a group into that of
/// a server's tool.
pub fn unwrap_call(context: &mut RequestContext) -> Result<(), RequestError> {
    unwrap_management(context)?;
    let view = Arc::clone(&context.view);
    view.groups.as_ref().map_or(Ok(()), |groups| select_server(context, groups))
}

fn unwrap_management(context: &mut RequestContext) -> Result<(), RequestError> {
    let is_call = context.request.method == Method::ToolsCall;
    if !is_call || context.request.param_str(Key::Name).as_deref() != Some(CALL) {
        return Ok(());
    }
    if context.search().is_none() {
        return Ok(());
    }
    if let Err(mistake) = context.request.unwrap_call() {
        return Err(RequestError::tool_error(format!("{CALL}: {mistake}")));
    }
    let name = context.request.param_str(Key::Name).unwrap_or_default();
    if is_management(&name) {
        let words = format!("{CALL} calls tools of servers. Call {name} directly");
        return Err(RequestError::tool_error(words));
    }
    match context.search() {
        Some(search) if search.is_for_hosts(&name) => Err(RequestError::unknown("tool", &name)),
        _ => Ok(()),
    }
}

/// Returns the management tool that a request calls, if the gateway answers it.
pub(crate) fn find_lookup(context: &RequestContext) -> Option<Lookup> {
    if context.request.method != Method::ToolsCall {
        return None;
    }
    let lookup = match &*context.request.param_str(Key::Name)? {
        FIND => Lookup::Find,
        DESCRIBE => Lookup::Describe,
        _ => return None,
    };
    context.search().map(|_| lookup)
}

/// Answers a lookup; on the CPU pool if an index has to be built, or many vectors compared.
pub(crate) async fn answer(
    gateway: &Gateway,
    context: Box<RequestContext>,
    lookup: Lookup,
) -> (Box<RequestContext>, Result<Text, RequestError>) {
    let vector = match lookup {
        Lookup::Find => embed_query(&context).await,
        Lookup::Describe => None,
    };
    let length = vector.as_ref().map_or(0, |vector| vector.len());
    if context.search().is_none_or(|search| search.is_quick(length)) {
        let answer = look_up(&context, lookup, vector.as_deref());
        return (context, answer);
    }
    let turn = match gateway.wait_for_turn(&context.rights.principal).await {
        Ok(turn) => turn,
        Err(problem) => return (context, Err(problem)),
    };
    turn.run(move || {
        let answer = look_up(&context, lookup, vector.as_deref());
        (context, answer)
    })
    .await
}

/// Returns the vector of the query of `find_tools`, if a server of embeddings is configured and
/// answers in time. Also begins to compute missing vectors of tools.
async fn embed_query(context: &RequestContext) -> Option<Vector> {
    let embeddings = context.snapshot.embeddings.as_ref()?;
    let query = {
        let arguments = read_arguments(context, &FIND_ARGUMENTS).ok()?;
        arguments.get("query")?.as_str()?.to_owned()
    };
    Query::parse(&query, &context.snapshot.synonyms).ok()?;
    embeddings.fill(context.search()?);
    embeddings.embed_query(&query).await
}

fn look_up(
    context: &RequestContext,
    lookup: Lookup,
    vector: Option<&[f32]>,
) -> Result<Text, RequestError> {
    let result = match lookup {
        Lookup::Find => find_tools(context, vector).map_err(|mistake| format!("{FIND}: {mistake}")),
        Lookup::Describe => describe(context).map_err(|mistake| format!("{DESCRIBE}: {mistake}")),
    };
    let content = result.map_err(RequestError::tool_error)?;
    let result = json!({"content": [{"type": "text", "text": content}]});
    Ok(Text::Whole(write_result(context.protocol(), context.request.id(), result).into()))
}

fn find_tools(context: &RequestContext, vector: Option<&[f32]>) -> Result<String, String> {
    let arguments = read_arguments(context, &FIND_ARGUMENTS)?;
    let Some(query) = arguments.get("query").and_then(Value::as_str) else {
        return Err("`query` must be a string".into());
    };
    let server = match arguments.get("server") {
        None | Some(Value::Null) => None,
        Some(Value::String(server)) => Some(server),
        Some(_) => return Err("`server` must be a string".into()),
    };
    let limit = match arguments.get("limit") {
        None | Some(Value::Null) => FOUND,
        Some(limit) => match limit.as_u64() {
            Some(limit @ 1..=MAX_FOUND) => limit,
            _ => return Err(format!("`limit` must be a whole number from 1 to {MAX_FOUND}")),
        },
    };
    let synonyms = &context.snapshot.synonyms;
    let query = Query::parse(query, synonyms).map_err(|error| format!("`query`: {error}"))?;
    let Some(search) = context.search() else { return Ok(String::new()) };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let tools = context.view.listed_tools();
    let similar = match (&context.snapshot.embeddings, vector) {
        (Some(embeddings), Some(vector)) => Some(Similar { source: embeddings.source, vector }),
        _ => None,
    };
    let found = search.find(tools, (&query, similar), limit, &|entry| {
        context.sees(entry) && server.is_none_or(|server| context.view.is_of(entry, server))
    });
    let mut lines = String::new();
    for entry in found {
        write_summary(&mut lines, context.view.shown(entry), &entry.item.text);
    }
    if lines.is_empty() {
        lines.push_str("No tool matches. Use other words.");
    }
    Ok(lines)
}

fn describe(context: &RequestContext) -> Result<String, String> {
    let arguments = read_arguments(context, &["names"])?;
    let names = match arguments.get("names") {
        Some(Value::Array(names)) if (1..=MAX_DESCRIBED).contains(&names.len()) => names,
        _ => return Err(format!("`names` must be a list of 1 to {MAX_DESCRIBED} names")),
    };
    let mut definitions = vec![b'['];
    let mut unknown = Vec::new();
    for name in names {
        let Some(name) = name.as_str() else { return Err("a name must be a string".into()) };
        let Some(entry) = find_entry(context, name) else {
            unknown.push(format!("unknown tool: {name:.128}"));
            continue;
        };
        if definitions.len() > 1 {
            definitions.push(b',');
        }
        write_definition(&mut definitions, context, &entry);
        if definitions.len() > MAX_DEFINITIONS {
            let words = "the definitions are too long together; describe fewer tools at once";
            return Err(words.into());
        }
    }
    if unknown.len() == names.len() {
        return Err(unknown.join("\n"));
    }
    definitions.push(b']');
    let mut text = String::from_utf8_lossy(&definitions).into_owned();
    for unknown in unknown {
        text.push('\n');
        text.push_str(&unknown);
    }
    Ok(text)
}

fn find_entry(context: &RequestContext, name: &str) -> Option<Arc<CatalogEntry>> {
    let groups = context.view.groups.as_ref();
    let entry = match groups.and_then(|groups| groups.tool(name)) {
        Some(group) if context.sees(&group.entry) => &group.entry,
        _ => &context.tool(name)?.entry,
    };
    let shown = context.view.shown(entry);
    let is_hidden = context.search().is_none_or(|search| search.is_for_hosts(shown));
    if is_hidden { None } else { Some(Arc::clone(entry)) }
}

/// Writes a tool's definition as a list would show it.
fn write_definition(out: &mut Vec<u8>, context: &RequestContext, entry: &CatalogEntry) {
    let view = &context.view;
    let slug = if view.namespaced { Some(entry.slug.as_str()) } else { None };
    let key = (ListKind::Tools.key(), &**view.shown(entry));
    let shown = Shown { key, slug, revision: context.revision };
    let before = out.len();
    if list::show(out, &entry.item.text, &shown).is_err() {
        // Unreachable: the item was scanned on arrival.
        out.truncate(before);
    }
}

fn read_arguments(
    context: &RequestContext,
    known: &[&str],
) -> Result<Map<String, Value>, Cow<'static, str>> {
    let raw = context.request.param(Key::Arguments).unwrap_or(b"{}");
    if raw.len() > MAX_ARGUMENTS {
        return Err(format!("the arguments are longer than {MAX_ARGUMENTS} bytes").into());
    }
    let Ok(Value::Object(arguments)) = json::from_slice(raw) else {
        return Err("the arguments must be an object".into());
    };
    let unknown = arguments.keys().find(|name| !known.contains(&name.as_str()));
    let unknown = unknown.map(|name| format!("unknown argument {name:.64?}").into());
    unknown.map_or(Ok(arguments), Err)
}

// A tool in a line: name, arguments with their types, and the first sentence of its description.

/// Arguments in a signature; further ones are not shown.
const MAX_SHOWN_ARGUMENTS: usize = 16;
/// Choices of an argument that are shown in place of its type.
const MAX_CHOICES: usize = 6;
/// Bytes of a description.
const MAX_SENTENCE: usize = 160;

/// Appends the line of a tool: `name(query: string, limit?: integer) – Finds things.`
fn write_summary(out: &mut String, name: &str, definition: &[u8]) {
    if !out.is_empty() {
        out.push('\n');
    }
    out.push_str(name);
    let schema = list::member(definition, "inputSchema").unwrap_or(b"{}");
    write_arguments(out, &json::from_slice(schema).unwrap_or(Value::Null));
    let description = list::member(definition, "description").unwrap_or(b"\"\"");
    let description: String = json::from_slice(description).unwrap_or_default();
    let sentence = first_sentence(&description, MAX_SENTENCE);
    if !sentence.is_empty() {
        out.push_str(" – ");
        out.push_str(&sentence);
    }
}

fn write_arguments(out: &mut String, schema: &Value) {
    out.push('(');
    let required = schema["required"].as_array();
    let properties = schema["properties"].as_object();
    for (at, (name, property)) in properties.into_iter().flatten().enumerate() {
        if at > 0 {
            out.push_str(", ");
        }
        if at == MAX_SHOWN_ARGUMENTS {
            out.push('…');
            break;
        }
        out.push_str(name);
        if !required.is_some_and(|required| required.iter().any(|other| other == name)) {
            out.push('?');
        }
        out.push_str(": ");
        out.push_str(&describe_type(property));
    }
    out.push(')');
}

fn describe_type(schema: &Value) -> String {
    if let Some(choices) = schema["enum"].as_array()
        && choices.len() <= MAX_CHOICES
    {
        return choices.iter().map(Value::to_string).collect::<Vec<_>>().join("|");
    }
    match &schema["type"] {
        Value::String(name) if name == "array" => match schema["items"]["type"].as_str() {
            Some(item) => format!("{item}[]"),
            None => "array".into(),
        },
        Value::String(name) => name.clone(),
        Value::Array(names) => {
            let texts = names.iter().map(|name| name.as_str().unwrap_or("any"));
            texts.collect::<Vec<_>>().join("|")
        }
        _ => "any".into(),
    }
}

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

#[cfg(test)]
mod tests;
