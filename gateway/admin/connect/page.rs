//! A small page without scripts, which no other page may frame and no cache may keep.

use askama::Template;
use axum::http::StatusCode;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::response::{IntoResponse, Response};
use lockgate_accounts::Consent;
use lockgate_authn::Principal;

/// The policy of a page; a form may also lead to the given origin.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; \
    frame-ancestors 'none'; form-action 'self'";

#[derive(Template)]
#[template(path = "connect.html")]
pub(super) struct Page {
    title: String,
    lines: Vec<String>,
    status: StatusCode,
    /// Names and values of the consent.
    facts: Vec<(&'static str, String)>,
    /// The token of the consent form; empty without a form.
    token: String,
    /// Whether the consent form has a field for the user's key at the server.
    takes_key: bool,
    /// The address of the server that the form shows.
    resource: String,
    /// The address of the sign-in form; empty without a form.
    sign_in: String,
    mistake: String,
    /// The origin of the authorization server.
    leads_to: Option<String>,
}

impl Page {
    pub(super) fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            lines: Vec::new(),
            status: StatusCode::OK,
            facts: Vec::new(),
            token: String::new(),
            takes_key: false,
            resource: String::new(),
            sign_in: String::new(),
            mistake: String::new(),
            leads_to: None,
        }
    }

    pub(super) fn status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    pub(super) fn line(mut self, words: impl Into<String>) -> Self {
        self.lines.push(words.into());
        self
    }

    /// Adds the form for an API key.
    pub(super) fn sign_in(mut self, action: &str, mistake: &str) -> Self {
        action.clone_into(&mut self.sign_in);
        mistake.clone_into(&mut self.mistake);
        self.status(StatusCode::UNAUTHORIZED)
    }

    /// Adds the consent and its form.
    pub(super) fn consent(mut self, caller: &Principal, consent: &Consent, token: &str) -> Self {
        let scopes = match &consent.scopes[..] {
            [] => "those that the server chooses".to_owned(),
            scopes => scopes.join(", "),
        };
        let signed_in = caller.key_name.as_ref().unwrap_or(&caller.subject).to_string();
        self.facts = vec![("Address of the server", consent.resource.clone())];
        if let Some(issuer) = &consent.issuer {
            self.facts.push(("You sign in at", issuer.clone()));
            self.facts.push(("Permissions", scopes));
        }
        self.facts.push(("You are", signed_in));
        self.takes_key = consent.issuer.is_none();
        self.resource.clone_from(&consent.resource);
        if let Some(agent) = &caller.agent {
            self.facts.push(("For the client", agent.to_string()));
        }
        self.leads_to.clone_from(&consent.authorization_origin);
        token.clone_into(&mut self.token);
        self.line("Calls that you make through this gateway will use your account at the server.")
    }

    pub(super) fn show(self) -> Response {
        let Ok(text) = self.render() else {
            return StatusCode::INTERNAL_SERVER_ERROR.into_response();
        };
        let head = [(CONTENT_TYPE, "text/html; charset=utf-8")];
        let mut response = (self.status, head, text).into_response();
        protect(&mut response, self.leads_to.as_deref());
        if !self.token.is_empty() || !self.sign_in.is_empty() {
            // With `no-referrer`, browsers send forms without their origin.
            let policy = HeaderValue::from_static("same-origin");
            response.headers_mut().insert(REFERRER_POLICY, policy);
        }
        response
    }
}

/// Sets the headers that protect a page, or a redirect, with codes or links in its address.
pub(super) fn protect(response: &mut Response, leads_to: Option<&str>) {
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    let policy = format!("{POLICY} {}", leads_to.unwrap_or_default());
    let policy = HeaderValue::from_str(policy.trim_end());
    headers.insert(CONTENT_SECURITY_POLICY, policy.unwrap_or(HeaderValue::from_static(POLICY)));
}
