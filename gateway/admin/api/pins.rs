//! Tools that somebody should look at: not approved, changed since, or with text that hides
//! something.

use axum::Json;
use axum::extract::State;
use lockgate_policy::pin::Standing;
use lockgate_proxy::Suspect;
use serde::Serialize;
use utoipa::ToSchema;

use super::page::{Page, PageQuery};
use super::problem::Problem;
use super::query::Query;
use super::state::Shared;

/// A tool to look at.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Pin {
    /// `server/tool`.
    name: String,
    server: String,
    tool: String,
    /// How it stands to the lock file, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    standing: Option<&'static str>,
    fingerprint: String,
    /// Neither listed nor callable.
    quarantined: bool,
    findings: Vec<String>,
}

impl Pin {
    fn new(suspect: Suspect) -> Self {
        let Suspect { server, tool, standing, fingerprint, quarantined, findings } = suspect;
        let findings = findings.iter().map(ToString::to_string).collect();
        Self {
            name: format!("{server}/{tool}"),
            server,
            tool,
            standing: standing.map(Standing::as_str),
            fingerprint,
            quarantined,
            findings,
        }
    }
}

/// The tools that somebody should look at.
#[utoipa::path(
    get,
    path = "/pins",
    tag = "pins",
    params(PageQuery),
    responses((status = 200, body = Page<Pin>))
)]
pub(crate) async fn list_pins(
    State(state): Shared,
    Query(query): Query<PageQuery>,
) -> Result<Json<Page<Pin>>, Problem> {
    let pins = state.gateway.suspects().into_iter().map(Pin::new).collect();
    query.cut(pins, |pin| &pin.name).map(Json)
}
