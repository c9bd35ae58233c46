//! The table of all pages with their permissions, and its router. The permission of a page equals
//! that of the API routes that it uses.

use std::sync::Arc;

use axum::Router;
use axum::extract::{OriginalUri, Request};
use axum::handler::Handler;
use axum::http::header::ACCEPT;
use axum::http::{HeaderMap, Method};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, any, get, post};
use lockgate_authn::Role;

use super::assets::show_asset;
use super::form::{FormState, SentForms, check_form};
use super::pages::{
    access, agents, approvals, audit, integrations, keys, overview, pins, servers, settings, tool,
    usage,
};
use super::redirect::{SIGN_IN, redirect};
use super::render::{PageAccount, PageError, count_page};
use super::sessions::Sessions;
use super::sign_in::{show_sign_in, sign_out};
use super::visit::{ConsoleState, put_around};
use crate::api::access::{Caller, Permission, check_permission, identify_caller};
use crate::api::problem::record_rejection;
use crate::api::state::ApiState;
use crate::read_header;
use crate::router::{AnyHandler, ResponseFuture, answer_nothing};

const USER: Permission = Permission::AtLeast(Role::User);
const ADMIN: Permission = Permission::AtLeast(Role::Admin);
const OPERATOR: Permission = Permission::AtLeast(Role::Operator);

/// Returns the table of all pages below `/console`. Redirects to and from an identity provider are
/// not part of it: they are handled before there is a visitor (`provider_sign_in`).
pub(crate) fn table() -> PageTable {
    let first = PageTable::default()
        .form(Permission::Public, "/sign-in", show_sign_in, show_sign_in)
        .page(Permission::Public, "/assets/{digest}/{name}", show_asset)
        // Any session can be ended, also that of a key which opens no page.
        .action(Permission::Public, "/sign-out", sign_out);
    add_records(add_catalog(first))
}

fn add_catalog(table: PageTable) -> PageTable {
    table
        .page(USER, "/", overview::show_overview)
        .page(USER, "/events", overview::follow_events)
        .page(USER, "/servers", servers::list_servers)
        .page(USER, "/servers/{name}", servers::show_server)
        .action(ADMIN, "/servers/{name}/reconnect", servers::reconnect)
        .action(ADMIN, "/servers/{name}/connect", servers::connect)
        .form(ADMIN, "/integrations/new", integrations::show_form, integrations::add)
        .form(ADMIN, "/catalogue/{slug}", integrations::show_form, integrations::add)
        .form(ADMIN, "/registry", integrations::show_form, integrations::add)
        .form(
            ADMIN,
            "/integrations/{id}",
            integrations::show_integration,
            integrations::change_integration,
        )
        .action(ADMIN, "/integrations/{id}/try", integrations::try_integration)
        .action(ADMIN, "/integrations/{id}/switch/{to}", integrations::switch_integration)
        .form(
            ADMIN,
            "/integrations/{id}/delete",
            integrations::show_deletion,
            integrations::delete_integration,
        )
        .form(ADMIN, "/pins", pins::list_pins, pins::decide)
        .page(USER, "/tools", servers::list_tools)
        .form(USER, "/tools/{name}", tool::show_callable, tool::call)
        .form(USER, "/prompts/{name}", tool::show_callable, tool::call)
        .form(USER, "/resources/{uri}", tool::show_callable, tool::call)
        .page(USER, "/results/{id}/{part}", tool::show_image)
        .form(USER, "/agents", agents::list_agents, agents::create_agent)
        .form(USER, "/agents/{id}", agents::show_agent, agents::change_agent)
        .form(USER, "/agents/{id}/items", agents::show_items, agents::change_items)
        .form(USER, "/agents/{id}/delete", agents::show_deletion, agents::delete_agent)
        .action(USER, "/agents/{id}/servers/{server}", agents::switch_server)
}

fn add_records(table: PageTable) -> PageTable {
    table
        .page(OPERATOR, "/access", access::explain)
        .form(OPERATOR, "/access/cases", access::show_form, access::try_cases)
        .page(USER, "/approvals", approvals::list_approvals)
        .page(USER, "/approvals/{id}", approvals::show_approval)
        .action(USER, "/approvals/{id}/{decision}", approvals::answer)
        .page(ADMIN, "/audit", audit::list_records)
        .action(OPERATOR, "/audit/verify", audit::verify_trail)
        .page(ADMIN, "/audit/{time}", audit::show_record)
        .page(ADMIN, "/activity", audit::show_activity)
        .page(ADMIN, "/usage", usage::show_usage)
        .page(ADMIN, "/keys", keys::list_keys)
        .form(ADMIN, "/keys/new", keys::show_form, keys::create_key)
        .form(ADMIN, "/keys/{id}/revoke", keys::show_revocation, keys::revoke_key)
        .page(USER, "/connections", settings::list_connections)
        .action(USER, "/connections/disconnect", settings::disconnect)
        .page(ADMIN, "/sessions", settings::list_sessions)
        .action(ADMIN, "/sessions/end", settings::end_sessions)
        .page(OPERATOR, "/settings", settings::show_settings)
        .page(OPERATOR, "/organisations", settings::list_organisations)
        .page(OPERATOR, "/organisations/{name}", settings::show_organisation)
}

