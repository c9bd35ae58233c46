//! Who calls the API, and what a route asks of them.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{FromRequestParts, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::Response;
use lockgate_authn::{Principal, Role};

use super::problem::Problem;
use super::state::Shared;

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
    pub(crate) fn organisation(&self) -> &str {
        self.principal.organisation()
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
        let settings = state.operations.settings();
        let role = settings.role_holders.role_of(&principal);
        let caller = Caller { principal, role };
        request.extensions_mut().insert(Arc::new(caller));
    }
    next.run(request).await
}

/// Lets those pass who may use a route.
///
/// # Errors
/// Nobody is known, or the caller lacks the role.
pub(crate) fn check_permission(
    permission: Permission,
    caller: Option<&Caller>,
) -> Result<(), Problem> {
    match (permission, caller) {
        (Permission::Public, _) => Ok(()),
        (Permission::AtLeast(_), None) => Err(unknown_caller()),
        (Permission::AtLeast(least), Some(caller)) if caller.role >= least => Ok(()),
        (Permission::AtLeast(_), Some(_)) => {
            let detail = format!(
                "this needs the role {}: the operator of the gateway says who has it (admin.{}s)",
                permission.as_str(),
                permission.as_str(),
            );
            Err(Problem::new(StatusCode::FORBIDDEN, "FORBIDDEN", detail))
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
        match parts.extensions.get::<Arc<Self>>() {
            Some(caller) => Ok((**caller).clone()),
            None => Err(unknown_caller()),
        }
    }
}
