//! Who calls the API, and what a route asks of them.

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

use super::problem::{ELSEWHERE, Problem};
use super::state::{ApiState, Shared};
use crate::headers::read_header;

/// The parameter that names an organisation. [`Caller`] reads it for every operation.
pub(crate) const ORGANISATION: &str = "organizationId";

/// What a route asks of its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Permission {
    /// Nothing: it shows what the API is.
    Public,
    AtLeast(Role),
}

/// The caller of an operation, in the organisation that it acts in.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) principal: Principal,
    pub(crate) role: Role,
    /// The request names the organisation (`organizationId`).
    names_organisation: bool,
    /// What addresses of endpoints begin with.
    pub(crate) base: Arc<str>,
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
    pub(crate) fn new(principal: Principal, role: Role, base: Arc<str>) -> Self {
        Self { principal, role, names_organisation: false, base }
    }

    pub(crate) fn organisation(&self) -> &str {
        self.principal.organisation()
    }

    /// Whether what all organisations have is shown.
    pub(crate) fn sees_all(&self) -> bool {
        self.role == Role::Operator && !self.names_organisation
    }

    /// The caller in another organisation than its own, which only operators may name.
    ///
    /// # Errors
    /// There is no such organisation, or none for this caller.
    async fn in_organisation(mut self, state: &ApiState, name: &str) -> Result<Self, Problem> {
        self.names_organisation = true;
        if name == self.organisation() {
            return Ok(self);
        }
        if self.role != Role::Operator || !state.knows_organisation(name).await {
            return Err(unknown_organisation());
        }
        Ok(self.acting_in(name))
    }

    /// An operator as a member of an organisation, whether it exists or not.
    pub(crate) fn acting_in(mut self, organisation: &str) -> Self {
        self.principal = self.principal.acting_in(organisation);
        self
    }
}

/// The same whether an organisation does not exist or is not the caller's.
pub(crate) fn unknown_organisation() -> Problem {
    let detail = "there is no such organisation for this caller: leave `organizationId` out; \
        operators create one with POST /api/organisations";
    Problem::not_found(ELSEWHERE, detail)
}

/// The value of `organizationId`, which stands once.
fn read_organisation(query: &str) -> Result<Option<String>, Problem> {
    let mut named = None;
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        if name != ORGANISATION {
            continue;
        }
        if named.replace(value.into_owned()).is_some() {
            let detail = "the parameter `organizationId` stands twice";
            return Err(Problem::new(StatusCode::BAD_REQUEST, "INVALID_QUERY", detail));
        }
    }
    Ok(named)
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
        let authority = request.uri().authority().map(Authority::as_str);
        let host = authority.or_else(|| read_header(request.headers(), HOST));
        let base = settings.clients_address.base(host).into();
        request.extensions_mut().insert(Arc::new(Caller::new(principal, role, base)));
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

impl FromRequestParts<Arc<ApiState>> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<ApiState>) -> Result<Self, Problem> {
        let Some(caller) = parts.extensions.get::<Arc<Self>>() else {
            return Err(unknown_caller());
        };
        let caller = Self::clone(caller);
        match read_organisation(parts.uri.query().unwrap_or(""))? {
            Some(name) => caller.in_organisation(state, &name).await,
            None => Ok(caller),
        }
    }
}
