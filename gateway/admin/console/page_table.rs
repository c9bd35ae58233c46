//! Builder of the table of pages. A page cannot be added without a permission.

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::handler::Handler;
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};

use super::error::PageError;
use super::layout::ConsoleState;
use crate::api::access::{Caller, Permission};

/// The router and the list of its pages.
pub(crate) struct PageTable {
    router: Router<Arc<ConsoleState>>,
    pub(crate) pages: Vec<PageRoute>,
}

/// A page, or the target of a form.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(test), allow(dead_code, reason = "read by the test of permissions"))]
pub(crate) struct PageRoute {
    pub(crate) method: &'static str,
    /// The path below `/console`.
    pub(crate) path: &'static str,
    pub(crate) permission: Permission,
}

impl PageTable {
    pub(crate) fn new() -> Self {
        Self { router: Router::new(), pages: Vec::new() }
    }

    pub(crate) fn page<H, T>(self, permission: Permission, path: &'static str, handler: H) -> Self
    where
        H: Handler<T, Arc<ConsoleState>>,
        T: 'static,
    {
        self.add("get", permission, path, get(handler))
    }

    /// Adds the target of a form.
    pub(crate) fn action<H, T>(self, permission: Permission, path: &'static str, handler: H) -> Self
    where
        H: Handler<T, Arc<ConsoleState>>,
        T: 'static,
    {
        self.add("post", permission, path, post(handler))
    }

    pub(crate) fn into_router(self) -> Router<Arc<ConsoleState>> {
        self.router
    }

    fn add(
        mut self,
        method: &'static str,
        permission: Permission,
        path: &'static str,
        routes: MethodRouter<Arc<ConsoleState>>,
    ) -> Self {
        self.pages.push(PageRoute { method, path, permission });
        let require =
            from_fn(move |request: Request, next: Next| require_role(permission, request, next));
        self.router = self.router.route(path, routes.route_layer(require));
        self
    }
}

/// Rejects callers below the role that a page requires.
async fn require_role(permission: Permission, request: Request, next: Next) -> Response {
    let least = match permission {
        Permission::Public => return next.run(request).await,
        Permission::AtLeast(least) => least,
    };
    match request.extensions().get::<Arc<Caller>>() {
        None => PageError::signed_out().into_response(),
        Some(caller) if caller.role >= least => next.run(request).await,
        Some(_) => {
            let role = permission.as_str();
            let detail = format!(
                "This page requires the role {role}. The operator of the gateway grants it \
                 (admin.{role}s)."
            );
            let title = "Access denied";
            PageError::new(StatusCode::FORBIDDEN, title, detail).into_response()
        }
    }
}
