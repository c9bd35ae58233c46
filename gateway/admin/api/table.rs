//! The table of routes: a route cannot be added without its permission. The table is the source of
//! both the router and the document.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::Request;
use axum::http::Method;
use axum::middleware::{Next, from_fn};
use axum::response::IntoResponse;
use axum::{Extension, Router};
use serde_json::Value;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};

use super::accepted::Accepted;
use super::access::{Caller, Permission, check_permission};
use super::problem::Problem;
use super::state::ApiState;

pub(crate) struct Table {
    router: OpenApiRouter<Arc<ApiState>>,
    pub(crate) operations: Vec<Operation>,
}

/// The checks of a request before its route.
struct Gate {
    permission: Permission,
    /// By method, in lower case.
    accepted: BTreeMap<String, Accepted>,
}

#[derive(Clone, Debug)]
pub(crate) struct Operation {
    /// The path below `/api`, as in the document.
    pub(crate) path: String,
    /// In lower case.
    pub(crate) method: String,
    pub(crate) permission: Permission,
}

impl Table {
    pub(crate) fn new() -> Self {
        Self { router: OpenApiRouter::default(), operations: Vec::new() }
    }

    /// Adds routes that require the same permission.
    pub(crate) fn add(
        mut self,
        permission: Permission,
        routes: UtoipaMethodRouter<Arc<ApiState>>,
    ) -> Self {
        let (schemas, paths, methods) = routes;
        let mut accepted = BTreeMap::new();
        for (operation, described) in list_operations(&paths, permission) {
            accepted.insert(operation.method.clone(), Accepted::new(&described));
            self.operations.push(operation);
        }
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
        self.router = self.router.routes((schemas, paths, methods.route_layer(require)));
        self
    }

    /// Returns the router, the description and the operations.
    pub(crate) fn into_parts(self) -> (Router<Arc<ApiState>>, OpenApi, Vec<Operation>) {
        let (router, document) = self.router.split_for_parts();
        (router, document, self.operations)
    }
}

impl Gate {
    fn check(&self, caller: Option<&Arc<Caller>>, request: &Request) -> Result<(), Problem> {
        check_permission(self.permission, caller.map(|caller| &**caller))?;
        let method = match *request.method() {
            Method::HEAD => "get".to_owned(),
            ref other => other.as_str().to_ascii_lowercase(),
        };
        match self.accepted.get(&method) {
            Some(accepted) => accepted.check(request),
            None => Ok(()),
        }
    }
}

/// Returns the operations of a route, each with its description.
fn list_operations(
    paths: &utoipa::openapi::path::Paths,
    permission: Permission,
) -> Vec<(Operation, Value)> {
    let mut operations = Vec::new();
    let Ok(Value::Object(paths)) = serde_json::to_value(paths) else { return operations };
    for (path, item) in paths {
        let Value::Object(item) = item else { continue };
        for (method, described) in item {
            operations.push((Operation { path: path.clone(), method, permission }, described));
        }
    }
    operations
}
