//! Sign-in at an organisation's identity provider: the redirect to the provider and the callback. A
//! callback without an attempt started in the same browser is rejected, and no text from its
//! address is shown.

use axum::http::header::{CACHE_CONTROL, HeaderValue, REFERRER_POLICY};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method};
use axum::response::Response;
use lockgate_authn::{Answer, Authenticator, Principal, Provider, SignInError};

use super::form::is_of_other_site;
use super::redirect::{
    SIGN_IN, begin_session, find_next, own_address, redirect, set_cookie, sign_in_address,
};
use super::sessions::Sessions;
use super::sign_in::{self, Attempts, Begun, cookie_name};

const START: &str = "/console/sign-in/start";
const CALLBACK: &str = "/console/sign-in/callback";
const END: &str = "/console/sign-in/end";

/// A visitor authenticated by the provider, without a session yet.
pub struct Arrival {
    pub principal: Principal,
    next: String,
    is_secure: bool,
    /// The cookie name of the finished attempt.
    attempt: String,
}

/// The result of a step of signing in at the provider.
pub enum ProviderStep {
    /// A redirect to the provider, or to the form with an error.
    On(Response),
    /// A refusal: the response, and the reason for audit records.
    Refused(Response, String),
    Arrived(Arrival),
}

/// Returns whether the request is part of signing in or out at the provider.
pub fn is_provider_step(parts: &Parts) -> bool {
    parts.method == Method::GET && matches!(parts.uri.path(), START | CALLBACK | END)
}

/// Redirects to the provider, or handles the return from it.
pub async fn follow_provider(
    attempts: &Attempts,
    authenticator: &Authenticator,
    parts: &Parts,
) -> ProviderStep {
    let Some(provider) = authenticator.provider() else {
        return ProviderStep::On(redirect(SIGN_IN));
    };
    match parts.uri.path() {
        START => lead_there(attempts, provider, parts).await,
        END => lead_out(provider).await,
        _ => take_back(attempts, provider, parts).await,
    }
}

async fn lead_there(attempts: &Attempts, provider: &Provider, parts: &Parts) -> ProviderStep {
    let next = find_next(&parts.uri);
    // Links from other sites lead to the form, because the visitor must choose to sign in.
    if is_of_other_site(&parts.headers) {
        return ProviderStep::On(redirect(&sign_in_address("", &next)));
    }
    let Some(begun) = attempts.begin(&parts.headers, &next, &provider.config, attempts.now())
    else {
        return refuse(&SignInError::Busy, &next);
    };
    let Begun { attempt, cookie: (name, value), given_up } = begun;
    match provider.begin(&attempt).await {
        Ok(address) => {
            let mut response = redirect(address.as_str());
            forbid_traces(&mut response);
            for name in given_up {
                set_cookie(&mut response, &name, "", 0);
            }
            set_cookie(&mut response, &name, &value, sign_in::MAX_AGE);
            ProviderStep::On(response)
        }
        Err(error) => refuse(&error, &next),
    }
}

/// Redirects a signed-out visitor to the sign-out page of the provider.
async fn lead_out(provider: &Provider) -> ProviderStep {
    let address = provider.end().await;
    let mut response = match &address {
        Some(address) => redirect(address.as_str()),
        None => redirect(SIGN_IN),
    };
    forbid_traces(&mut response);
    ProviderStep::On(response)
}

async fn take_back(attempts: &Attempts, provider: &Provider, parts: &Parts) -> ProviderStep {
    let to = &provider.config;
    let query = parts.uri.query().unwrap_or("");
    let pairs = form_urlencoded::parse(query.as_bytes()).into_owned();
    let Some(answer) = Answer::read(pairs) else {
        return refuse(&SignInError::Malformed, "/console");
    };
    let state = answer.state.clone().unwrap_or_default();
    let Some(answered) = attempts.find(&parts.headers, &state, to, attempts.now()) else {
        let words =
            "nobody has begun this sign-in in this browser of late, or it has been answered";
        return ProviderStep::Refused(refusal("begun", "/console"), words.to_owned());
    };
    let attempt = cookie_name(to, &state);
    match provider.finish(&answered.attempt, &answer).await {
        Ok(principal) => {
            let is_secure = to.redirect.scheme() == "https";
            let next = answered.next;
            ProviderStep::Arrived(Arrival { principal, next, is_secure, attempt })
        }
        Err(error) => {
            let mut response = refusal(code_of(&error), &answered.next);
            set_cookie(&mut response, &attempt, "", 0);
            ProviderStep::Refused(response, error.to_string())
        }
    }
}

impl Arrival {
    /// Starts the session. Returns `None` if the system provides no random bytes.
    pub fn begin(&self, sessions: &Sessions, headers: &HeaderMap) -> Option<Response> {
        let page = (self.is_secure, own_address(&self.next));
        let mut response = begin_session(sessions, self.principal.clone(), headers, page)?;
        forbid_traces(&mut response);
        set_cookie(&mut response, &self.attempt, "", 0);
        Some(response)
    }

    /// Returns the response for a gateway that cannot start a session now.
    #[must_use]
    pub fn refuse(&self) -> Response {
        refusal("busy", &self.next)
    }
}

fn refuse(error: &SignInError, next: &str) -> ProviderStep {
    ProviderStep::Refused(refusal(code_of(error), next), error.to_string())
}

/// Redirects to the form with one of our error codes: the address holds no text of the provider.
fn refusal(why: &str, next: &str) -> Response {
    let mut response = redirect(&sign_in_address(why, next));
    forbid_traces(&mut response);
    response
}

fn forbid_traces(response: &mut Response) {
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
}

/// Returns the error code for the form's address.
fn code_of(error: &SignInError) -> &'static str {
    match error {
        SignInError::Unreachable(_) => "unreachable",
        SignInError::NoKeys => "keys",
        SignInError::Busy => "busy",
        SignInError::Refused => "refused",
        SignInError::Provider(_) | SignInError::Malformed => "answer",
        SignInError::Client => "client",
        SignInError::Code => "code",
        SignInError::Issuer => "issuer",
        SignInError::Token | SignInError::Audience | SignInError::NoSubject => "token",
        SignInError::Clock => "clock",
        SignInError::Nonce => "nonce",
        SignInError::NoOrganisation(_) => "organisation",
        SignInError::Scopes => "scopes",
    }
}

#[cfg(test)]
mod tests;
