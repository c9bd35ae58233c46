//! Exchanges a caller's own access token for one of the server: at the server's authorization
//! server (RFC 8693), or for an identity assertion of the caller's provider, which that server
//! accepts (ID-JAG, extension `enterprise-managed-authorization`). The token goes to the issuers
//! that the operator named alone, and never to a server.

use std::time::SystemTime;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use lockgate_text::{date, json};
use serde_json::Value;

use super::Account;
use crate::config::Method;
use crate::discovery::Discovered;
use crate::error::{AccountError, Result};
use crate::grant::Grant;
use crate::holder::SubjectToken;
use crate::token_endpoint::{
    ClientIdentity, JWT_BEARER, read_tokens, request_answer, request_tokens,
};

const EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const ACCESS_TOKEN: &str = "urn:ietf:params:oauth:token-type:access_token";
const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";
/// The `typ` of an identity assertion.
const ID_JAG_TYPE: &str = "oauth-id-jag+jwt";

impl Account {
    /// Obtains a token for the holder, valid no longer than the holder's own.
    pub(super) async fn exchange(&self) -> Result<bool> {
        let subject = self.holder.as_ref().and_then(|holder| holder.token.as_deref());
        // The gateway allows for clocks that differ, which issuers need not.
        let subject = subject.filter(|subject| subject.expires_at > SystemTime::now());
        let Some(subject) = subject else { return Err(AccountError::NoToken) };
        let server = &self.server;
        let found = server.discovered().await?;
        let scopes = self.own_scopes(&found);
        let client = server.client(&found.server, &scopes).await?;
        let tokens = if server.config.method == Method::IdJag {
            let assertion = self.assert_identity(subject, &found, &client, &scopes).await?;
            let parameters = [("grant_type", JWT_BEARER), ("assertion", &*assertion)];
            request_tokens(&server.fetcher, &found.server, &client, &parameters).await?
        } else {
            let mut parameters = subject_parameters(subject, &found, &scopes);
            parameters.push(("requested_token_type", ACCESS_TOKEN.into()));
            parameters.extend(server.config.audience.clone().map(|name| ("audience", name)));
            let answer =
                request_answer(&server.fetcher, &found.server, &client, &parameters).await?;
            check_kind(&answer, ACCESS_TOKEN)?;
            read_tokens(&answer)?
        };
        let granted = tokens.scopes.iter().flatten();
        if !scopes.is_empty() && granted.into_iter().any(|scope| !scopes.contains(scope)) {
            let words = "the exchanged token has scopes that were not requested";
            return Err(AccountError::Invalid(words.into()));
        }
        let mut grant = Grant::new(tokens, scopes, &found, client);
        grant.limit(subject.expires_at);
        if let Some(old) = self.current().0 {
            grant.connected_at = old.connected_at;
        }
        self.write(Some(grant), None, None).await
    }

    /// Obtains an identity assertion for the server's authorization server.
    async fn assert_identity(
        &self,
        subject: &SubjectToken,
        found: &Discovered,
        client: &ClientIdentity,
        scopes: &[String],
    ) -> Result<String> {
        let Some((provider, own)) = self.server.provider().await? else {
            return Err(AccountError::Setup("`auth.provider` is not set".into()));
        };
        // The provider receives no token of another issuer.
        if self.holder.as_ref().is_none_or(|holder| *holder.issuer != *provider.issuer) {
            return Err(AccountError::OtherIssuer(provider.issuer.clone()));
        }
        let mut parameters = subject_parameters(subject, found, scopes);
        parameters.push(("requested_token_type", ID_JAG.into()));
        parameters.push(("audience", found.server.issuer.clone()));
        let answer = request_answer(&self.server.fetcher, &provider, own, &parameters).await?;
        check_kind(&answer, ID_JAG)?;
        let assertion = answer["access_token"].as_str().unwrap_or("");
        check_assertion(assertion, found, client)?;
        Ok(assertion.to_owned())
    }
}

fn subject_parameters(
    subject: &SubjectToken,
    found: &Discovered,
    scopes: &[String],
) -> Vec<(&'static str, String)> {
    let mut parameters = vec![
        ("grant_type", EXCHANGE.to_owned()),
        ("subject_token", subject.secret.expose().to_owned()),
        ("subject_token_type", ACCESS_TOKEN.to_owned()),
        ("resource", found.resource.clone()),
    ];
    if !scopes.is_empty() {
        parameters.push(("scope", scopes.join(" ")));
    }
    parameters
}

/// Checks that the answer has the kind of token that was requested.
fn check_kind(answer: &Value, kind: &str) -> Result<()> {
    if answer["issued_token_type"] == kind {
        return Ok(());
    }
    Err(AccountError::Invalid(format!("the exchange did not return a token of the type {kind}")))
}

/// Checks what an identity assertion is for. Its signature is checked by its receiver.
fn check_assertion(assertion: &str, found: &Discovered, client: &ClientIdentity) -> Result<()> {
    let mut parts = assertion.split('.').map(|part| {
        let bytes = URL_SAFE_NO_PAD.decode(part).unwrap_or_default();
        json::from_slice::<Value>(&bytes).unwrap_or(Value::Null)
    });
    let header = parts.next().unwrap_or(Value::Null);
    let claims = parts.next().unwrap_or(Value::Null);
    let now = date::now_ms() / 1000;
    let issuer = &found.server.issuer;
    for (name, is_right) in [
        ("typ", header["typ"] == ID_JAG_TYPE),
        ("aud", claims["aud"] == **issuer || claims["aud"] == serde_json::json!([issuer])),
        ("resource", claims["resource"] == *found.resource),
        ("client_id", claims["client_id"] == *client.id),
        ("exp", claims["exp"].as_i64().is_some_and(|expiry| expiry > now)),
    ] {
        if !is_right {
            let words = format!("the identity assertion has another `{name}` than requested");
            return Err(AccountError::Invalid(words));
        }
    }
    Ok(())
}
