//! The caller of the API, and the permissions that operations require. [`By::new`] checks them for
//! every face of the operations: an operation cannot be called without its result.

use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

use axum::Extension;
use axum::extract::{FromRequestParts, Request};
use axum::http::StatusCode;
use axum::http::header::HOST;
use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::middleware::Next;
use axum::response::Response;
use lockgate_authn::{Principal, Role};
use lockgate_registry::ChangeOptions;

use super::problem::{ELSEWHERE, Problem, Result};
use super::state::{ApiState, Shared};
use crate::read_header;

/// The parameter that names an organisation. [`Caller`] reads it for every operation.
pub(crate) const ORGANISATION: &str = "organizationId";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Permission {
    /// None: the route describes the API only.
    Public,
    AtLeast(Role),
}

/// The caller of an operation, in the organisation that the operation is for.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) principal: Principal,
    pub(crate) role: Role,
    /// The request names the organisation (`organizationId`).
    names_organisation: bool,
    /// The base of endpoint URLs.
    pub(crate) base: Arc<str>,
}

/// A role that operations require.
pub(crate) trait LeastRole {
    const ROLE: Role;
}

pub(crate) struct User;
pub(crate) struct Admin;
pub(crate) struct Operator;

impl LeastRole for User {
    const ROLE: Role = Role::User;
}

impl LeastRole for Admin {
    const ROLE: Role = Role::Admin;
}

impl LeastRole for Operator {
    const ROLE: Role = Role::Operator;
}

/// The caller of an operation, with the shared state.
#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) state: Arc<ApiState>,
    pub(crate) caller: Caller,
    /// The conditions of a change.
    pub(crate) options: ChangeOptions,
}

/// The context of a caller with the role `R` or a higher one.
pub(crate) struct By<R>(pub(super) Context, PhantomData<fn() -> R>);

impl<R> Deref for By<R> {
    type Target = Context;

    fn deref(&self) -> &Context {
        &self.0
    }
}

impl<R: LeastRole> By<R> {
    /// Checks that the caller has the role.
    pub(crate) fn new(state: &Arc<ApiState>, caller: Caller) -> Result<Self> {
        check_permission(Permission::AtLeast(R::ROLE), Some(&caller))?;
        let options = ChangeOptions::default();
        Ok(Self(Context { state: Arc::clone(state), caller, options }, PhantomData))
    }
}

/// An operation that requires the role `R`: a function with [`By<R>`] as its first parameter.
pub(crate) trait Requires<R, Rest> {}

impl<R, F: Fn(By<R>) -> O, O> Requires<R, ()> for F {}
impl<R, F: Fn(By<R>, A) -> O, O, A> Requires<R, (A,)> for F {}
impl<R, F: Fn(By<R>, A, B) -> O, O, A, B> Requires<R, (A, B)> for F {}
impl<R, F: Fn(By<R>, A, B, C) -> O, O, A, B, C> Requires<R, (A, B, C)> for F {}

/// Returns the permission of an operation, for a table that states the same role.
pub(crate) fn permission_of<R: LeastRole, Rest>(_: impl Requires<R, Rest>) -> Permission {
    Permission::AtLeast(R::ROLE)
}

impl Permission {
    /// Returns the permission as written in the OpenAPI document.
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
    pub(crate) fn new(principal: Principal, role: Role, base: Arc<str>) -> Self {
        Self { principal, role, names_organisation: false, base }
    }

    pub(crate) fn organisation(&self) -> &str {
        self.principal.organisation()
    }

    /// Returns whether the caller sees the data of all organisations.
    pub(crate) fn sees_all(&self) -> bool {
        self.role == Role::Operator && !self.names_organisation
    }

    /// Returns whether the caller sees the data of an organisation.
    pub(crate) fn sees(&self, organisation: &str) -> bool {
        self.sees_all() || organisation == self.organisation()
    }

    /// Returns the caller in the named organisation. Fails if the organisation does not exist; for
    /// callers other than operators, every organisation but their own appears not to exist.
    pub(crate) async fn in_organisation(mut self, state: &ApiState, name: &str) -> Result<Self> {
        self.names_organisation = true;
        if name == self.organisation() {
            return Ok(self);
        }
        if self.role != Role::Operator || !state.knows_organisation(name).await {
            return Err(unknown_organisation());
        }
        Ok(self.acting_in(name))
    }

    /// Returns an operator as a member of an organisation, which may not exist yet.
    pub(crate) fn acting_in(mut self, organisation: &str) -> Self {
        self.principal = self.principal.acting_in(organisation);
        self
    }
}

/// Returns the same problem for a missing organisation and for one of other callers.
pub(crate) fn unknown_organisation() -> Problem {
    let detail = "there is no such organisation for this caller: omit `organizationId`; operators \
        create organisations with POST /api/organisations";
    Problem::not_found(ELSEWHERE, detail)
}

/// Returns the value of `organizationId`, which may occur only once.
fn read_organisation(query: &str) -> Result<Option<String>> {
    let mut named = None;
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        if name != ORGANISATION {
            continue;
        }
        if named.replace(value.into_owned()).is_some() {
            let detail = "the parameter `organizationId` is repeated";
            return Err(Problem::in_query(detail));
        }
    }
    Ok(named)
}

/// Determines the role of the caller for the routes.
pub(crate) async fn identify_caller(
    state: Shared,
    principal: Option<Extension<Principal>>,
    mut request: Request,
    next: Next,
) -> Response {
    if let Some(Extension(principal)) = principal {
        let settings = state.operations.settings();
        let role = settings.role_holders.role_of(&principal);
        let authority = request.uri().authority().map(Authority::as_str);
        let host = authority.or_else(|| read_header(request.headers(), HOST));
        let base = settings.clients_address.base(host).into();
        request.extensions_mut().insert(Arc::new(Caller::new(principal, role, base)));
    }
    next.run(request).await
}

/// Checks that the caller is authenticated and has the role that a route requires.
pub(crate) fn check_permission(permission: Permission, caller: Option<&Caller>) -> Result<()> {
    match (permission, caller) {
        (Permission::Public, _) => Ok(()),
        (Permission::AtLeast(_), None) => Err(unknown_caller()),
        (Permission::AtLeast(_), Some(caller)) if caller.principal.only_agent().is_some() => {
            let detail = "this key was created for an agent and opens only the agent's endpoint";
            Err(Problem::new(StatusCode::FORBIDDEN, "FORBIDDEN", detail))
        }
        (Permission::AtLeast(least), Some(caller)) if caller.role >= least => Ok(()),
        (Permission::AtLeast(_), Some(_)) => {
            let detail = format!(
                "the role {} is required: the operator of the gateway assigns it (admin.{}s)",
                permission.as_str(),
                permission.as_str(),
            );
            Err(Problem::new(StatusCode::FORBIDDEN, "FORBIDDEN", detail))
        }
    }
}

pub(crate) fn unknown_caller() -> Problem {
    let detail = "credentials are required: send `Authorization: Bearer` with a key or token";
    Problem::new(StatusCode::UNAUTHORIZED, "UNAUTHENTICATED", detail)
}

impl FromRequestParts<Arc<ApiState>> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<ApiState>) -> Result<Self> {
        let caller = parts.extensions.get::<Arc<Self>>().ok_or_else(unknown_caller)?;
        let caller = Self::clone(caller);
        match read_organisation(parts.uri.query().unwrap_or(""))? {
            Some(name) => caller.in_organisation(state, &name).await,
            None => Ok(caller),
        }
    }
}
