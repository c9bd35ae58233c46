//! The contents of the store: organisations with equally many integrations. Active organisations
//! use a separate server per integration; the others share a server.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::Stand;
use super::api::Api;
use crate::run::progress;

/// Tools of the server that most integrations share.
pub const TOOLS: usize = 10;
/// The tool that every organisation calls.
pub const ECHO: &str = "own0__echo";

/// The size of the store.
#[derive(Clone, Copy)]
pub struct Plenty {
    pub organisations: usize,
    pub integrations: usize,
    /// Organisations that use their integrations; they come first.
    pub used: usize,
}

impl Plenty {
    pub fn count(self) -> usize {
        self.organisations * self.integrations
    }

    /// Returns the same size with only the first organisation.
    pub fn of_one(self) -> Self {
        Self { organisations: 1, used: 1, ..self }
    }
}

/// Returns the name of an organisation.
pub fn organisation(at: usize) -> String {
    format!("org-{at:04}")
}

/// Stores all integrations, with one request per organisation.
pub async fn fill(api: &mut Api, plenty: Plenty, stand: &Stand) -> anyhow::Result<()> {
    for at in 0..plenty.organisations {
        if at % 100 == 0 {
            progress(&format!("fill: {at} of {} organisations", plenty.organisations));
        }
        let servers: Vec<Value> = (0..plenty.integrations)
            .map(|number| describe(number, at < plenty.used, stand))
            .collect();
        let name = organisation(at);
        api.ask(Method::POST, "/organisations", &json!({"id": name}), StatusCode::CREATED).await?;
        let path = format!("/servers?organizationId={name}");
        api.ask(Method::PUT, &path, &json!({"servers": servers}), StatusCode::OK).await?;
    }
    Ok(())
}

fn describe(number: usize, is_used: bool, stand: &Stand) -> Value {
    let own = number.checked_sub(1).and_then(|number| stand.fixtures.get(number));
    let server = own.filter(|_| is_used).unwrap_or(&stand.echo);
    let name = format!("own{number}");
    json!({"name": name, "slug": name, "serverUrl": format!("http://{}/mcp", server.address)})
}
