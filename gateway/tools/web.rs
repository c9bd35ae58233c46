//! The `web` server: requests to other hosts, and pages as text. Three independent checks restrict
//! the destination: of the URL's text (the `url` rule), of the addresses its name resolves to (the
//! guard of `egress`, which connects to a checked address), and again of every redirect.

mod config;
mod exchange;
mod fetch;
mod headers;
mod page;
mod reading;
mod request;
mod writer;

pub use config::Config;

use std::sync::Arc;

use http::HeaderValue;
use lockgate_egress::{Guard, GuardedClient, Resolve, System, parse_network};
use lockgate_policy::url::Url as Rule;

use crate::About;
use crate::server::ServerDefinition;
use headers::Headers;

/// State shared by both tools.
struct Web {
    config: Config,
    rule: Rule,
    client: GuardedClient,
    headers: Headers,
    user_agent: HeaderValue,
}

pub(crate) fn build(config: &Config, about: &About) -> Result<ServerDefinition, String> {
    resolving(config, about, Arc::new(System))
}

fn resolving(
    config: &Config,
    about: &About,
    resolver: Arc<dyn Resolve>,
) -> Result<ServerDefinition, String> {
    let networks = config.addresses.iter().filter_map(|text| parse_network(text));
    let guard = Guard::new(networks.collect());
    let Ok(user_agent) = HeaderValue::from_str(&config.user_agent) else {
        return Err("user_agent: is not a valid header value".into());
    };
    let web = Arc::new(Web {
        rule: Rule::compile(&config.urls())?,
        client: GuardedClient::new(
            Arc::clone(&about.connector),
            resolver,
            guard,
            config.open_proxy()?,
        ),
        headers: Headers::compile(&config.headers)?,
        user_agent,
        config: config.clone(),
    });
    Ok(ServerDefinition {
        instructions:
            "Access to web servers: `fetch` reads a page as text, `request` calls an API. Only \
                allowed hosts can be reached, and never addresses of the local network."
                .into(),
        tools: vec![Box::new(request::Request(Arc::clone(&web))), Box::new(fetch::Fetch(web))],
        ..ServerDefinition::default()
    })
}

#[cfg(test)]
pub(crate) mod tests;
