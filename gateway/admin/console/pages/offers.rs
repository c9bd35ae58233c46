//! What a server offers beside tools: its prompts and resources, as the visitor may use them.

use serde::Deserialize;

use crate::console::api_client::{ApiClient, ApiError, ApiPath, List};

/// Those of one page.
const PART: &str = "50";

/// A prompt or a resource as the API shows it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Offer {
    pub(crate) name: String,
    pub(crate) uri: String,
    title: Option<String>,
    description: Option<String>,
    pub(crate) mime_type: Option<String>,
    pub(crate) arguments: Vec<Argument>,
}

/// What a prompt takes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Argument {
    pub(crate) name: String,
    pub(crate) required: bool,
}

impl Offer {
    /// The first line of what its server says of it.
    pub(crate) fn first_line(&self) -> &str {
        let words = self.description.as_deref().or(self.title.as_deref()).unwrap_or(&self.name);
        words.lines().next().unwrap_or("")
    }
}

/// The first prompts of a server, where it has any.
pub(crate) async fn load_prompts(api: &ApiClient, server: &str) -> Result<List<Offer>, ApiError> {
    api.get(&ApiPath::new(&["api", "prompts"])?.with("limit", PART).with("server", server)).await
}

/// The first resources of a server, where it has any.
pub(crate) async fn load_resources(api: &ApiClient, server: &str) -> Result<List<Offer>, ApiError> {
    api.get(&ApiPath::new(&["api", "resources"])?.with("limit", PART).with("server", server)).await
}
