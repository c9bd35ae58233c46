//! The operator's catalogue of servers.

use axum::http::StatusCode;
use serde::Deserialize;

use crate::console::api_client::{ApiClient, ApiError, ApiPath, List};

/// Number of entries per page of the API.
const PART: &str = "200";

/// An entry as returned by the API.
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
    /// Returns the credential that the entry requires; empty if it requires none.
    pub(crate) fn wants(&self) -> &'static str {
        match self.auth_method.as_str() {
            "bearer_token" => "a token",
            "api_key" => "a key",
            _ => "",
        }
    }
}

/// Returns the first entries by name, and their total number.
pub(crate) async fn load_catalogue(
    api: &ApiClient,
    search: &str,
) -> Result<List<CatalogueEntry>, ApiError> {
    let path = ApiPath::new(&["api", "mcp-integrations", "predefined", "available"])?;
    let found = api.get(&path.with("limit", PART).with("search", search)).await;
    match found {
        // Without a store there is nothing to choose.
        Err(error) if error.status == StatusCode::SERVICE_UNAVAILABLE => {
            Ok(List { items: Vec::new(), total: 0, next_cursor: None })
        }
        other => other,
    }
}
