//! The operator's catalogue of servers.

use axum::http::StatusCode;
use serde::Deserialize;

use crate::console::api_client::{ApiClient, ApiError, ApiPath, List};

/// Entries of one page of the API.
const PART: &str = "200";

/// An entry as the API shows it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct CatalogueEntry {
    pub(crate) slug: String,
    pub(crate) name: String,
    pub(crate) description: Option<String>,
    auth_method: String,
    pub(crate) header_name: Option<String>,
}

impl CatalogueEntry {
    /// The credential that it requires; empty if it requires none.
    pub(crate) fn wants(&self) -> &'static str {
        match self.auth_method.as_str() {
            "bearer_token" => "a token",
            "api_key" => "a key",
            _ => "",
        }
    }
}

/// The first entries, in the order of their names, and how many there are.
pub(crate) async fn load_catalogue(
    api: &ApiClient,
    search: &str,
) -> Result<List<CatalogueEntry>, ApiError> {
    let path = ApiPath::new(&["api", "mcp-integrations", "predefined", "available"])?;
    let found = api.get(&path.with("limit", PART).with("search", search)).await;
    match found {
        // Where nothing can be stored there is nothing to choose.
        Err(error) if error.status == StatusCode::SERVICE_UNAVAILABLE => {
            Ok(List { items: Vec::new(), total: 0, next_cursor: None })
        }
        other => other,
    }
}
