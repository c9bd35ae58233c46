//! Outbound connections: every socket to another host is opened here, except those of the store,
//! the MySQL driver and the OpenTelemetry exporter. Names are resolved once, all addresses are
//! checked, and the connection goes to a checked address. No proxy from the environment, no
//! redirects, no cookies, no decompression, no added header but `Host`.

mod address;
mod body;
mod config;
mod connect;
mod error;
mod guarded_client;
mod http1;
mod oauth;
mod pool;
mod proxy;
mod target;
mod tls;

#[cfg(test)]
mod tests;

pub use crate::guarded_client::Guard;
pub use crate::proxy::{Direct, Route, parse_network};
pub use crate::tls::ClientCertificate;
pub use address::{Policy, RefusedUrl};
pub use body::{Body, BodyError};
pub use config::{Config, Reach};
pub use connect::{Connector, Stream};
pub use error::{Cause, CertificateError, ConnectError, SendError, SetupError, describe};
pub use guarded_client::{GuardedClient, GuardedError};
pub use http1::{Http1Error, MAX_READ_AHEAD, Payload, RequestHead, ResponseHead};
pub use oauth::{at_path, client_secret_basic, metadata_urls};
pub use pool::{Origin, PostHead, PostRequest};
pub use proxy::Proxy;
pub use target::{Addresses, Resolve, System, Target};
pub use tls::check_authorities;
