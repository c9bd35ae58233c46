//! A tool, prompt or resource, with a form to call it. The call is processed like any other, with
//! the visitor as caller. The outcome is stored and shown after a redirect.

use std::sync::Arc;
use std::time::Instant;

use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::IntoResponse;
use lockgate_admission::reader::Reader;
use lockgate_protocol::uri;
use lockgate_proxy::VisibleItem;
use lockgate_text::json;
use lockgate_text::unseen::is_unseen;
use lockgate_upstream::ListKind;
use serde_json::Map;

use super::*;
use crate::api::access::User;
use crate::api::call::{CallOrigin, call_method};
use crate::api::tools::{execute_tool, find_offer, take_text};
use crate::console::render::PageAccount;
use crate::console::results::{CallForm, CallOutcome, CallPart, KeptCall};
use crate::console::tool_form::{FormField, make_fields, note_mistake, read_arguments};

/// A target with the schema of its arguments.
#[derive(Clone, Debug)]
struct Target {
    /// Tools, prompts or resources.
    kind: ListKind,
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
}

impl Target {
    /// Reads a listed item, of any kind.
    fn new(item: &VisibleItem, mut definition: Map<String, Value>) -> Self {
        let schema = definition.remove("inputSchema");
        Self {
            kind: ListKind::Tools,
            name: item.exposed.to_string(),
            server: item.server.slug().to_owned(),
            title: take_text(&mut definition, "title"),
            description: take_text(&mut definition, "description").as_deref().map(show_text),
            input_schema: schema.unwrap_or_else(|| text_schema(definition.get("arguments"))),
        }
    }

    /// Returns a resource of an unknown server.
    fn unlisted(uri: &str) -> Self {
        Self {
            kind: ListKind::Resources,
            name: uri.to_owned(),
            server: String::new(),
            title: None,
            description: None,
            input_schema: text_schema(None),
        }
    }

    fn verb(&self) -> &'static str {
        match self.kind {
            ListKind::Tools => "Call",
            ListKind::Prompts => "Render",
            _ => "Read",
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

    /// Returns the page that explains a denial, which operators may open, for tools. It finds the
    /// arguments by the name of the call, because they may be long or secret.
    fn explanation(&self) -> Option<String> {
        let is_explained = self.visit.is_operator() && self.tool.kind == ListKind::Tools;
        let (_, id) = self.call.as_ref().filter(|_| is_explained)?;
        let path = PagePath::new(&["access"]).with("call", &self.tool.name);
        Some(path.with("of", id).into_text())
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
        Some(Kept::Call(call)) if call.form.name == name => Some((call, id.to_owned())),
        _ => None,
    };
    let blank = Fields::default();
    let typed = kept.as_ref().map_or(&blank, |(call, _)| &call.form.typed);
    let page = ToolPage::new(&visit, &tool, typed);
    visit.show(&ToolPage { call: kept.clone(), ..page })
}

/// Calls a tool, renders a prompt or reads a resource.
pub(crate) async fn call(visit: Visit, Path(name): Path<String>) -> PageResult {
    let typed = &visit.form;
    let tool = load(&visit, &name).await?;
    let kind = tool.kind;
    let mut page = ToolPage::new(&visit, &tool, typed);
    if typed.has("add") || typed.has("remove") {
        return visit.show(&page);
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
        let form =
            CallForm { name: name.clone(), typed: typed.clone(), arguments: arguments.to_string() };
        let (call, id) = visit.start_call(form, |messages| async move {
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

fn redirect_to_call(kind: ListKind, name: &str, id: &str) -> PageResult {
    let page = PagePath::new(&[kind.member(), name]).with("call", id);
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
            CallOutcome::of_error(&problem, &tool.name, tool.kind == ListKind::Resources)
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
        ListKind::Tools => {
            let execution = body(json!({"arguments": arguments}))?;
            let result = execute_tool(by, Path(name.clone()), origin, execution).await?;
            return account.read(caller, result.text, &format!("/api/tools/{name}/execute")).await;
        }
        ListKind::Prompts => ("prompts/get", json!({"name": name, "arguments": arguments})),
        _ => ("resources/read", json!({"uri": name})),
    };
    let result = call_method(by, Path(method.to_owned()), origin, body(params)?).await?;
    account.read(caller, result.text, &format!("/api/mcp/{method}")).await
}

async fn load(visit: &Visit, name: &str) -> Result<Target, PageError> {
    let kind = match visit.address.split('/').nth(2) {
        Some("prompts") => ListKind::Prompts,
        Some("resources") => ListKind::Resources,
        _ => ListKind::Tools,
    };
    // Results may link to resources that are not listed. The page is the same for all of them, and
    // reading decides.
    let may_be_unlisted = kind == ListKind::Resources
        && uri::validate(name, uri::MAX_URI).is_ok()
        && !name.contains(is_unseen);
    match find_offer(visit.by()?, kind, name, Target::new).await {
        Some(target) => Ok(Target { kind, ..target }),
        None if may_be_unlisted => Ok(Target::unlisted(name)),
        None => {
            let missing = "No server offers it to you: it was removed or renamed.";
            Err(PageError::not_found(missing))
        }
    }
}

/// Returns the schema for the arguments of a prompt, which are strings.
fn text_schema(arguments: Option<&Value>) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for argument in arguments.and_then(Value::as_array).into_iter().flatten() {
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
