//! May they? Allow lists (through the view), then rates. Only here is a [`Permitted`] made, and without one no server
//! is reached. What policy hides answers like what does not exist.

use std::borrow::Cow;
use std::sync::Arc;

use lockgate_protocol::code;
use lockgate_protocol::jsonrpc::Request;
use lockgate_protocol::method::Method;
use lockgate_protocol::scan;
use lockgate_protocol::sealed::Purpose;
use lockgate_protocol::write;
use lockgate_telemetry::ToolMetrics;
use lockgate_upstream::Upstream;

use crate::rescue::Problem;
use crate::stage::Asked;
use crate::state;

/// Leave to reach one server with one request.
pub(crate) struct Permitted {
    server: Arc<dyn Upstream>,
    method: Method,
    /// The server's own name, URI or task id.
    target: String,
    /// Members of `params` with another value for the server.
    replaced: Vec<(&'static str, Option<Vec<u8>>)>,
    metrics: Option<Arc<ToolMetrics>>,
}

impl Permitted {
    pub(crate) fn server(&self) -> &Arc<dyn Upstream> {
        &self.server
    }

    pub(crate) fn method(&self) -> Method {
        self.method
    }

    pub(crate) fn target(&self) -> &str {
        &self.target
    }

    /// Where the call is counted, for tools.
    pub(crate) fn metrics(&self) -> Option<Arc<ToolMetrics>> {
        self.metrics.clone()
    }

    pub(crate) fn replaced(&self) -> &[(&'static str, Option<Vec<u8>>)] {
        &self.replaced
    }

    /// The same leave for the next round of the same request: answers to the server's questions, its state.
    pub(crate) fn next_round(&self, responses: Option<Vec<u8>>, state: Option<Vec<u8>>) -> Self {
        let mut replaced = self.replaced.clone();
        replaced.retain(|(name, _)| !matches!(*name, "inputResponses" | "requestState"));
        replaced.push(("inputResponses", responses));
        replaced.push(("requestState", state));
        Self {
            replaced,
            server: Arc::clone(&self.server),
            method: self.method,
            target: self.target.clone(),
            metrics: self.metrics.clone(),
        }
    }
}

/// Decides on a request that is for one server.
pub(crate) fn authorize(asked: &Asked) -> Result<Permitted, Problem> {
    let permitted = match asked.request.method {
        Method::ToolsCall => tool(asked),
        Method::PromptsGet => prompt(asked),
        Method::ResourcesRead | Method::Subscribe | Method::Unsubscribe => resource(asked),
        Method::Complete => completion(asked),
        Method::TasksGet | Method::TasksUpdate | Method::TasksCancel => task(asked),
        other => Err(Problem::method_not_found(other.as_str())),
    }?;
    rates(asked)?;
    Ok(permitted)
}

fn rates(asked: &Asked) -> Result<(), Problem> {
    let rates = &asked.setup.rates;
    match asked.request.method {
        Method::ToolsCall => rates.call(asked.caller_key).map_err(|wait| Problem::limited("tool calls", wait)),
        Method::Complete => rates.completion(asked.caller_key).map_err(|wait| Problem::limited("completions", wait)),
        _ => Ok(()),
    }
}

fn required<'a>(request: &'a Request, name: &str) -> Result<Cow<'a, str>, Problem> {
    request.param_str(name).ok_or_else(|| Problem::invalid(format!("`params.{name}` must be a string")))
}

fn tool(asked: &Asked) -> Result<Permitted, Problem> {
    let name = required(&asked.request, "name")?;
    let entry = asked.view.tool(&name).ok_or_else(|| Problem::unknown("tool", &name))?;
    if asked.request.param("arguments").is_some_and(|a| !a.starts_with(b"{")) {
        return Err(Problem::invalid("`params.arguments` must be an object"));
    }
    let mut permitted = with_state(asked, Arc::clone(&entry.server), entry.item.key.to_string(), "name")?;
    permitted.metrics.clone_from(&entry.metrics);
    Ok(permitted)
}

fn prompt(asked: &Asked) -> Result<Permitted, Problem> {
    let name = required(&asked.request, "name")?;
    let entry = asked.view.prompt(&name).ok_or_else(|| Problem::unknown("prompt", &name))?;
    with_state(asked, Arc::clone(&entry.server), entry.item.key.to_string(), "name")
}

