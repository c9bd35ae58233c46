//! Signing in at the identity provider of one's organisation: the way there, and the way back. The
//! way back is an address that the provider knows; who comes by it without having begun here is
//! nobody, and nothing that the address says is shown.

use axum::http::header::{CACHE_CONTROL, HeaderName, HeaderValue, REFERRER_POLICY};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method};
use axum::response::Response;
use lockgate_authn::{Answer, Authenticator, Principal, SignIn, SignInError};

use super::attempts::{self, Attempts, Begun, cookie_name};
use super::redirect::{SIGN_IN, find_next, own_address, redirect, set_cookie, set_session_cookie};
use super::sessions::Sessions;

const START: &str = "/console/sign-in/start";
const CALLBACK: &str = "/console/sign-in/callback";
const END: &str = "/console/sign-in/end";
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Somebody who has signed in at the provider, and has no session yet.
pub struct Arrival {
    pub principal: Principal,
    next: String,
    is_secure: bool,
    /// The name of the cookie of the attempt, which is over.
    attempt: String,
}

/// What became of a request of somebody who signs in at the provider.
pub enum ProviderStep {
    /// On the way there, or back at the form with why not.
    On(Response),
    /// Refused: the answer, and why for records.
    Refused(Response, String),
    Arrived(Arrival),
}

/// Whether a request is somebody's on the way to the provider or back.
#[must_use]
pub fn is_provider_step(parts: &Parts) -> bool {
    parts.method == Method::GET && matches!(parts.uri.path(), START | CALLBACK | END)
}

/// Leads somebody to the provider, or finds out who has come back from there.
pub async fn follow_provider(
    attempts: &Attempts,
    authenticator: &Authenticator,
    parts: &Parts,
) -> ProviderStep {
    let Some(to) = authenticator.sign_in() else { return ProviderStep::On(redirect(SIGN_IN)) };
    match parts.uri.path() {
        START => lead_there(attempts, authenticator, to, parts).await,
        END => lead_out(authenticator).await,
        _ => take_back(attempts, authenticator, to, parts).await,
    }
}

async fn lead_there(
    attempts: &Attempts,
    authenticator: &Authenticator,
    to: &SignIn,
    parts: &Parts,
) -> ProviderStep {
    let next = find_next(&parts.uri);
    // A link of another site leads to the form: to sign in is for its visitor to decide.
    if comes_from_elsewhere(&parts.headers) {
        return ProviderStep::On(redirect(&form_address("", &next)));
    }
    let Ok(begun) = attempts.begin(&parts.headers, &next, to) else {
        return refuse(&SignInError::Busy, &next);
    };
    let Begun { attempt, cookie: (name, value), given_up } = begun;
    match authenticator.begin_sign_in(&attempt).await {
        Ok(address) => {
            let mut response = redirect(address.as_str());
            forbid_traces(&mut response);
            for name in given_up {
                set_cookie(&mut response, &name, "", 0);
            }
            set_cookie(&mut response, &name, &value, attempts::MAX_AGE);
            ProviderStep::On(response)
        }
        Err(error) => refuse(&error, &next),
    }
}

/// To where the provider signs people out, who has been left here before.
async fn lead_out(authenticator: &Authenticator) -> ProviderStep {
    let address = authenticator.end_of_session().await;
    let mut response = match &address {
        Some(address) => redirect(address.as_str()),
        None => redirect(SIGN_IN),
    };
    forbid_traces(&mut response);
    ProviderStep::On(response)
}

async fn take_back(
    attempts: &Attempts,
    authenticator: &Authenticator,
    to: &SignIn,
    parts: &Parts,
) -> ProviderStep {
    let query = parts.uri.query().unwrap_or("");
    let pairs = form_urlencoded::parse(query.as_bytes()).into_owned();
    let Some(answer) = Answer::read(pairs) else {
        return refuse(&SignInError::Malformed, "/console");
    };
    let state = answer.state.clone().unwrap_or_default();
    let Some(answered) = attempts.find(&parts.headers, &state, to) else {
        let words =
            "nobody has begun this sign-in in this browser of late, or it has been answered";
        return ProviderStep::Refused(refusal("begun", "/console"), words.to_owned());
    };
    let attempt = cookie_name(to, &state);
    match authenticator.finish_sign_in(&answered.attempt, &answer).await {
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
    /// Begins the session. `None` where this machine has no random numbers for one.
    #[must_use]
    pub fn begin(&self, sessions: &Sessions, headers: &HeaderMap) -> Option<Response> {
        let id = sessions.begin(self.principal.clone()).ok()?;
        sessions.replace(headers);
        let mut response = redirect(own_address(&self.next));
        forbid_traces(&mut response);
        set_session_cookie(&mut response, self.is_secure, &id);
        set_cookie(&mut response, &self.attempt, "", 0);
        Some(response)
    }

    /// The answer where the gateway itself cannot begin a session just now.
    #[must_use]
    pub fn refuse(&self) -> Response {
        refusal("busy", &self.next)
    }
}

/// As the browser says; one that says nothing is of before there was anything to say.
fn comes_from_elsewhere(headers: &HeaderMap) -> bool {
    let site = headers.get(SEC_FETCH_SITE);
    matches!(site, Some(site) if site != "same-origin" && site != "none")
}

fn refuse(error: &SignInError, next: &str) -> ProviderStep {
    ProviderStep::Refused(refusal(code_of(error), next), error.to_string())
}

/// Back at the form, which says why by a word of ours: the address holds nothing of the answer.
fn refusal(why: &str, next: &str) -> Response {
    let mut response = redirect(&form_address(why, next));
    forbid_traces(&mut response);
    response
}

fn form_address(why: &str, next: &str) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("next", own_address(next));
    if !why.is_empty() {
        query.append_pair("why", why);
    }
    format!("{SIGN_IN}?{}", query.finish())
}

fn forbid_traces(response: &mut Response) {
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
}

/// What the form's address calls an error.
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
