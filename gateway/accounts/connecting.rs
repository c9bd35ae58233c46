//! Connecting an account in a browser: attempts between the authorization request and its response.
//! An attempt is used once, within ten minutes, by the browser that started it, at any gateway with
//! the same store.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use url::Url;

use crate::account::Account;
use crate::authorization::{
    AuthorizationRequest, authorization_endpoint, authorization_url, check_response, choose_scopes,
};
use crate::config::Method;
use crate::discovery::{AuthorizationServer, canonical};
use crate::error::{AccountError, Result};
use crate::grant::{Grant, StoredClient};
use crate::holder::{Holder, record_id};
use crate::random::{lookup_key, random_text};
use crate::records::{RecordPlace, Records};
use crate::registration::{CALLBACK_PATH, below};
use crate::token_endpoint::{ClientIdentity, Tokens, request_tokens};

/// Lifetime of an attempt.
const LIFETIME: Duration = Duration::from_secs(600);
/// Maximum number of attempts of one holder; beyond it, the oldest is dropped.
const MAX_OF_HOLDER: usize = 8;
/// Digits of the state in the name of an attempt's cookie.
const NAME_DIGITS: usize = 8;
/// Prefixes of the cookie names, for https and for loopback.
const PREFIXES: [&str; 2] = ["__Host-lockgate-connect-", "lockgate-connect-"];

/// The contents of the consent page.
#[derive(Clone, Debug)]
pub struct Consent {
    /// `None` where users enter a key.
    pub issuer: Option<String>,
    /// The address of the server.
    pub resource: String,
    /// The origin at which the user signs in.
    pub authorization_origin: Option<String>,
    pub scopes: Vec<String>,
}

/// A started attempt.
pub struct Started {
    /// The address of the authorization request.
    pub url: Url,
    /// The name and value of the cookie that identifies the browser.
    pub cookie: (String, String),
}

/// The query of an authorization response.
#[derive(Clone, Copy, Default)]
pub struct CallbackQuery<'a> {
    pub state: &'a str,
    pub code: Option<&'a str>,
    pub iss: Option<&'a str>,
    pub error: Option<&'a str>,
}

/// An authorization request that awaits its response.
#[derive(Serialize, Deserialize)]
pub(crate) struct Attempt {
    pub(crate) server: String,
    organisation: String,
    issuer: String,
    subject: String,
    authorization_server: String,
    resource: String,
    client: StoredClient,
    redirect: Url,
    scopes: Vec<String>,
    verifier: String,
    /// The hash of the cookie that identifies the browser.
    cookie: [u8; 32],
}

/// Takes the attempt of a response, if this browser started it.
pub(crate) async fn take(
    records: &Records,
    state: &str,
    cookie: Option<&str>,
) -> Result<Option<Attempt>> {
    let Some(cookie) = cookie else { return Ok(None) };
    let place = RecordPlace::new("attempt", state, "");
    let Some(attempt) = records.find::<Attempt>(&place).await? else { return Ok(None) };
    let is_taken = attempt.cookie == lookup_key(cookie) && records.remove(&place).await?;
    Ok(is_taken.then_some(attempt))
}

/// Returns the name of the cookie of the attempt with this state.
pub(crate) fn cookie_name(public_url: &Url, state: &str) -> String {
    let [secure, loopback] = PREFIXES;
    let prefix = if public_url.scheme() == "https" { secure } else { loopback };
    let digits: String = state.chars().take(NAME_DIGITS).collect();
    format!("{prefix}{digits}")
}

/// Describes the authorization that an account needs.
pub(crate) async fn describe(account: &Account) -> Result<Consent> {
    if account.server.config.method == Method::UserKey {
        let resource = canonical(&account.server.config.url);
        let scopes = Vec::new();
        return Ok(Consent { issuer: None, resource, authorization_origin: None, scopes });
    }
    let found = account.server.discovered().await?;
    let endpoint = authorization_endpoint(&found.server)?;
    let cap = account.server.config.scopes.as_deref();
    let scopes = choose_scopes(&account.needed_scopes(), &found, cap);
    Ok(Consent {
        issuer: Some(found.server.issuer.clone()),
        resource: found.resource.clone(),
        authorization_origin: Some(endpoint.origin().ascii_serialization()),
        scopes,
    })
}

/// Starts an attempt: returns the address of the authorization request.
pub(crate) async fn start(
    records: &Records,
    account: &Account,
    holder: &Holder,
    public_url: &Url,
) -> Result<Started> {
    let server = &account.server;
    let found = server.discovered().await?;
    authorization_endpoint(&found.server)?;
    let cap = server.config.scopes.as_deref();
    let scopes = choose_scopes(&account.needed_scopes(), &found, cap);
    let client = server.client(&found.server, &scopes).await?;
    let redirect = below(public_url, CALLBACK_PATH);
    let state = random_text()?;
    let verifier = random_text()?;
    let browser = random_text()?;
    let step_up = account.step_up();
    let request = AuthorizationRequest {
        client_id: &client.id,
        redirect: &redirect,
        scopes: &scopes,
        state: &state,
        verifier: &verifier,
        step_up: step_up.as_ref(),
    };
    let url = authorization_url(&found, &request)?;
    let attempt = Attempt {
        server: server.slug.clone(),
        organisation: holder.organisation.to_string(),
        issuer: holder.issuer.to_string(),
        subject: holder.subject.to_string(),
        authorization_server: found.server.issuer.clone(),
        resource: found.resource.clone(),
        client: StoredClient::new(&client),
        redirect,
        scopes,
        verifier,
        cookie: lookup_key(&browser),
    };
    let place = RecordPlace::new("attempt", &state, &record_id(holder, ""));
    records.keep(place, &attempt, LIFETIME, MAX_OF_HOLDER).await?;
    Ok(Started { url, cookie: (cookie_name(public_url, &state), browser) })
}

impl Attempt {
    pub(crate) fn holder(&self) -> Holder {
        Holder::new(&self.organisation, &self.issuer, &self.subject)
    }

    /// Exchanges the code of the response, and stores the grant. Returns whether it has scopes
    /// beyond those of the grant that it replaces.
    pub(crate) async fn finish(
        self,
        account: &Arc<Account>,
        query: CallbackQuery<'_>,
    ) -> Result<bool> {
        let found = account.server.discovered().await?;
        let server = &found.server;
        if server.issuer != self.authorization_server || found.resource != self.resource {
            let words = "the server has another authorization server since the start";
            return Err(AccountError::Invalid(words.into()));
        }
        let response = (query.iss, query.code, query.error);
        let client = self.client.clone().identity(&account.server.config);
        let code = check_response(&server.issuer, server.announces_issuer, response)?;
        let tokens = self.redeem(account, server, &client, code).await;
        if tokens.as_ref().is_err_and(|error| *error == AccountError::InvalidClient) {
            account.server.forget_client(&server.issuer, &client.id).await;
        }
        let tokens = tokens?;
        let mut grant = Grant::new(tokens, self.scopes, &found, client);
        let is_raised = account.lacks_scopes(&grant.scopes);
        grant.upgrades = account.next_upgrades();
        account.connect(grant).await?;
        Ok(is_raised)
    }

    async fn redeem(
        &self,
        account: &Account,
        server: &AuthorizationServer,
        client: &ClientIdentity,
        code: &str,
    ) -> Result<Tokens> {
        let parameters = [
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", self.redirect.as_str()),
            ("code_verifier", &*self.verifier),
            ("resource", &*self.resource),
        ];
        request_tokens(&account.server.fetcher, server, client, &parameters).await
    }
}
