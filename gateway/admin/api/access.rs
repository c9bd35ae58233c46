//! Who calls the API, and what a route asks of them. Roles go up: an operator may do what an
//! administrator may, and an administrator what a user may.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{FromRequestParts, Request};
use axum::http::StatusCode;
use axum::http::header::FORWARDED;
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use lockgate_authn::{LOCAL, Principal};

use super::problem::Problem;
use super::state::{ApiState, Shared};

/// The organisation of whoever has none.
pub(crate) const DEFAULT_ORGANISATION: &str = "default";

/// What somebody is to the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    User,
    /// Runs its organisation.
    Admin,
    /// Runs the gateway.
    Operator,
}

/// What a route asks of its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Permission {
    /// Nothing: it shows what the API is.
    Public,
    AtLeast(Role),
}

/// Who calls.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) principal: Principal,
    pub(crate) role: Role,
}

impl Permission {
    /// As the document has it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::AtLeast(Role::User) => "user",
            Self::AtLeast(Role::Admin) => "admin",
            Self::AtLeast(Role::Operator) => "operator",
        }
    }
}

impl Caller {
    fn new(state: &ApiState, principal: Principal, is_forwarded: bool) -> Self {
        let settings = state.operations.settings();
        let trusted = settings.trusts_local && &*principal.issuer == LOCAL && !is_forwarded;
        let role = if trusted || settings.operators.iter().any(|holder| holder.names(&principal)) {
            Role::Operator
        } else if settings.admins.iter().any(|holder| holder.names(&principal)) {
            Role::Admin
        } else {
            Role::User
        };
        Self { principal, role }
    }

    pub(crate) fn organisation(&self) -> &str {
        self.principal.organisation.as_deref().unwrap_or(DEFAULT_ORGANISATION)
    }
}

/// Finds out what a caller is, for the routes behind it.
pub(crate) async fn identify_caller(
    state: Shared,
    principal: Option<Extension<Principal>>,
    mut request: Request,
    next: Next,
) -> Response {
    if let Some(Extension(principal)) = principal {
        // A proxy on this machine makes everybody look like its user.
        let headers = request.headers();
        let is_forwarded =
            headers.contains_key(FORWARDED) || headers.contains_key("x-forwarded-for");
        let caller = Caller::new(&state, principal, is_forwarded);
        request.extensions_mut().insert(Arc::new(caller));
    }
    next.run(request).await
}

/// Lets those pass who may use a route.
pub(crate) async fn require_permission(
    permission: Permission,
    caller: Option<Extension<Arc<Caller>>>,
    request: Request,
    next: Next,
) -> Response {
    match (permission, caller) {
        (Permission::Public, _) => next.run(request).await,
        (Permission::AtLeast(_), None) => unknown_caller().into_response(),
        (Permission::AtLeast(least), Some(Extension(caller))) if caller.role >= least => {
            next.run(request).await
        }
        (Permission::AtLeast(_), Some(_)) => {
            let detail = format!(
                "this needs the role {}: the operator of the gateway says who has it (admin.{}s)",
                permission.as_str(),
                permission.as_str(),
            );
            Problem::new(StatusCode::FORBIDDEN, "FORBIDDEN", detail).into_response()
        }
    }
}

fn unknown_caller() -> Problem {
    let detail = "show who you are, with `Authorization: Bearer` and a key or token";
    Problem::new(StatusCode::UNAUTHORIZED, "UNAUTHENTICATED", detail)
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let caller = parts.extensions.get::<Arc<Self>>();
        caller.map(|caller| (**caller).clone()).ok_or_else(unknown_caller)
    }
}
