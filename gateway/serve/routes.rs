//! Routes beside MCP for authenticated callers. All of them use the admission of MCP requests; the
//! routes themselves check the caller's permissions.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Json, Router};
use lockgate_admin::{Applications, Asking, HeldBody, ScrapeToken, answer_refusal, is_public};
use lockgate_authn::{DEFAULT_ORGANISATION, Principal, Role};
use lockgate_listener::Remote;
use lockgate_proxy::{Registry, RegistryQuery};
use tower::ServiceExt;

use crate::app::App;

/// Returns the guarded `/metrics` route: with names for operators, without names for other callers
/// of the default organisation. Other organisations could derive the gateway's load from metrics. A
/// request with the scrape token may read all metrics, and nothing else.
pub(super) fn guarded_metrics(app: &Arc<App>, token: Option<ScrapeToken>) -> Router {
    let metrics = lockgate_admin::metrics_router(Arc::clone(app));
    let guarded = guard(app, metrics.clone());
    let Some(token) = token else { return guarded };
    let scrape = middleware::from_fn(move |request: Request, next: Next| {
        let metrics = metrics.clone();
        let is_shown = token.is_shown(request.headers());
        async move {
            if !is_shown {
                return next.run(request).await;
            }
            // Without a principal, the response is that of the operators' own address.
            match metrics.oneshot(request).await {
                Ok(response) => response,
                Err(never) => match never {},
            }
        }
    });
    guarded.route_layer(scrape)
}

/// Returns the guarded `/approvals` routes. Policies decide on permissions to approve.
pub(super) fn guarded_approvals(app: &Arc<App>) -> Router {
    guard(app, lockgate_admin::approvals_router(Arc::clone(&app.gateway)))
}

/// Returns the routes of the registry API, which lists endpoints if the operator enables it.
pub(super) fn registry(app: &Arc<App>) -> Router {
    Router::new()
        .route("/v0.1/servers", get(list_registered))
        .route("/v0.1/servers/{name}/versions/{version}", get(find_registered))
        .with_state(Arc::clone(app))
}

async fn list_registered(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Response, Response> {
    let query = read_query(request.uri().query().unwrap_or(""));
    let caller = admit_reader(&app, request).await?;
    let page = app.gateway.list_registry(caller.as_ref(), &query);
    let page = page.map_err(|error| refuse(StatusCode::BAD_REQUEST, &error))?;
    Ok(Json(page).into_response())
}

async fn find_registered(
    State(app): State<Arc<App>>,
    Path((name, version)): Path<(String, String)>,
    request: Request,
) -> Result<Response, Response> {
    let caller = admit_reader(&app, request).await?;
    let entry = app.gateway.find_registered(caller.as_ref(), &name, &version);
    let entry = entry.ok_or_else(|| refuse(StatusCode::NOT_FOUND, "Server not found"))?;
    Ok(Json(entry).into_response())
}

fn read_query(query: &str) -> RegistryQuery {
    let mut read = RegistryQuery::default();
    for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
        let member = match &*name {
            "cursor" => &mut read.cursor,
            "limit" => &mut read.limit,
            "search" => &mut read.search,
            "version" => &mut read.version,
            _ => continue,
        };
        *member = Some(value.into_owned());
    }
    read
}

/// Returns the reader of the registry; `None` for one without credentials.
async fn admit_reader(app: &App, mut request: Request) -> Result<Option<Principal>, Response> {
    let registry = app.gateway.registry();
    if registry == Registry::Off {
        return Err(refuse(StatusCode::NOT_FOUND, "not found"));
    }
    let Some(remote) = request.extensions().get::<Remote>().cloned() else {
        return Err(StatusCode::UNAUTHORIZED.into_response());
    };
    match remote.admit(request.headers_mut()).await {
        Ok(caller) => Ok(Some(caller)),
        Err(_) if registry == Registry::Public => Ok(None),
        Err(answer) => Err(answer.map(Body::from)),
    }
}

fn refuse(status: StatusCode, error: &str) -> Response {
    (status, Json(serde_json::json!({"error": error}))).into_response()
}

/// Returns the guarded routes of `/api` and `/trpc`. The table of routes defines the permissions.
pub(super) fn guarded_api(applications: &Applications) -> Router {
    applications.router().layer(middleware::from_fn(admit_to_api))
}

/// Admits only callers that may use the gateway, and attaches their identity to the request.
fn guard(app: &Arc<App>, router: Router) -> Router {
    router.layer(middleware::from_fn_with_state(Arc::clone(app), admit))
}

async fn admit(
    State(app): State<Arc<App>>,
    Extension(remote): Extension<Remote>,
    mut request: Request,
    next: Next,
) -> Result<Response, Response> {
    let admitted = remote.admit(request.headers_mut()).await;
    let principal = admitted.map_err(|answer| answer.map(Body::from))?;
    let access = Arc::clone(&app.api.lock().access);
    let is_operator = access.role_holders.role_of(&principal) == Role::Operator;
    let is_of_default = principal.organisation() == DEFAULT_ORGANISATION;
    request.extensions_mut().insert(Asking { is_operator, is_of_default });
    request.extensions_mut().insert(principal);
    Ok(next.run(request).await)
}

/// Admits callers to the API. Bodies are read within the limits of MCP bodies before any other
/// processing.
async fn admit_to_api(
    Extension(remote): Extension<Remote>,
    request: Request,
    next: Next,
) -> Response {
    if is_public(request.uri().path()) {
        return next.run(request).await;
    }
    let (mut parts, body) = request.into_parts();
    if remote.lacks_encryption() {
        let mut refusal = http::Response::default();
        *refusal.status_mut() = StatusCode::MISDIRECTED_REQUEST;
        *refusal.body_mut() =
            r#"{"error":{"message":"the API is answered over TLS: use https://"}}"#.into();
        return answer_refusal(&parts, &refusal);
    }
    let principal = match remote.admit(&mut parts.headers).await {
        Ok(principal) => principal,
        Err(answer) => return answer_refusal(&parts, &answer),
    };
    let (body, held) = match remote.read_body(body, &principal).await {
        Ok(read) => read,
        Err(answer) => return answer_refusal(&parts, &answer),
    };
    parts.extensions.insert(principal);
    let held = HeldBody(Arc::new(held));
    parts.extensions.insert(held.clone());
    let response = next.run(Request::from_parts(parts, Body::from(body))).await;
    drop(held);
    response
}
