//! What the form to sign in says of the identity provider: that there is one, and why somebody
//! could not sign in there. Its words are ours; none come from the provider.

use lockgate_authn::Authenticator;
use url::Url;

/// What the form to sign in offers. Found in the extensions of a request.
#[derive(Clone)]
pub struct Offer {
    /// The host of the provider.
    pub(crate) provider: Option<String>,
    /// It can be asked to sign people out.
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

/// What the form says of an error. Nothing for a word that is none of ours.
pub(crate) fn explain(why: &str, provider: &str) -> String {
    let words = match why {
        "unreachable" => {
            "Lockgate could not reach PROVIDER, or could not use what it says of itself. Try again \
             in a moment; if it stays so, the operator of this gateway finds the cause in its log."
        }
        "keys" => {
            "Lockgate has no keys of PROVIDER to check its answer with. Try again in a moment; the \
             log of this gateway says why they cannot be fetched."
        }
        "busy" => "This gateway cannot sign anybody in just now. Try again in a moment.",
        "refused" => "PROVIDER did not let you in, or you have cancelled. Nothing was changed.",
        "answer" => {
            "PROVIDER gave an answer that is no sign-in. Try again; the log of this gateway says \
             what it was."
        }
        "client" => {
            "PROVIDER does not know this gateway, or not with this secret. Its operator has to \
             compare `admin.sign_in` with what is registered at PROVIDER."
        }
        "code" => "PROVIDER took too long, or has had this answer before. Sign in again.",
        "issuer" => {
            "The answer did not come from PROVIDER, so it was thrown away. Sign in again, from \
             this page."
        }
        "token" => {
            "PROVIDER's answer could not be verified as one about you for this gateway. The log of \
             this gateway says what is wrong with it."
        }
        "clock" => {
            "By the clock of this gateway, PROVIDER's answer is not valid yet or no more. The \
             operator has to set the clock, or `clock_skew` of the issuer."
        }
        "nonce" => {
            "PROVIDER's answer belongs to another sign-in, so it was thrown away. Sign in again."
        }
        "begun" => {
            "This browser has not begun that sign-in, or more than ten minutes ago, or it was \
             answered already. Sign in again, from this page."
        }
        "organisation" => {
            "Your account at PROVIDER names no organisation, and here everybody belongs to one. \
             Ask who runs PROVIDER to give you one; the log of this gateway names the claim."
        }
        "scopes" => {
            "Your account at PROVIDER lacks a scope that this gateway asks of everybody \
             (`auth.scopes.required`). Ask the operator of this gateway."
        }
        _ => return String::new(),
    };
    words.replace("PROVIDER", provider)
}
