//! The items of an agent: patterns, other names and other descriptions, a line each.

use std::collections::BTreeMap;

use askama::Template;
use axum::extract::Path;
use axum::http::StatusCode;
use lockgate_proxy::Items;
use serde_json::{Value, json};

use crate::api::agents::{self, Agent};
use crate::api::body::body;
use crate::console::api::Api;
use crate::console::diagnosis::Severity;
use crate::console::error::{PageResult, render, show};
use crate::console::fields::{Fields, FormFields};
use crate::console::layout::Layout;
use crate::console::redirect::PagePath;
use crate::fault::sentence;

/// A field of the form: its name in the API, its label and its hint.
type Field = (&'static str, &'static str, &'static str);

const FIELDS: [Field; 5] = [
    ("tools", "Tools", "A pattern per line: github/search_*, or * for all. None if empty."),
    ("prompts", "Prompts", "Likewise."),
    ("resources", "Resources, templates and skills", "Likewise, with URIs: wiki/page://*."),
    ("rename", "Other names", "Such as github/create_issue = report_bug."),
    ("describe", "Other descriptions", "Such as github/create_issue = Reports a bug."),
];

#[derive(Template)]
#[template(path = "agent_items.html")]
struct ItemsPage<'a> {
    layout: &'a Layout,
    agent: Agent,
    typed: BTreeMap<&'static str, String>,
    /// The field of a mistake; empty for the whole form.
    field: String,
    mistake: &'a str,
}

impl ItemsPage<'_> {
    fn value(&self, field: &str) -> &str {
        self.typed.get(field).map_or("", String::as_str)
    }

    /// Returns the mistake of a field; without a name, that of no field.
    fn mistake_at(&self, field: &str) -> &str {
        if self.field == field { self.mistake } else { "" }
    }
}

pub(crate) async fn show_items(layout: Layout, api: Api, Path(id): Path<String>) -> PageResult {
    let agent = agents::show_agent(api.by()?, Path(id)).await?.value;
    let typed = write(agent.items.as_ref());
    show(&ItemsPage { layout: &layout, agent, typed, field: String::new(), mistake: "" })
}

/// Sets the items, or gives the agent all items of its servers again.
pub(crate) async fn change_items(
    layout: Layout,
    api: Api,
    Path(id): Path<String>,
    FormFields(fields): FormFields,
) -> PageResult {
    let by = api.by()?.expecting(fields.get("version"))?;
    let items = if fields.get("action") == "all" { Value::Null } else { read(&fields) };
    let answer = match body(json!({"items": items})) {
        Ok(patch) => agents::change_agent(by, Path(id.clone()), patch).await,
        Err(problem) => Err(problem),
    };
    let problem = match answer {
        Ok(_) => {
            let page = PagePath::new(&["console", "agents", &id]);
            return Ok(layout.redirect_with(page, Severity::Good, "The items were changed."));
        }
        Err(problem) if problem.is_of_form() => problem,
        Err(problem) => return Err(problem.into()),
    };
    let agent = agents::show_agent(api.by()?, Path(id)).await?.value;
    let typed: BTreeMap<_, _> =
        FIELDS.into_iter().map(|(name, ..)| (name, fields.get_exact(name).to_owned())).collect();
    let field = problem.pointer().strip_prefix("/items/").unwrap_or("");
    let field = field.split('/').next().unwrap_or("").to_owned();
    let mistake = sentence(problem.detail());
    let page = ItemsPage { layout: &layout, agent, typed, field, mistake: &mistake };
    render(StatusCode::UNPROCESSABLE_ENTITY, &page)
}

/// Returns the text of each field; all items for an agent without a choice.
fn write(items: Option<&Items>) -> BTreeMap<&'static str, String> {
    let any = vec!["*".to_owned()];
    let all =
        Items { tools: any.clone(), prompts: any.clone(), resources: any, ..Items::default() };
    let items = items.unwrap_or(&all);
    BTreeMap::from([
        ("tools", items.tools.join("\n")),
        ("prompts", items.prompts.join("\n")),
        ("resources", items.resources.join("\n")),
        ("rename", write_pairs(&items.rename)),
        ("describe", write_pairs(&items.describe)),
    ])
}

fn write_pairs(pairs: &BTreeMap<String, String>) -> String {
    let mut text = String::new();
    for (key, value) in pairs {
        text.push_str(&format!("{key} = {}\n", value.replace('\n', "\\n")));
    }
    text
}

/// Reads the fields. A line without `=` is a key with an empty value, which the API rejects.
fn read(fields: &Fields) -> Value {
    let mut items = json!({});
    for name in ["tools", "prompts", "resources"] {
        items[name] = lines(fields, name).collect();
    }
    for name in ["rename", "describe"] {
        let mut pairs = BTreeMap::new();
        for line in lines(fields, name) {
            let (key, value) = line.split_once(" = ").unwrap_or((line, ""));
            pairs.insert(key.trim(), value.trim().replace("\\n", "\n"));
        }
        items[name] = json!(pairs);
    }
    items
}

fn lines<'a>(fields: &'a Fields, name: &str) -> impl Iterator<Item = &'a str> {
    fields.get_exact(name).lines().map(str::trim).filter(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_read_as_they_are_written() {
        let items = json!({"tools": ["a/*", "b/{x,y}"], "prompts": [], "resources": ["*"],
            "rename": {"a/t": "ask"}, "describe": {"a/t": "Asks = often.\nTwice."}});
        let typed = write(Some(&serde_json::from_value(items.clone()).unwrap()));
        let mut form = form_urlencoded::Serializer::new(String::new());
        for (name, text) in typed {
            form.append_pair(name, &text.replace('\n', "\r\n"));
        }
        assert_eq!(read(&Fields::parse(form.finish().as_bytes())), items);
    }
}
