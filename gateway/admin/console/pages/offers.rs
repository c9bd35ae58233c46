//! The prompts and resources of a server that the visitor may use.

use serde::Deserialize;

use crate::console::api_client::{ApiClient, ApiError, ApiPath, List};

const PART: &str = "50";

/// A prompt or a resource as returned by the API.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Offer {
    pub(crate) name: String,
    pub(crate) uri: String,
    pub(crate) server: String,
    pub(crate) title: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) mime_type: Option<String>,
    pub(crate) arguments: Vec<Argument>,
}

/// An argument of a prompt.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Argument {
    pub(crate) name: String,
    pub(crate) description: Option<String>,
    pub(crate) required: bool,
}

impl Offer {
    pub(crate) fn prompt_address(&self) -> String {
        ApiPath::link(&["console", "prompts", &self.name], "", "/console/servers")
    }

    pub(crate) fn resource_address(&self) -> String {
        ApiPath::link(&["console", "resources", &self.uri], "", "/console/servers")
    }

    /// Returns the first line of the description, or the title or name.
    pub(crate) fn first_line(&self) -> &str {
        let words = self.description.as_deref().or(self.title.as_deref()).unwrap_or(&self.name);
        words.lines().next().unwrap_or("")
    }
}

/// Maximum number of API pages to search for a prompt or resource.
const MAX_PARTS: usize = 20;

/// Returns the prompt of this name, or the resource of this URI, if the visitor may use it.
pub(crate) async fn find_offer(
    api: &ApiClient,
    list: &str,
    name: &str,
) -> Result<Option<Offer>, ApiError> {
    let mut cursor = String::new();
    for _ in 0..MAX_PARTS {
        let path = ApiPath::new(&["api", list])?
            .with("limit", "200")
            .with("search", name)
            .with("cursor", &cursor);
        let found: List<Offer> = api.get(&path).await?;
        let mut items = found.items.into_iter();
        if let Some(offer) = items.find(|offer| offer.name == name || offer.uri == name) {
            return Ok(Some(offer));
        }
        match found.next_cursor {
            Some(next) => cursor = next,
            None => break,
        }
    }
    Ok(None)
}

/// Returns the first prompts of a server.
pub(crate) async fn load_prompts(api: &ApiClient, server: &str) -> Result<List<Offer>, ApiError> {
    api.get(&ApiPath::new(&["api", "prompts"])?.with("limit", PART).with("server", server)).await
}

/// Returns the first resources of a server.
pub(crate) async fn load_resources(api: &ApiClient, server: &str) -> Result<List<Offer>, ApiError> {
    api.get(&ApiPath::new(&["api", "resources"])?.with("limit", PART).with("server", server)).await
}
