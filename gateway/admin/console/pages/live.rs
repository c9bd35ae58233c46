//! What changes, for pages that are open: the API's events as they are. A page that hears of a
//! change asks for its own part anew, so that there is one way to write it.

use axum::response::{IntoResponse, Response};

use crate::console::api_client::{ApiClient, ApiPath};
use crate::console::error::PageError;

/// The events that the visitor may hear of.
pub(crate) async fn follow_events(api: ApiClient) -> Response {
    match ApiPath::new(&["api", "events"]) {
        Ok(path) => api.open(&path).await,
        Err(error) => PageError::from(error).into_response(),
    }
}