fn resource(asked: &Asked) -> Result<Permitted, Problem> {
    let uri = required(&asked.request, "uri")?;
    let found = asked.view.resource(&uri, &asked.setup.policy);
    let (server, own) = found.ok_or_else(|| Problem::unknown_resource(&uri, asked.era()))?;
    with_state(asked, server, own, "uri")
}

/// A request that may be the next round of an earlier one: its state must be one that we sealed for just this request.
fn with_state(
    asked: &Asked,
    server: Arc<dyn Upstream>,
    target: String,
    key: &'static str,
) -> Result<Permitted, Problem> {
    let mut replaced = vec![(key, Some(write::quoted(&target)))];
    if let Some(raw) = asked.request.param("requestState") {
        let refused = || Problem::invalid("the request state is not valid for this request, or has expired");
        let token = scan::as_str(raw).ok_or_else(refused)?;
        let inner = state::open(asked, server.slug(), &target, &token).ok_or_else(refused)?;
        replaced.push(("requestState", Some(inner)));
    }
    Ok(Permitted { server, method: asked.request.method, target, replaced, metrics: None })
}

fn completion(asked: &Asked) -> Result<Permitted, Problem> {
    let request = &asked.request;
    let bad = || Problem::invalid("`params.ref` must be a ref/prompt with `name` or a ref/resource with `uri`");
    let reference = request.param("ref").ok_or_else(bad)?;
    let mut scanner = scan::Scanner::new(reference, scan::MAX_DEPTH).map_err(|_| bad())?;
    let (_, members) = scanner.members(scan::Keys::Strict).map_err(|_| bad())?;
    let member = |name: &str| scan::find(&members, reference, name).and_then(|s| scan::as_str(s.of(reference)));
    let (server, key, own) = match member("type").as_deref() {
        Some("ref/prompt") => {
            let name = member("name").ok_or_else(bad)?;
            let entry = asked.view.prompt(&name).ok_or_else(|| Problem::unknown("prompt", &name))?;
            (Arc::clone(&entry.server), "name", entry.item.key.to_string())
        }
        Some("ref/resource") => {
            let uri = member("uri").ok_or_else(bad)?;
            let found = asked.view.resource(&uri, &asked.setup.policy);
            let (server, own) = found.ok_or_else(|| Problem::unknown("resource", &uri))?;
            (server, "uri", own)
        }
        _ => return Err(bad()),
    };
    let mut own_reference = Vec::with_capacity(reference.len());
    let mut object = write::Object::open(&mut own_reference);
    for m in &members {
        match m.is(reference, key) {
            true => object.string(key, &own),
            false => object.copy(m.key.of(reference), m.value.of(reference)),
        }
    }
    object.close();
    Ok(Permitted {
        server,
        method: Method::Complete,
        target: own,
        replaced: vec![("ref", Some(own_reference))],
        metrics: None,
    })
}

/// A task is found by the token that we made of its server and id; a foreign token is an unknown task.
fn task(asked: &Asked) -> Result<Permitted, Problem> {
    let token = required(&asked.request, "taskId")?;
    let unknown = || Problem::invalid("unknown task");
    let plain = asked.setup.sealer.open(Purpose::Task, &asked.bind(), state::now(), &token).map_err(|_| unknown())?;
    let plain = String::from_utf8(plain).map_err(|_| unknown())?;
    let (slug, own) = plain.split_once('\0').ok_or_else(unknown)?;
    let server =
        asked.view.servers.iter().find(|(s, _)| s.as_str() == slug).map(|(_, s)| Arc::clone(s)).ok_or_else(unknown)?;
    let replaced = vec![("taskId", Some(write::quoted(own)))];
    Ok(Permitted { server, method: asked.request.method, target: own.to_owned(), replaced, metrics: None })
}

/// The capability that a tasks request needs.
pub(crate) fn needs_tasks(asked: &Asked) -> Result<(), Problem> {
    use lockgate_protocol::capabilities::{TASKS, declares};
    if declares(&asked.caller.capabilities, &["extensions", TASKS]) {
        return Ok(());
    }
    let needed = serde_json::json!({"requiredCapabilities": {"extensions": {TASKS: {}}}});
    Err(Problem::new(code::MISSING_CAPABILITY, "the request needs the tasks extension").data(needed))
}
