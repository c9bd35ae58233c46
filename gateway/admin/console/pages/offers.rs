//! The prompts and resources of a server that the visitor may use.

use axum::Json;
use serde::Deserialize;

use crate::api::offers::{Prompt, Resource, list_prompts, list_resources};
use crate::api::page::Page;
use crate::api::problem::Problem;
use crate::api::query::query;
use crate::console::api::Api;
use crate::console::page_path::PagePath;

const PART: &str = "50";

/// An argument of a prompt.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Argument {
    pub(crate) name: String,
    pub(crate) description: Option<String>,
    pub(crate) required: bool,
}

impl Prompt {
    pub(crate) fn address(&self) -> String {
        PagePath::new(&["console", "prompts", &self.name]).into_text()
    }

    /// Returns the first line of the description, or the title or name.
    pub(crate) fn first_line(&self) -> &str {
        find_first_line([&self.description, &self.title], &self.name)
    }

    /// Returns the arguments; none if they cannot be parsed.
    pub(crate) fn list_arguments(&self) -> Vec<Argument> {
        self.arguments.as_ref().and_then(|all| Vec::deserialize(all).ok()).unwrap_or_default()
    }
}

impl Resource {
    pub(crate) fn address(&self) -> String {
        PagePath::new(&["console", "resources", &self.uri]).into_text()
    }

    /// Returns the first line of the description, or the title or name.
    pub(crate) fn first_line(&self) -> &str {
        find_first_line([&self.description, &self.title], self.name.as_deref().unwrap_or(""))
    }
}

fn find_first_line<'a>(texts: [&'a Option<String>; 2], name: &'a str) -> &'a str {
    let text = texts.into_iter().flatten().next().map_or(name, String::as_str);
    text.lines().next().unwrap_or("")
}

/// Maximum number of pages of a list to search for a prompt or resource.
const MAX_PARTS: usize = 20;

/// Returns the prompt of this name, if the visitor may use it.
pub(crate) async fn find_prompt(api: &Api, name: &str) -> Result<Option<Prompt>, Problem> {
    let mut cursor = String::new();
    for _ in 0..MAX_PARTS {
        let filter = query(&[("limit", "200"), ("search", name), ("cursor", &cursor)])?;
        let Json(found) = list_prompts(api.by()?, filter).await?;
        if let Some(prompt) = found.items.into_iter().find(|prompt| prompt.name == name) {
            return Ok(Some(prompt));
        }
        let Some(next) = found.next_cursor else { break };
        cursor = next;
    }
    Ok(None)
}

/// Returns the resource of this URI, if the visitor may use it.
pub(crate) async fn find_resource(api: &Api, uri: &str) -> Result<Option<Resource>, Problem> {
    let mut cursor = String::new();
    for _ in 0..MAX_PARTS {
        let filter = query(&[("limit", "200"), ("search", uri), ("cursor", &cursor)])?;
        let Json(found) = list_resources(api.by()?, filter).await?;
        if let Some(resource) = found.items.into_iter().find(|resource| resource.uri == uri) {
            return Ok(Some(resource));
        }
        let Some(next) = found.next_cursor else { break };
        cursor = next;
    }
    Ok(None)
}

/// Returns the first prompts of a server.
pub(crate) async fn load_prompts(api: &Api, server: &str) -> Result<Page<Prompt>, Problem> {
    Ok(list_prompts(api.by()?, query(&[("limit", PART), ("server", server)])?).await?.0)
}

/// Returns the first resources of a server.
pub(crate) async fn load_resources(api: &Api, server: &str) -> Result<Page<Resource>, Problem> {
    Ok(list_resources(api.by()?, query(&[("limit", PART), ("server", server)])?).await?.0)
}
