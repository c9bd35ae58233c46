//! Settings: the current configuration with the source of each value, read-only.

use askama::Template;
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::Value;

use crate::console::api_client::{ApiClient, ApiError, ApiPath, List};
use crate::console::diagnosis::Severity;
use crate::console::error::{PageResult, show};
use crate::console::fields::QueryFields;
use crate::console::layout::Layout;

const PART: &str = "200";

/// A key as returned by the API.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Setting {
    key: String,
    value: Value,
    otherwise: Option<String>,
    origin: Option<String>,
}

struct Section {
    name: String,
    settings: Vec<Setting>,
}

#[derive(Template)]
#[template(path = "settings.html")]
struct SettingsPage<'a> {
    layout: &'a Layout,
    search: &'a str,
    /// Includes defaults.
    is_whole: bool,
    sections: Vec<Section>,
    total: usize,
    /// Errors in the configuration files; empty if there are none.
    mistakes: String,
    next: Option<String>,
}

impl Setting {
    /// Returns the key without its section.
    fn name(&self) -> &str {
        match self.key.split_once('.') {
            Some((_, name)) => name,
            None => &self.key,
        }
    }

    fn value_text(&self) -> String {
        match &self.value {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        }
    }
}

/// Shows the configured values, or all values.
pub(crate) async fn show_settings(
    layout: Layout,
    api: ApiClient,
    QueryFields(fields): QueryFields,
) -> PageResult {
    let search = fields.get("q");
    let is_whole = fields.get("all") == "yes";
    let path = ApiPath::new(&["api", "settings"])?
        .with("limit", PART)
        .with("search", search)
        .with("only", if is_whole { "" } else { "given" })
        .with("cursor", fields.get("after"));
    let mut page = SettingsPage {
        layout: &layout,
        search,
        is_whole,
        sections: Vec::new(),
        total: 0,
        mistakes: String::new(),
        next: None,
    };
    match api.get::<List<Setting>>(&path).await {
        Ok(found) => {
            page.total = found.total;
            page.next = write_next(search, is_whole, found.next_cursor.as_deref())?;
            page.sections = divide(found.items);
        }
        Err(error) if error.status == StatusCode::CONFLICT => page.mistakes = error.detail,
        Err(error) => return Err(error.into()),
    }
    show(&page)
}

fn divide(settings: Vec<Setting>) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    for setting in settings {
        let name = setting.key.split('.').next().unwrap_or("");
        match sections.last_mut() {
            Some(section) if section.name == name => section.settings.push(setting),
            _ => sections.push(Section { name: name.to_owned(), settings: vec![setting] }),
        }
    }
    sections
}

fn write_next(
    search: &str,
    is_whole: bool,
    cursor: Option<&str>,
) -> Result<Option<String>, ApiError> {
    let Some(cursor) = cursor else { return Ok(None) };
    let page = ApiPath::new(&["console", "settings"])?
        .with("q", search)
        .with("all", if is_whole { "yes" } else { "" })
        .with("after", cursor);
    Ok(Some(page.as_str().to_owned()))
}
