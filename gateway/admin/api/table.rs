//! The table of routes as it is built: a route comes with its permission, or not at all. What is in
//! the table is what is served and what the document describes.

use std::sync::Arc;

use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::{Extension, Router};
use serde_json::Value;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};

use super::access::{Caller, Permission, require_permission};
use super::state::ApiState;

/// See the module.
pub(crate) struct Table {
    router: OpenApiRouter<Arc<ApiState>>,
    pub(crate) operations: Vec<Operation>,
}

/// One route.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    /// Below `/api`, as the document has it.
    pub(crate) path: String,
    /// In lower case.
    pub(crate) method: String,
    pub(crate) permission: Permission,
}

impl Table {
    pub(crate) fn new() -> Self {
        Self { router: OpenApiRouter::default(), operations: Vec::new() }
    }

    /// Adds routes that ask the same of their callers.
    pub(crate) fn add(
        mut self,
        permission: Permission,
        routes: UtoipaMethodRouter<Arc<ApiState>>,
    ) -> Self {
        let (schemas, paths, methods) = routes;
        self.operations.extend(list_operations(&paths, permission));
        let require =
            from_fn(move |caller: Option<Extension<Arc<Caller>>>, request: Request, next: Next| {
                require_permission(permission, caller, request, next)
            });
        self.router = self.router.routes((schemas, paths, methods.route_layer(require)));
        self
    }

    /// The routes, and what they say of themselves.
    pub(crate) fn into_parts(self) -> (Router<Arc<ApiState>>, OpenApi, Vec<Operation>) {
        let (router, document) = self.router.split_for_parts();
        (router, document, self.operations)
    }
}

/// The operations of one route.
fn list_operations(paths: &utoipa::openapi::path::Paths, permission: Permission) -> Vec<Operation> {
    let mut operations = Vec::new();
    let Ok(Value::Object(paths)) = serde_json::to_value(paths) else { return operations };
    for (path, item) in &paths {
        for method in item.as_object().into_iter().flat_map(serde_json::Map::keys) {
            operations.push(Operation { path: path.clone(), method: method.clone(), permission });
        }
    }
    operations
}
