//! The table of routes: a route cannot be added without its permission. Paths, methods and
//! parameters are those of the OpenAPI document.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::Request;
use axum::http::Method;
use axum::middleware::{Next, from_fn};
use axum::response::IntoResponse;
use axum::routing::{MethodFilter, MethodRouter};
use axum::{Extension, Router};
use serde_json::Value;

use super::accepted::Accepted;
use super::access::{Caller, Permission, check_permission};
use super::problem::Problem;
use super::state::ApiState;

pub(crate) struct Table {
    router: Router<Arc<ApiState>>,
    /// By `operationId`.
    described: BTreeMap<String, Described>,
}

/// An operation of the document.
struct Described {
    path: String,
    method: Method,
    accepted: Accepted,
}

/// The checks of a request before its route.
struct Gate {
    permission: Permission,
    accepted: Accepted,
}

impl Table {
    pub(crate) fn new(document: &Value) -> Self {
        let mut described = BTreeMap::new();
        let paths = document["paths"].as_object();
        for (path, item) in paths.into_iter().flatten() {
            for (method, operation) in item.as_object().into_iter().flatten() {
                let id = operation["operationId"].as_str().unwrap_or_default();
                let Ok(method) = method.to_uppercase().parse() else { continue };
                let accepted = Accepted::new(operation);
                described.insert(id.to_owned(), Described { path: path.clone(), method, accepted });
            }
        }
        Self { router: Router::new(), described }
    }

    /// Adds an operation. One that the document does not describe is left out.
    pub(crate) fn add(
        mut self,
        permission: Permission,
        id: &str,
        route: fn(MethodFilter) -> MethodRouter<Arc<ApiState>>,
    ) -> Self {
        let Some(Described { path, method, accepted }) = self.described.remove(id) else {
            return self;
        };
        let Ok(filter) = MethodFilter::try_from(method) else { return self };
        let gate = Arc::new(Gate { permission, accepted });
        let require =
            from_fn(move |caller: Option<Extension<Arc<Caller>>>, request: Request, next: Next| {
                let gate = Arc::clone(&gate);
                async move {
                    match gate.check(caller.as_deref(), &request) {
                        Ok(()) => next.run(request).await,
                        Err(problem) => problem.into_response(),
                    }
                }
            });
        self.router = self.router.route(&path, route(filter).route_layer(require));
        self
    }

    pub(crate) fn into_router(self) -> Router<Arc<ApiState>> {
        self.router
    }
}

impl Gate {
    fn check(&self, caller: Option<&Arc<Caller>>, request: &Request) -> Result<(), Problem> {
        check_permission(self.permission, caller.map(|caller| &**caller))?;
        self.accepted.check(request)
    }
}
