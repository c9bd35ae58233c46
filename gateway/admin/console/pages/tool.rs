//! A tool, prompt or resource, with a form to call it. The call is processed like any other, with
//! the visitor as caller. The outcome is stored and shown after a redirect.

use std::sync::Arc;
use std::time::Instant;

use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::IntoResponse;
use lockgate_admission::reader::Reader;
use lockgate_protocol::uri;
use lockgate_text::json;
use lockgate_text::unseen::is_unseen;
use lockgate_upstream::ListKind;
use serde_json::Map;

use super::*;
use crate::api::access::User;
use crate::api::call::{CallOrigin, call_method};
use crate::api::tools::{
    self, Prompt, Resource, Tool, execute_tool, find_offer, list_prompts, list_resources,
};
use crate::console::render::PageAccount;
use crate::console::results::{CallOutcome, CallPart, KeptCall};
use crate::console::tool_form::{FormField, make_fields, note_mistake, read_arguments};

lockgate_text::words! {
    /// The kinds of targets of a call, by the segment of their pages.
    pub(crate) enum Callable {
        Tool = "tools",
        Prompt = "prompts",
        Resource = "resources",
    }
}

/// A target with the schema of its arguments.
#[derive(Clone, Debug)]
struct Target {
    kind: Callable,
    /// The URI of a resource.
    name: String,
    server: String,
    title: Option<String>,
    description: Option<String>,
    input_schema: Value,
}

#[derive(Template)]
#[template(path = "tool.html")]
struct ToolPage<'a> {
    visit: &'a Visit,
    tool: &'a Target,
    fields: Vec<FormField<'a>>,
    /// The arguments entered as JSON, and the mistake in them.
    json: String,
    json_mistake: String,
    /// The last call and the name of its stored result.
    call: Option<(Arc<KeptCall>, String)>,
    /// The arguments of the last call.
    arguments: Option<Value>,
}

impl Callable {
    fn verb(self) -> &'static str {
        match self {
            Self::Tool => "Call",
            Self::Prompt => "Render",
            Self::Resource => "Read",
        }
    }
}

impl<'a> ToolPage<'a> {
    fn new(visit: &'a Visit, tool: &'a Target, typed: &'a Fields) -> Self {
        Self {
            fields: make_fields(&tool.input_schema, typed),
            json: typed.get("json").to_owned(),
            json_mistake: String::new(),
            call: None,
            arguments: None,
            visit,
            tool,
        }
    }

    /// Returns the entered arguments; `None` if there is a mistake, which the page then shows.
    fn read_arguments(&mut self) -> Option<Value> {
        if self.json.is_empty() {
            return read_arguments(&mut self.fields);
        }
        self.json_mistake = match json::from_str(&self.json) {
            Ok(Value::Object(members)) => return Some(Value::Object(members)),
            Ok(_) => "This must be a JSON object.".to_owned(),
            Err(error) => format!("This must be JSON: {error}."),
        };
        None
    }

    fn has_mistake(&self) -> bool {
        !self.json_mistake.is_empty() || self.fields.iter().any(FormField::has_mistake)
    }

    /// Returns the name of the call that runs.
    fn running(&self) -> Option<&str> {
        let (call, id) = self.call.as_ref()?;
        call.outcome().is_none().then_some(id)
    }

    /// Returns whether a call of the visitor waits for approval.
    fn is_pending(&self) -> bool {
        self.visit.me.pending.contains(&self.tool.name)
    }

    /// Returns the page that explains a denial, which operators may open, for tools.
    fn explanation(&self) -> Option<String> {
        let is_explained = self.visit.is_operator() && self.tool.kind == Callable::Tool;
        let arguments = self.arguments.as_ref().filter(|_| is_explained)?.to_string();
        let path = PagePath::new(&["access"]).with("call", &self.tool.name);
        Some(path.with("arguments", &arguments).into_text())
    }

