//! Requests that are rejected before any policy decision: counted, recorded and logged once each.
//! The error sent to the caller is written elsewhere, and may reveal less.

use std::borrow::Cow;

use http::StatusCode;
use lockgate_authn::{AuthnError, Principal};
use lockgate_protocol::jsonrpc::Request;
use lockgate_telemetry::Rejection;
use lockgate_telemetry::audit::{Refused, RefusedToken};

use crate::gateway::Gateway;
use crate::rescue::RequestError;
use crate::transport::{Endpoint, Exchange, Reply};

impl Gateway {
    /// Records a request rejected by the listener.
    pub fn record_rejection(&self, why: Rejection, words: Cow<'static, str>) {
        self.refused(why, words, None, None);
    }

    /// Records the status of an outgoing HTTP response.
    pub fn record_response(&self, status: StatusCode) {
        self.metrics.responded(status.as_u16());
    }

    /// Records a forbidden request outside of MCP at `path`.
    pub fn record_forbidden(&self, words: &str, who: Option<&Principal>, path: &str) {
        self.refused_at(Rejection::Forbidden, words, who, path, None);
    }

    /// Records a rejected sign-in at `path`.
    pub fn record_refused_sign_in(&self, words: &str, path: &str) {
        self.refused_at(Rejection::Unauthenticated, words, None, path, None);
    }

    /// Records stored credentials that could not be decrypted and are not used.
    pub fn record_unopened(&self, words: &str) {
        self.refused_at(Rejection::Credentials, words, None, "", None);
    }

    /// Records a caller that failed authentication or lacks a required scope.
    pub(crate) fn unknown(&self, caller: &lockgate_authn::RefusedCaller, endpoint: &Endpoint) {
        let why = match caller.why {
            AuthnError::Scope => Rejection::Forbidden,
            AuthnError::Unavailable => Rejection::IssuerKeys,
            _ => Rejection::Unauthenticated,
        };
        let token = caller.token.as_deref().map(|token| RefusedToken {
            fault: token.fault,
            claim: token.claim,
            issuer: token.issuer.as_deref(),
            kid: token.kid.as_deref(),
        });
        let words = caller.why.to_string();
        self.refused_at(why, &words, caller.who.as_ref(), &path_of(Some(endpoint)), token);
    }

    /// Records a rejected request of an authenticated caller, with the error returned to it.
    pub fn record_refused_request(&self, problem: &RequestError, exchange: &Exchange) {
        if let Some(rule) = &problem.rule {
            self.metrics.denied(rule, problem.denial);
        }
        self.refused(
            problem.classify(),
            problem.message.clone(),
            Some(&exchange.principal),
            Some(&exchange.endpoint),
        );
    }

    /// Records a rejected request and returns the response with the error.
    pub fn refuse(&self, problem: &RequestError, exchange: &Exchange, id: Option<&[u8]>) -> Reply {
        self.record_refused_request(problem, exchange);
        problem.reply(id)
    }

    /// Records a notification only if its method is that of a request: it may be an attempt to run
    /// the request unseen.
    pub fn record_refused_notification(&self, note: &Request, exchange: &Exchange) {
        let name = note.method_name();
        if !name.starts_with("notifications/") {
            self.record_refused_request(
                &RequestError::invalid(format!("`{name}` requires an id and was ignored")),
                exchange,
            );
        }
    }

    /// Records a message without a valid session.
    pub fn record_refused_session(&self, words: &'static str, exchange: &Exchange) {
        let Exchange { principal, endpoint, .. } = exchange;
        self.refused(Rejection::Session, words, Some(principal), Some(endpoint));
    }

    fn refused(
        &self,
        why: Rejection,
        words: impl Into<Cow<'static, str>>,
        who: Option<&Principal>,
        endpoint: Option<&Endpoint>,
    ) {
        self.refused_at(why, &words.into(), who, &path_of(endpoint), None);
    }

    fn refused_at(
        &self,
        why: Rejection,
        words: &str,
        who: Option<&Principal>,
        endpoint: &str,
        token: Option<RefusedToken<'_>>,
    ) {
        self.metrics.rejected(why);
        let (issuer, subject, key) = match who {
            Some(who) => (&*who.issuer, &*who.subject, who.key_name.as_deref()),
            None => ("", "", None),
        };
        tracing::info!(
            target: "audit",
            decision = "refuse",
            reason = why.as_str(),
            %words,
            issuer,
            subject,
            key,
            fault = token.map(|token| token.fault),
            claim = token.and_then(|token| token.claim),
            token_issuer = token.and_then(|token| token.issuer),
            kid = token.and_then(|token| token.kid),
            "refused"
        );
        if let Some(trail) = &self.audit {
            let who = who.map(|who| (&*who.issuer, &*who.subject));
            trail.refuse(Refused { why, words, who, key, endpoint, token });
        }
    }
}

/// Returns the path of an endpoint for records, empty for `/mcp`.
fn path_of(endpoint: Option<&Endpoint>) -> Cow<'_, str> {
    match endpoint {
        None | Some(Endpoint::All) => Cow::Borrowed(""),
        Some(endpoint) => endpoint.path(),
    }
}
