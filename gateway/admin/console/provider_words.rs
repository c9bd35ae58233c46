//! Text of the sign-in form about the identity provider: its name and the errors of sign-in. None
//! of it comes from the provider.

use lockgate_authn::Authenticator;
use url::Url;

/// The sign-in methods that the form offers, stored in the extensions of a request.
#[derive(Clone)]
pub struct Offer {
    /// The host name of the provider.
    pub(crate) provider: Option<String>,
    /// The provider supports signing out.
    pub(crate) ends_sessions: bool,
    pub(crate) takes_keys: bool,
}

impl Offer {
    #[must_use]
    pub fn new(authenticator: &Authenticator) -> Self {
        let provider = authenticator.sign_in().map(|to| host_of(&to.issuer));
        let ends_sessions = authenticator.ends_sessions();
        Self { provider, ends_sessions, takes_keys: authenticator.takes_keys() }
    }
}

fn host_of(issuer: &str) -> String {
    let Ok(url) = Url::parse(issuer) else { return String::new() };
    url.host_str().unwrap_or("").to_owned()
}

/// Returns the sentence for an error code; empty for an unknown code.
pub(crate) fn explain(why: &str, provider: &str) -> String {
    let words = match why {
        "unreachable" => {
            "Lockgate could not reach PROVIDER, or could not read its metadata. Try again in a \
             moment. The log of this gateway has the cause."
        }
        "keys" => {
            "Lockgate could not fetch the keys of PROVIDER. Try again in a moment. The log of this \
             gateway has the cause."
        }
        "busy" => "Signing in is not available now. Try again in a moment.",
        "refused" => "PROVIDER refused to sign you in, or you cancelled. Nothing was changed.",
        "answer" => {
            "The answer of PROVIDER is not a sign-in. Try again. The log of this gateway has the \
             answer."
        }
        "client" => {
            "PROVIDER does not accept the client id or the secret of this gateway. The operator \
             has to compare `admin.sign_in` with the registration at PROVIDER."
        }
        "code" => "The sign-in at PROVIDER expired or was already used. Sign in again.",
        "issuer" => {
            "The answer did not come from PROVIDER and was discarded. Sign in again from this page."
        }
        "token" => {
            "The token of PROVIDER is not valid for this gateway. The log of this gateway has the \
             cause."
        }
        "clock" => {
            "The token of PROVIDER is not valid yet or has expired. The operator has to set the \
             clock, or `clock_skew` of the issuer."
        }
        "nonce" => {
            "The answer of PROVIDER belongs to another sign-in and was discarded. Sign in again."
        }
        "begun" => {
            "This browser did not start that sign-in in the last ten minutes, or it was already \
             completed. Sign in again from this page."
        }
        "organisation" => {
            "Your account at PROVIDER has no organisation, which this gateway requires. Ask the \
             administrator of PROVIDER. The log of this gateway names the claim."
        }
        "scopes" => {
            "Your account at PROVIDER lacks a scope that this gateway requires \
             (`auth.scopes.required`). Ask the operator of this gateway."
        }
        _ => return String::new(),
    };
    words.replace("PROVIDER", provider)
}