    fn running_text(&self) -> &'static str {
        if self.is_pending() { "Waiting for approval" } else { "Running" }
    }
}

/// Shows a tool, a prompt or a resource, with its last call.
pub(crate) async fn show_callable(visit: Visit, Path(name): Path<String>) -> PageResult {
    let tool = load(&visit, &name).await?;
    let id = visit.query.get("call");
    let kept = match visit.find_kept(id) {
        Some(Kept::Call(call)) if call.name == name => Some((call, id.to_owned())),
        _ => None,
    };
    let blank = Fields::default();
    let typed = kept.as_ref().map_or(&blank, |(call, _)| &call.typed);
    let mut page = ToolPage::new(&visit, &tool, typed);
    if kept.is_some() {
        page.arguments = ToolPage::new(&visit, &tool, typed).read_arguments();
    }
    page.call.clone_from(&kept);
    show(&page)
}

/// Calls a tool, renders a prompt or reads a resource.
pub(crate) async fn call(visit: Visit, Path(name): Path<String>) -> PageResult {
    let typed = &visit.form;
    let tool = load(&visit, &name).await?;
    let kind = tool.kind;
    let mut page = ToolPage::new(&visit, &tool, typed);
    if typed.has("add") || typed.has("remove") {
        return show(&page);
    }
    if typed.has("cancel") {
        let id = typed.get("cancel");
        if let Some(Kept::Call(call)) = visit.find_kept(id) {
            call.cancel();
        }
        return redirect_to_call(kind, &name, id);
    }
    if let Some(arguments) = page.read_arguments() {
        let by = visit.by()?;
        let headers = visit.headers.clone();
        let tool = tool.clone();
        let (call, id) = visit.start_call((&name, typed.clone()), |messages| async move {
            let began = Instant::now();
            let origin = CallOrigin { headers, messages: Some(messages) };
            let mut made = make_call(by, origin, &tool, &arguments).await;
            made.milliseconds = began.elapsed().as_millis();
            made
        })?;
        call.wait_briefly().await;
        let fault = call.outcome().and_then(|outcome| outcome.fault.as_ref());
        let cause = fault.filter(|fault| fault.stage == "schema");
        if !cause.is_some_and(|fault| note_mistake(&mut page.fields, &fault.cause)) {
            return redirect_to_call(kind, &name, &id);
        }
    }
    render(StatusCode::UNPROCESSABLE_ENTITY, &page)
}

fn redirect_to_call(kind: Callable, name: &str, id: &str) -> PageResult {
    let page = PagePath::new(&[kind.as_str(), name]).with("call", id);
    Ok(redirect(&format!("{}#outcome", page.as_str())))
}

async fn make_call(
    by: By<User>,
    origin: CallOrigin,
    tool: &Target,
    arguments: &Value,
) -> CallOutcome {
    match send_call(by, origin, tool, arguments).await {
        Ok((_held, result)) => CallOutcome::of_result(&tool.name, &result),
        Err(problem) => {
            CallOutcome::of_error(&problem, &tool.name, tool.kind == Callable::Resource)
        }
    }
}

/// Returns the result of a call, with the memory that it occupies.
async fn send_call(
    by: By<User>,
    origin: CallOrigin,
    Target { kind, name, .. }: &Target,
    arguments: &Value,
) -> Result<(Reader, Value), Problem> {
    let account = PageAccount::new(&by.state.gateway);
    let caller = by.caller.principal.caller_id();
    let (method, params) = match kind {
        Callable::Tool => {
            let execution = body(json!({"arguments": arguments}))?;
            let result = execute_tool(by, Path(name.clone()), origin, execution).await?;
            return account.read(caller, result.text, &format!("/api/tools/{name}/execute")).await;
        }
        Callable::Prompt => ("prompts/get", json!({"name": name, "arguments": arguments})),
        Callable::Resource => ("resources/read", json!({"uri": name})),
    };
    let result = call_method(by, Path(method.to_owned()), origin, body(params)?).await?;
    account.read(caller, result.text, &format!("/api/mcp/{method}")).await
}

