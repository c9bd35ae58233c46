//! The local addresses of a configuration's gateway, for commands that contact a running gateway.
//! Mistakes elsewhere in the configuration, such as a variable that is only set for the gateway,
//! are ignored.

use std::net::{Ipv4Addr, SocketAddr};

use crate::load;
use crate::loaded::Sources;
use crate::problem::Report;
use crate::raw::{ApiPlace, Profile};

const NEEDED: &[&[&str]] = &[&["listen"], &["admin", "listen"], &["admin", "api"], &["profile"]];

/// The URLs of a gateway, without a path.
#[derive(Debug, PartialEq, Eq)]
pub struct RunningAddresses {
    pub clients: String,
    /// The API's URL: on `admin.listen`, unless the clients' address serves the API.
    pub api: String,
}

/// Reads the addresses from the sources. The default address is used without any configuration.
///
/// # Errors
/// A file cannot be read, or contains no valid address.
pub fn find_addresses(sources: &Sources) -> Result<RunningAddresses, Report> {
    let root = load::read_root(sources, NEEDED)?;
    let scheme = if root.http.tls.is_some() { "https" } else { "http" };
    let clients = url_of(scheme, &root.listen);
    let beside_clients = match root.admin.api {
        ApiPlace::Auto => root.profile == Profile::Development,
        ApiPlace::Everywhere => true,
        ApiPlace::Off => false,
    };
    let api = match &root.admin.listen {
        Some(listen) if !beside_clients => url_of(scheme, listen),
        _ => clients.clone(),
    };
    Ok(RunningAddresses { clients, api })
}

fn url_of(scheme: &str, listen: &str) -> String {
    match listen.parse::<SocketAddr>() {
        Ok(address) if address.ip().is_unspecified() => {
            format!("{scheme}://{}:{}", Ipv4Addr::LOCALHOST, address.port())
        }
        _ => format!("{scheme}://{listen}"),
    }
}
