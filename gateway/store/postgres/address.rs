//! The URL of a database, with the parameters of libpq
//! (postgresql.org/docs/current/libpq-connect.html).

use std::path::PathBuf;

use lockgate_text::percent;
use url::Url;

use crate::error::{Result, StoreError};

const PORT: u16 = 5432;

/// When TLS is used, and which part of the server's certificate is verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SslMode {
    Disable,
    /// Uses TLS if the server supports it.
    Prefer,
    /// Verifies no certificate.
    Require,
    /// Verifies the certificate, but not its name.
    VerifyCa,
    VerifyFull,
}

#[derive(Clone)]
pub(super) struct Address {
    /// A host, or the folder of a socket.
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) user: String,
    pub(super) password: String,
    pub(super) database: String,
    pub(super) application_name: String,
    /// Command-line options of the server process.
    pub(super) options: String,
    pub(super) ssl_mode: SslMode,
    pub(super) root_cert: Option<PathBuf>,
    pub(super) client_cert: Option<PathBuf>,
    pub(super) client_key: Option<PathBuf>,
}

impl Address {
    /// Parses a URL.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] with the invalid part.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let Ok(url) = Url::parse(text) else { return Err(invalid("is not a URL")) };
        let mut address = Self {
            host: decode(url.host_str().unwrap_or("localhost"))?,
            port: url.port().unwrap_or(PORT),
            user: decode(url.username())?,
            password: decode(url.password().unwrap_or(""))?,
            database: decode(url.path().trim_start_matches('/'))?,
            application_name: "lockgate".into(),
            options: String::new(),
            ssl_mode: SslMode::Prefer,
            root_cert: None,
            client_cert: None,
            client_key: None,
        };
        for (name, value) in url.query_pairs() {
            address.set(&name, value.into_owned())?;
        }
        if address.user.is_empty() {
            return Err(invalid("names no user"));
        }
        if address.database.is_empty() {
            address.database.clone_from(&address.user);
        }
        if address.client_cert.is_some() != address.client_key.is_some() {
            return Err(invalid("needs both sslcert and sslkey"));
        }
        address.host = address.host.trim_matches(['[', ']']).to_owned();
        Ok(address)
    }

    fn set(&mut self, name: &str, value: String) -> Result<()> {
        match name {
            "sslmode" | "ssl-mode" => self.ssl_mode = parse_ssl_mode(&value)?,
            "sslrootcert" | "ssl-root-cert" | "ssl-ca" => self.root_cert = Some(value.into()),
            "sslcert" | "ssl-cert" => self.client_cert = Some(value.into()),
            "sslkey" | "ssl-key" => self.client_key = Some(value.into()),
            "host" | "hostaddr" => self.host = value,
            "port" => self.port = value.parse().map_err(|_| invalid("has an invalid port"))?,
            "dbname" => self.database = value,
            "user" => self.user = value,
            "password" => self.password = value,
            "application_name" => self.application_name = value,
            "options" => self.options = format!("{} {value}", self.options).trim().to_owned(),
            _ => tracing::warn!(parameter = name, "`store.url` has an unknown parameter"),
        }
        Ok(())
    }

    /// Returns whether the host is the folder of a socket.
    pub(super) fn is_socket(&self) -> bool {
        self.host.starts_with('/')
    }
}

fn parse_ssl_mode(text: &str) -> Result<SslMode> {
    match text {
        "disable" | "allow" => Ok(SslMode::Disable),
        "prefer" => Ok(SslMode::Prefer),
        "require" => Ok(SslMode::Require),
        "verify-ca" => Ok(SslMode::VerifyCa),
        "verify-full" => Ok(SslMode::VerifyFull),
        _ => Err(invalid("has an unknown sslmode")),
    }
}

fn decode(part: &str) -> Result<String> {
    let bytes = percent::decode_strictly(part);
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    text.ok_or_else(|| invalid("has an invalid percent encoding"))
}

fn invalid(mistake: &str) -> StoreError {
    StoreError::Unavailable(format!(
        "`store.url` {mistake}; it must be postgres://USER:PASSWORD@HOST/DATABASE"
    ))
}

#[cfg(test)]
mod tests;
