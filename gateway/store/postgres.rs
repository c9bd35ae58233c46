//! A connection to PostgreSQL: statements, and notifications of changes.

mod address;

use std::io;
use std::sync::Arc;

use fallible_iterator::FallibleIterator;
use lockgate_postgres::{
    ByteStream, DataRowBody, Login, Message, RowDescriptionBody, Session, WireError, ssl_request,
};
use lockgate_text::{hex, pem};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream, lookup_host};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::error::{Result, StoreError};
use crate::value::{Outcome, Row, Value};
use address::{Address, SslMode};

/// Maximum size of a received message. Lists of an integration take 2 MiB, as digits.
const MAX_MESSAGE: usize = 16 << 20;
/// Maximum number of executions between two responses.
const MAX_BATCH: usize = 100;
// Types of the schema (pg_type.dat of PostgreSQL).
const BYTEA: u32 = 17;
const BIGINT: u32 = 20;
const SMALLINT: u32 = 21;
const INTEGER: u32 = 23;
const TEXT: u32 = 25;

pub(crate) struct PostgresConnection {
    session: Session,
}

impl PostgresConnection {
    pub(crate) async fn open(url: &str) -> Result<Self> {
        let address = Address::parse(url)?;
        let (stream, is_encrypted) = connect(&address).await?;
        let mut parameters = vec![("application_name", address.application_name.as_str())];
        if !address.options.is_empty() {
            parameters.push(("options", &address.options));
        }
        let login = Login {
            user: &address.user,
            password: &address.password,
            database: &address.database,
            is_encrypted,
            parameters: &parameters,
        };
        let mut session = Session::start(stream, login).await?;
        session.max_message = MAX_MESSAGE;
        Ok(Self { session })
    }

    /// Runs statements as a single transaction, unless they begin or end transactions.
    pub(crate) async fn run(&mut self, sql: &str) -> Result<()> {
        self.session.query(sql)?;
        self.session.ready().await?;
        Ok(())
    }

    pub(crate) async fn query(&mut self, sql: &str, values: &[Value]) -> Result<Outcome> {
        let session = &mut self.session;
        session.prepare("", sql, values.iter().map(type_of))?;
        let texts: Vec<_> = values.iter().map(to_text).collect();
        session.bind("", &texts)?;
        session.execute(0)?;
        session.sync();
        let mut outcome = Outcome::default();
        let mut columns = Columns::default();
        loop {
            match session.next().await {
                Ok(Message::RowDescription(body)) => columns = Columns::read(&body)?,
                Ok(Message::DataRow(body)) => outcome.rows.push(columns.read_row(&body)?),
                Ok(Message::CommandComplete(body)) => {
                    outcome.affected = count(body.tag().unwrap_or_default());
                }
                Ok(Message::ReadyForQuery(_)) => return Ok(outcome),
                Ok(_) => {}
                Err(refused @ WireError::Refused { .. }) => {
                    session.ready().await?;
                    return Err(refused.into());
                }
                Err(lost) => return Err(lost.into()),
            }
        }
    }

    pub(crate) async fn execute_each(&mut self, sql: &str, rows: &[Vec<Value>]) -> Result<()> {
        let session = &mut self.session;
        let Some(first) = rows.first() else { return Ok(()) };
        session.prepare("", sql, first.iter().map(type_of))?;
        // The responses to a batch fit into the buffers of the connection.
        for batch in rows.chunks(MAX_BATCH) {
            for values in batch {
                let texts: Vec<_> = values.iter().map(to_text).collect();
                session.bind("", &texts)?;
                session.execute(0)?;
            }
            session.sync();
            session.ready().await?;
        }
        Ok(())
    }

    /// Returns whether the server still answers.
    pub(crate) async fn is_alive(&mut self) -> bool {
        self.session.sync();
        self.session.ready().await.is_ok()
    }

    /// Waits for a notification. Cancel-safe.
    pub(crate) async fn wait_for_notification(&mut self) -> Result<()> {
        Ok(self.session.wait_for_notification().await?)
    }
}

/// The columns of a result.
#[derive(Default)]
struct Columns {
    names: Arc<[String]>,
    types: Vec<u32>,
}

impl Columns {
    fn read(body: &RowDescriptionBody) -> Result<Self, WireError> {
        let mut names = Vec::new();
        let mut types = Vec::new();
        let mut fields = body.fields();
        while let Some(field) = fields.next()? {
            names.push(field.name().to_owned());
            types.push(field.type_oid());
        }
        Ok(Self { names: names.into(), types })
    }

    fn read_row(&self, body: &DataRowBody) -> Result<Row, WireError> {
        let texts = lockgate_postgres::read_texts(body)?;
        let values = texts.into_iter().zip(&self.types).map(|(text, kind)| match text {
            Some(text) => from_text(text, *kind),
            None => Value::Null,
        });
        Ok(Row { columns: Arc::clone(&self.names), values: values.collect() })
    }
}

fn type_of(value: &Value) -> u32 {
    match value {
        Value::Null => 0,
        Value::Integer(_) => BIGINT,
        Value::Text(_) => TEXT,
        Value::Bytes(_) => BYTEA,
    }
}

fn to_text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::Integer(number) => Some(number.to_string()),
        Value::Text(text) => Some(text.clone()),
        Value::Bytes(bytes) => Some(format!("\\x{}", hex::encode(bytes))),
    }
}

