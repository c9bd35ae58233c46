//! The visitor as a caller of the API's operations. Pages call the same functions as its routes, so
//! they share its permissions, values and audit records.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use serde_json::Value;

use super::error::{PageError, TOO_MUCH};
use super::page_account::{PageAccount, PageHold, TOO_LARGE};
use crate::api::access::{By, Caller, LeastRole};
use crate::api::call::{CallMessages, CallOrigin, CallResult};
use crate::api::problem::Problem;
use crate::api::state::ApiState;
use crate::fault::sentence;

/// A visitor, stored in the extensions of the request.
#[derive(Clone)]
pub(crate) struct Api {
    state: Arc<ApiState>,
    caller: Arc<Caller>,
    headers: HeaderMap,
    hold: Arc<PageHold>,
    /// Receives the messages of calls.
    messages: Option<CallMessages>,
}

impl Api {
    pub(crate) fn new(
        state: &Arc<ApiState>,
        caller: &Arc<Caller>,
        headers: &HeaderMap,
        account: &PageAccount,
    ) -> Self {
        let hold = Arc::new(account.begin(caller.principal.caller_id()));
        let caller = Arc::clone(caller);
        let headers = headers.clone();
        Self { state: Arc::clone(state), caller, headers, hold, messages: None }
    }

    /// Returns the visitor as the caller of an operation. Fails without the required role.
    pub(crate) fn by<R: LeastRole>(&self) -> Result<By<R>, Problem> {
        By::new(&self.state, Caller::clone(&self.caller))
    }

    /// Returns the caller in the named organisation; in the visitor's own if the name is empty.
    pub(crate) async fn by_in<R: LeastRole>(&self, organisation: &str) -> Result<By<R>, Problem> {
        let by = self.by()?;
        match organisation {
            "" => Ok(by),
            name => by.in_organisation(name).await,
        }
    }

    /// Returns the visitor with a receiver of the messages of its calls.
    pub(crate) fn with_messages(self, messages: CallMessages) -> Self {
        Self { messages: Some(messages), ..self }
    }

    pub(crate) fn call_origin(&self) -> CallOrigin {
        CallOrigin { headers: self.headers.clone(), messages: self.messages.clone() }
    }

    /// Parses the result of a call at `path` of the API.
    pub(crate) async fn read(&self, result: CallResult, path: &str) -> Result<Value, Problem> {
        self.hold.read(result.text, path).await
    }
}

impl From<Problem> for PageError {
    fn from(problem: Problem) -> Self {
        let title = match problem.status() {
            _ if problem.code() == TOO_LARGE => TOO_MUCH,
            StatusCode::NOT_FOUND => "Not found",
            StatusCode::FORBIDDEN => "Access denied",
            StatusCode::UNAUTHORIZED => "You are signed out",
            StatusCode::CONFLICT | StatusCode::PRECONDITION_FAILED => "It changed in the meantime",
            StatusCode::TOO_MANY_REQUESTS => "Too many requests",
            StatusCode::SERVICE_UNAVAILABLE => "The gateway is busy",
            status if status.is_client_error() => "The request is not valid",
            _ => "The gateway failed",
        };
        let detail = match problem.status() {
            // The detail of the API refers to its own lists, which do not help visitors.
            StatusCode::NOT_FOUND => "It was removed or renamed, or you may not see it.".into(),
            _ => sentence(problem.detail()),
        };
        Self { refusal: problem.refusal(), ..Self::new(problem.status(), title, detail) }
    }
}

impl<S: Sync> FromRequestParts<S> for Api {
    type Rejection = PageError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, PageError> {
        parts.extensions.get::<Self>().cloned().ok_or_else(PageError::signed_out)
    }
}