async fn load(visit: &Visit, name: &str) -> Result<Target, PageError> {
    let missing = "No server offers it to you: it was removed or renamed.";
    let segment = visit.address.split('/').nth(2);
    let kind = segment.and_then(Callable::parse).unwrap_or(Callable::Tool);
    let mut tool = match kind {
        Callable::Tool => {
            let Json(tool) = tools::show_tool(visit.by()?, Path(name.to_owned())).await?;
            let Tool { name, server, title, description, input_schema, .. } = tool;
            Target { kind, name, server, title, description, input_schema }
        }
        Callable::Prompt => {
            let prompt = find_offer(visit.by()?, ListKind::Prompts, name, Prompt::new).await;
            let prompt = prompt.ok_or_else(|| PageError::not_found(missing))?;
            let input_schema = text_schema(prompt.list_arguments());
            let Prompt { name, server, title, description, .. } = prompt;
            Target { kind, name, server, title, description, input_schema }
        }
        Callable::Resource => {
            let resource = find_offer(visit.by()?, ListKind::Resources, name, Resource::new).await;
            // Results may link to resources that are not listed. The page is the same for all of
            // them, and reading decides.
            let is_uri = uri::validate(name, uri::MAX_URI).is_ok() && !name.contains(is_unseen);
            let resource = match resource {
                Some(resource) => resource,
                None if is_uri => Resource::unlisted(name),
                None => return Err(PageError::not_found(missing)),
            };
            let Resource { uri: name, server, title, description, .. } = resource;
            Target { kind, name, server, title, description, input_schema: text_schema(&[]) }
        }
    };
    tool.description = tool.description.as_deref().map(show_text);
    Ok(tool)
}

/// Returns the schema for the arguments of a prompt, which are strings.
fn text_schema(arguments: &[Value]) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for argument in arguments {
        let name = text_of(argument, "name");
        let description = text_of(argument, "description");
        let property = json!({"type": "string", "description": description});
        properties.insert(name.to_owned(), property);
        if argument["required"] == true {
            required.push(name);
        }
    }
    json!({"type": "object", "properties": properties, "required": required})
}

/// Returns an image of a stored call, in a type that cannot contain scripts.
pub(crate) async fn show_image(
    visit: Visit,
    Path((id, part)): Path<(String, usize)>,
) -> PageResult {
    let missing = "The result of this call is no longer kept: call again.";
    let Some(Kept::Call(call)) = visit.find_kept(&id) else {
        return Err(PageError::not_found(missing));
    };
    match call.outcome().and_then(|outcome| outcome.parts.get(part)) {
        Some(CallPart::Image(kind, bytes)) => {
            let head = [(CONTENT_TYPE, kind.as_str()), (CACHE_CONTROL, "no-store")];
            Ok((head, bytes.clone()).into_response())
        }
        _ => Err(PageError::not_found(missing)),
    }
}

const PART: &str = "50";

impl Prompt {
    /// Returns the arguments, as declared by the server.
    pub(crate) fn list_arguments(&self) -> &[Value] {
        let arguments = self.arguments.as_ref().and_then(Value::as_array);
        arguments.map_or(&[], Vec::as_slice)
    }
}

/// Returns the first prompts of a server.
pub(crate) async fn load_prompts(visit: &Visit, server: &str) -> Result<Page<Prompt>, Problem> {
    Ok(list_prompts(visit.by()?, query(&[("limit", PART), ("server", server)])?).await?.0)
}

/// Returns the first resources of a server.
pub(crate) async fn load_resources(visit: &Visit, server: &str) -> Result<Page<Resource>, Problem> {
    Ok(list_resources(visit.by()?, query(&[("limit", PART), ("server", server)])?).await?.0)
}
