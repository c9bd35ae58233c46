//! The exchange of a code for an ID token at the token endpoint. It is sent once, and redirects are
//! not followed. The access token in the response is dropped.

use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, StatusCode};
use lockgate_egress::client_secret_basic;
use serde_json::Value;
use url::form_urlencoded::Serializer;

use super::answer::read_error;
use super::metadata::{Metadata, SecretPlace};
use super::{Provider, SignInError};
use crate::discovery::policy_for;

pub(super) struct Granted {
    pub(super) id_token: String,
    /// `None` if the granted scopes are those requested.
    pub(super) scopes: Option<String>,
}

impl Provider {
    pub(super) async fn exchange(
        &self,
        metadata: &Metadata,
        code: &str,
        verifier: &str,
    ) -> Result<Granted, SignInError> {
        let (headers, form) = self.write(metadata.secret_place, code, verifier)?;
        let policy = policy_for(&metadata.token, &self.config.issuer);
        let sent = self.outside.post(&metadata.token, policy, headers, form).await;
        match sent {
            Ok((status, answer)) => read(status, &answer),
            Err(fault) => {
                Err(SignInError::Unreachable(format!("{}: {fault}", metadata.token.path())))
            }
        }
    }

    /// Builds the request, with the client secret where the provider requires it.
    fn write(
        &self,
        place: SecretPlace,
        code: &str,
        verifier: &str,
    ) -> Result<(HeaderMap, String), SignInError> {
        let config = &self.config;
        let mut headers = HeaderMap::new();
        let form = HeaderValue::from_static("application/x-www-form-urlencoded");
        headers.insert(CONTENT_TYPE, form);
        let mut body = Serializer::new(String::new());
        body.append_pair("grant_type", "authorization_code")
            .append_pair("code", code)
            .append_pair("redirect_uri", config.redirect.as_str())
            .append_pair("code_verifier", verifier);
        match (&config.client_secret, place) {
            (None, _) => {
                body.append_pair("client_id", &config.client_id);
            }
            (Some(secret), SecretPlace::Body) => {
                body.append_pair("client_id", &config.client_id);
                body.append_pair("client_secret", secret);
            }
            (Some(secret), SecretPlace::Header) => {
                let value = client_secret_basic(&config.client_id, secret);
                headers.insert(AUTHORIZATION, value.ok_or(SignInError::Client)?);
            }
            (Some(_), SecretPlace::Nowhere) => return Err(SignInError::Client),
        }
        Ok((headers, body.finish()))
    }
}

fn read(status: StatusCode, answer: &Value) -> Result<Granted, SignInError> {
    if status != StatusCode::OK {
        return Err(text(answer, "error").map_or(SignInError::Malformed, read_error));
    }
    let Some(id_token) = text(answer, "id_token") else { return Err(SignInError::Token) };
    let scopes = text(answer, "scope").map(str::to_owned);
    Ok(Granted { id_token: id_token.to_owned(), scopes })
}

fn text<'a>(answer: &'a Value, name: &str) -> Option<&'a str> {
    answer.get(name)?.as_str()
}

#[cfg(test)]
mod tests;
