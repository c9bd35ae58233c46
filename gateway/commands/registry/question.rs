//! A request of a command to a running gateway, and the display of its response: a list as a table,
//! a single item as a table with one row. Names are accepted in place of ids.

use std::process::ExitCode;

use anyhow::bail;
use http::Method;
use lockgate_text::count::count;
use serde_json::Value;

use crate::commands::remote::GatewayClient;
use crate::commands::show;

pub(super) const INTEGRATIONS: &str = "mcp-integrations";

/// A request and the columns of its response.
pub(crate) struct Question<'a> {
    method: Method,
    path: Vec<&'a str>,
    body: Option<Value>,
    columns: &'static [&'static str],
    /// Whether a name may stand in place of an id in the path.
    takes_names: bool,
}

impl<'a> Question<'a> {
    pub(super) fn new(method: Method, path: &[&'a str], columns: &'static [&'static str]) -> Self {
        let mut whole = vec!["api"];
        whole.extend_from_slice(path);
        Self { method, path: whole, body: None, columns, takes_names: true }
    }

    /// Marks the path as having no id.
    pub(super) fn plain(self) -> Self {
        Self { takes_names: false, ..self }
    }

    pub(super) fn with(mut self, body: Value) -> Self {
        self.body = Some(body);
        self
    }

    /// Sends the request, and returns the text and the exit code of the command.
    pub(crate) fn run(
        self,
        gateway: &GatewayClient,
        json: bool,
    ) -> anyhow::Result<(String, ExitCode)> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(self.ask(gateway, json))
    }

    async fn ask(self, gateway: &GatewayClient, json: bool) -> anyhow::Result<(String, ExitCode)> {
        let path = self.find_ids(gateway).await?;
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        let answer = gateway.send(self.method, &path, self.body.as_ref()).await?;
        let text = match (&answer, json) {
            (Value::Null, true) => "null".to_owned(),
            (Value::Null, false) => "done".to_owned(),
            (answer, true) => show::pretty(answer),
            (answer, false) => show_answer(answer, self.columns),
        };
        let failed = answer.get("valid") == Some(&Value::Bool(false));
        Ok((text, if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }))
    }

    /// Returns the path with names replaced by ids.
    async fn find_ids(&self, gateway: &GatewayClient) -> anyhow::Result<Vec<String>> {
        let mut path: Vec<String> = Vec::with_capacity(self.path.len());
        for segment in &self.path {
            let prefix = match path.last().map(String::as_str) {
                Some("agents") => "agt_",
                Some(INTEGRATIONS) => "int_",
                _ => "",
            };
            let is_id = segment.starts_with(prefix) || *segment == "available";
            path.push(match path.last() {
                Some(list) if self.takes_names && !is_id => find_id(gateway, list, segment).await?,
                _ => (*segment).to_owned(),
            });
        }
        Ok(path)
    }
}

/// Returns the id of the item called `name`.
async fn find_id(gateway: &GatewayClient, list: &str, name: &str) -> anyhow::Result<String> {
    let found = gateway.search(list, name).await?;
    let mut ids = Vec::new();
    for item in list_of(&found, "items") {
        let is_called_so = ["name", "slug"].iter().any(|member| item[*member] == *name);
        if let (true, Some(id)) = (is_called_so, item["id"].as_str()) {
            ids.push(id.to_owned());
        }
    }
    match (ids.pop(), ids.is_empty()) {
        (Some(id), true) => Ok(id),
        (None, _) => bail!("nothing is named `{name}`; `list` shows all names"),
        (Some(id), false) => {
            bail!("several are named `{name}`: use the id, such as {id}; `list` shows the ids")
        }
    }
}

/// Formats a list as a table, a single item as a table with one row, and other responses as lines.
fn show_answer(answer: &Value, columns: &[&str]) -> String {
    if let Some(Value::Array(items)) = answer.get("items") {
        if items.is_empty() {
            return "there are none".to_owned();
        }
        return show_table(items, columns);
    }
    match answer.get("valid") {
        Some(valid) => show_validation(answer, valid == &Value::Bool(true)),
        None => {
            let one = answer.get("integration").unwrap_or(answer);
            let mut text = show_table(std::slice::from_ref(one), columns);
            for warning in list_of(one, "warnings") {
                text.push_str(&format!("\nwarning: {}", show::cell(warning, "message")));
            }
            text
        }
    }
}

fn show_validation(answer: &Value, is_valid: bool) -> String {
    if !is_valid {
        return format!("{} failed: {}", show::cell(answer, "stage"), show::cell(answer, "error"));
    }
    let offered = answer.get("capabilities").unwrap_or(&Value::Null);
    let mut parts = Vec::new();
    for (name, noun) in [("tools", "tool"), ("resources", "resource"), ("prompts", "prompt")] {
        let number = offered.get(name).and_then(Value::as_u64).unwrap_or(0);
        parts.push(count(number, noun));
    }
    format!("ok: {}", parts.join(", "))
}

fn list_of<'a>(of: &'a Value, name: &str) -> &'a [Value] {
    match of.get(name) {
        Some(Value::Array(items)) => items,
        _ => &[],
    }
}

fn show_table(items: &[Value], columns: &[&str]) -> String {
    let mut rows = Vec::new();
    for item in items {
        rows.push(columns.iter().map(|column| show::cell(item, column)).collect());
    }
    show::table(columns, &rows)
}