/// Returns the router of the console. Requests carry their visitor and principal as extensions,
/// unless [`is_public`].
pub(crate) fn console_router(api: Arc<ApiState>, sessions: Arc<Sessions>) -> Router {
    let results = Arc::default();
    let state = Arc::clone(&api);
    let console = Arc::new(ConsoleState { results, api, sessions });
    let pages = make_pages(console).layer(from_fn_with_state(state, identify_caller));
    Router::new().route("/", any(answer_root)).nest("/console", pages)
}

/// Redirects browsers to the console. For programs this address is as unknown as any other.
async fn answer_root(method: Method, headers: HeaderMap) -> Response {
    let accepted = read_header(&headers, ACCEPT);
    if method == Method::GET && matches!(accepted, Some(kinds) if kinds.contains("text/html")) {
        return redirect("/console");
    }
    answer_nothing()
}

/// Returns the router of the pages. Requests also carry their caller as an extension.
fn make_pages(console: Arc<ConsoleState>) -> Router {
    let account = PageAccount::new(&console.api.gateway);
    let sessions = Arc::clone(&console.sessions);
    let forms = Arc::new(FormState { sent_forms: SentForms::default(), sessions });
    table()
        .router
        .fallback(answer_unknown)
        .method_not_allowed_fallback(answer_unknown)
        .layer(from_fn_with_state(forms, check_form))
        .layer(from_fn_with_state(account, count_page))
        .layer(from_fn_with_state(Arc::clone(&console.api), record_rejection))
        .layer(from_fn_with_state(Arc::clone(&console), put_around))
        .with_state(console)
}

/// Returns whether a path requires no sign-in: the root, the sign-in form and the assets.
pub fn is_public(path: &str) -> bool {
    path == "/" || path == SIGN_IN || path.starts_with("/console/assets/")
}

async fn answer_unknown(OriginalUri(uri): OriginalUri) -> PageError {
    let path: String = uri.path().chars().take(128).collect();
    PageError::not_found(format!("The console has nothing at {path}."))
}

/// The router and the list of its pages.
#[derive(Default)]
pub(crate) struct PageTable {
    router: Router<Arc<ConsoleState>>,
    /// The path below `/console` and the permission of each page and each target of a form.
    #[cfg_attr(not(test), allow(dead_code, reason = "read by the test of permissions"))]
    pages: Vec<(&'static str, Permission)>,
}

/// The handler of a page or of a form.
trait PageHandler<T>: Handler<T, Arc<ConsoleState>, Future = ResponseFuture> {}

impl<T, H: Handler<T, Arc<ConsoleState>, Future = ResponseFuture>> PageHandler<T> for H {}

impl PageTable {
    fn page<T>(self, allowed: Permission, path: &'static str, show: impl PageHandler<T>) -> Self {
        self.add(allowed, path, get(AnyHandler::new(show)))
    }

    /// Adds the target of a form.
    fn action<T>(self, allowed: Permission, path: &'static str, act: impl PageHandler<T>) -> Self {
        self.add(allowed, path, post(AnyHandler::new(act)))
    }

    /// Adds a page with a form that is sent to the same address.
    fn form<T, U>(
        self,
        allowed: Permission,
        path: &'static str,
        show: impl PageHandler<T>,
        act: impl PageHandler<U>,
    ) -> Self {
        self.page(allowed, path, show).action(allowed, path, act)
    }

    fn add(
        mut self,
        permission: Permission,
        path: &'static str,
        routes: MethodRouter<Arc<ConsoleState>>,
    ) -> Self {
        self.pages.push((path, permission));
        let require =
            from_fn(move |request: Request, next: Next| require(permission, request, next));
        self.router = self.router.route(path, routes.route_layer(require));
        self
    }
}

/// Rejects callers without the permission that a page requires.
async fn require(permission: Permission, request: Request, next: Next) -> Response {
    let caller = request.extensions().get::<Arc<Caller>>();
    match check_permission(permission, caller.map(|caller| &**caller)) {
        Ok(()) => next.run(request).await,
        Err(problem) => PageError::from(problem).into_response(),
    }
}

#[cfg(test)]
mod tests;
