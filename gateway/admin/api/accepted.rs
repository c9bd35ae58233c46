//! Query parameters and conditional headers that an operation supports, according to its
//! description. Unsupported ones are rejected before anything is done, because the client relies on
//! their effect.

use std::collections::{BTreeMap, BTreeSet};

use axum::extract::Request;
use axum::http::{Method, StatusCode};
use serde_json::Value;

use super::problem::Problem;

/// Headers that make a change conditional.
const CONDITIONS: [&str; 4] =
    ["if-match", "if-none-match", "if-unmodified-since", "idempotency-key"];
/// Limit on an unknown name in an error message, in characters.
const MAX_SHOWN: usize = 64;

/// The parameters of an operation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Accepted {
    /// The longest value of each, in characters.
    query: BTreeMap<String, Option<u64>>,
    /// In lower case.
    headers: BTreeSet<String>,
}

impl Accepted {
    /// Reads the parameters from the description of an operation.
    pub(crate) fn new(described: &Value) -> Self {
        let mut accepted = Self::default();
        let Some(Value::Array(parameters)) = described.get("parameters") else { return accepted };
        for parameter in parameters {
            let Some(Value::String(name)) = parameter.get("name") else { continue };
            let Some(Value::String(place)) = parameter.get("in") else { continue };
            match place.as_str() {
                "query" => {
                    let longest = parameter["schema"]["maxLength"].as_u64();
                    accepted.query.insert(name.clone(), longest);
                }
                "header" => drop(accepted.headers.insert(name.to_ascii_lowercase())),
                _ => {}
            }
        }
        accepted
    }

    /// Rejects parameters and conditions that the operation does not support.
    pub(crate) fn check(&self, request: &Request) -> Result<(), Problem> {
        let query = request.uri().query().unwrap_or("");
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let Some(longest) = self.query.get(&*name) else {
                return Err(refuse_parameter(&name));
            };
            if let &Some(longest) = longest
                && value.chars().count() as u64 > longest
            {
                let detail = format!("`{name}`: must not have more than {longest} characters");
                return Err(Problem::new(StatusCode::BAD_REQUEST, "INVALID_QUERY", detail));
            }
        }
        if matches!(*request.method(), Method::GET | Method::HEAD) {
            return Ok(());
        }
        for name in CONDITIONS {
            if request.headers().contains_key(name) && !self.headers.contains(name) {
                let detail = format!(
                    "`{name}`: this operation does not support this header, so nothing was done; \
                     send the request without it"
                );
                return Err(Problem::new(StatusCode::BAD_REQUEST, "INVALID_HEADER", detail));
            }
        }
        Ok(())
    }
}

fn refuse_parameter(name: &str) -> Problem {
    let name: String = name.chars().take(MAX_SHOWN).collect();
    let detail = format!(
        "`{name}`: this operation has no such parameter, so nothing was done; GET \
         /api/openapi.json lists its parameters"
    );
    Problem::new(StatusCode::BAD_REQUEST, "INVALID_QUERY", detail)
}