/// Converts a column. A malformed value remains text, which fails where another type is read.
fn from_text(text: &str, kind: u32) -> Value {
    let value = match kind {
        SMALLINT | INTEGER | BIGINT => text.parse().ok().map(Value::Integer),
        BYTEA => {
            let digits = text.strip_prefix("\\x").map(str::as_bytes);
            digits.and_then(hex::decode).map(Value::Bytes)
        }
        _ => None,
    };
    value.unwrap_or_else(|| Value::Text(text.to_owned()))
}

/// Returns the number of rows in the tag of a completed command, such as `INSERT 0 1`.
fn count(tag: &str) -> u64 {
    let number = tag.rsplit(' ').next().unwrap_or("");
    number.parse().unwrap_or(0)
}

/// Connects, and returns whether the connection is encrypted. Sockets need no encryption.
async fn connect(address: &Address) -> Result<(Box<dyn ByteStream>, bool)> {
    if address.is_socket() {
        let path = format!("{}/.s.PGSQL.{}", address.host, address.port);
        let stream = UnixStream::connect(path).await.map_err(unavailable)?;
        return Ok((Box::new(stream), false));
    }
    let mut tcp = connect_host(&address.host, address.port).await?;
    if address.ssl_mode == SslMode::Disable {
        return Ok((Box::new(tcp), false));
    }
    tcp.write_all(&ssl_request()).await.map_err(unavailable)?;
    match tcp.read_u8().await.map_err(unavailable)? {
        b'S' => Ok((Box::new(secure(tcp, address).await?), true)),
        b'N' if address.ssl_mode == SslMode::Prefer => Ok((Box::new(tcp), false)),
        _ => Err(StoreError::of_tls("the server does not support it")),
    }
}

#[allow(clippy::disallowed_methods, reason = "the database of the operator's configuration")]
async fn connect_host(host: &str, port: u16) -> Result<TcpStream> {
    let Ok(found) = lookup_host((host, port)).await else {
        return Err(StoreError::Unavailable("its host name cannot be resolved".into()));
    };
    let found: Vec<_> = found.collect();
    let tcp = TcpStream::connect(found.as_slice()).await.map_err(unavailable)?;
    tcp.set_nodelay(true).map_err(unavailable)?;
    Ok(tcp)
}

#[allow(clippy::needless_pass_by_value, reason = "the form that map_err requires")]
fn unavailable(error: io::Error) -> StoreError {
    StoreError::Unavailable(error.kind().to_string())
}

// TLS with a server. `sslmode` decides which part of the certificate is verified; only
// `verify-full` protects from an attacker on the network.

/// Does the handshake.
async fn secure(tcp: TcpStream, address: &Address) -> Result<TlsStream<TcpStream>> {
    let Ok(name) = ServerName::try_from(address.host.clone()) else {
        return Err(StoreError::of_tls("the host is not a valid name"));
    };
    let own = address.clone();
    let config = tokio::task::spawn_blocking(move || read_config(&own)).await;
    let config = config.map_err(|_| StoreError::stopping())??;
    let secured = TlsConnector::from(Arc::new(config)).connect(name, tcp).await;
    secured.map_err(|error| StoreError::of_tls(&error.to_string()))
}

fn read_config(address: &Address) -> Result<ClientConfig> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let versions = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions();
    let builder = versions.map_err(refuse)?;
    let builder = match address.ssl_mode {
        SslMode::VerifyFull => builder.with_root_certificates(read_authorities(address)?),
        SslMode::VerifyCa => {
            let authorities = Arc::new(read_authorities(address)?);
            let verifier =
                WebPkiServerVerifier::builder_with_provider(authorities, Arc::clone(&provider));
            let verifier = verifier.build().map_err(refuse)?;
            let lenient = Lenient { provider, authorities: Some(verifier) };
            builder.dangerous().with_custom_certificate_verifier(Arc::new(lenient))
        }
        SslMode::Disable | SslMode::Prefer | SslMode::Require => {
            let lenient = Lenient { provider, authorities: None };
            builder.dangerous().with_custom_certificate_verifier(Arc::new(lenient))
        }
    };
    let Some(cert) = &address.client_cert else { return Ok(builder.with_no_client_auth()) };
    let Some(key) = &address.client_key else { return Ok(builder.with_no_client_auth()) };
    let chain = pem::read_chain(cert).map_err(refuse)?;
    let key = pem::read_key(key).map_err(refuse)?;
    builder.with_client_auth_cert(chain, key).map_err(refuse)
}

/// Returns the authorities of `sslrootcert`, or else the system's.
fn read_authorities(address: &Address) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    match &address.root_cert {
        Some(file) => {
            for authority in pem::read_chain(file).map_err(refuse)? {
                roots.add(authority).map_err(refuse)?;
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    Ok(roots)
}

#[allow(clippy::needless_pass_by_value, reason = "the form that map_err requires")]
fn refuse(error: impl ToString) -> StoreError {
    StoreError::of_tls(&error.to_string())
}

/// Verifies the certificate for any name, or not at all.
#[derive(Debug)]
struct Lenient {
    provider: Arc<CryptoProvider>,
    authorities: Option<Arc<WebPkiServerVerifier>>,
}

impl ServerCertVerifier for Lenient {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(verifier) = &self.authorities else { return Ok(ServerCertVerified::assertion()) };
        match verifier.verify_server_cert(certificate, chain, name, ocsp, now) {
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
