//! The operator's catalogue of servers.

use axum::http::StatusCode;

use crate::api::integrations::{PredefinedIntegration, list_catalogue};
use crate::api::page::Page;
use crate::api::problem::Problem;
use crate::api::query::query;
use crate::console::api::Api;

/// Number of entries per page.
const PART: &str = "200";

impl PredefinedIntegration {
    /// Returns the credential that the entry requires; empty if it requires none.
    pub(crate) fn wants(&self) -> &'static str {
        match self.auth_method {
            "bearer_token" => "a token",
            "api_key" => "a key",
            _ => "",
        }
    }
}

/// Returns the first entries by name, and their total number.
pub(crate) async fn load_catalogue(
    api: &Api,
    search: &str,
) -> Result<Page<PredefinedIntegration>, Problem> {
    let filter = query(&[("limit", PART), ("search", search)])?;
    match list_catalogue(api.by()?, filter).await {
        Ok(found) => Ok(found.0),
        // Without a store there is nothing to choose.
        Err(problem) if problem.status() == StatusCode::SERVICE_UNAVAILABLE => {
            Ok(Page { items: Vec::new(), total: 0, next_cursor: None })
        }
        Err(problem) => Err(problem),
    }
}
