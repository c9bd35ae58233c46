//! PostgreSQL's protocol, version 3: one session, the extended protocol only, all values as text.
//! Validates every length, and buffers no message above the limits.

use std::io;

use bytes::BytesMut;
use fallible_iterator::FallibleIterator;
use lockgate_egress::{Connector, Policy, Stream, Target};
use postgres_protocol::IsNull;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256};
use postgres_protocol::message::backend::{ErrorFields, Header, Message};
use postgres_protocol::message::frontend;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::database::config::Network;
use crate::tool::first_chars;

/// Maximum size of messages other than rows.
const MAX_MESSAGE: usize = 1 << 20;

#[derive(Debug)]
pub(super) enum WireError {
    /// The session is lost or unusable.
    Lost(String),
    /// A message exceeds the limit. The messages after it cannot be read, so the session is
    /// unusable.
    Large,
    /// The server refused a statement.
    Refused { code: String, message: String },
}

impl From<io::Error> for WireError {
    fn from(error: io::Error) -> Self {
        lost(error)
    }
}

fn lost(error: impl std::fmt::Display) -> WireError {
    WireError::Lost(error.to_string())
}

/// Identifies a session at its server, for a request to cancel its statement.
#[derive(Debug)]
pub(super) struct Handle {
    process: i32,
    secret: i32,
}

pub(super) struct Session {
    stream: Stream,
    input: BytesMut,
    pub(super) output: BytesMut,
    pub(super) handle: Handle,
    /// Maximum size of a received message.
    pub(super) max_message: usize,
}

impl Session {
    pub(super) async fn open(connector: &Connector, network: &Network) -> Result<Self, WireError> {
        let stream = dial(connector, network).await?;
        let handle = Handle { process: 0, secret: 0 };
        let input = BytesMut::with_capacity(8192);
        let output = BytesMut::with_capacity(1024);
        let mut session = Self { stream, input, output, handle, max_message: MAX_MESSAGE };
        let parameters = [
            ("user", network.user.as_str()),
            ("database", network.database.as_str()),
            ("client_encoding", "UTF8"),
            ("application_name", "lockgate"),
        ];
        frontend::startup_message(parameters, &mut session.output)?;
        session.log_in(network).await?;
        loop {
            match session.next().await? {
                Message::BackendKeyData(key) => {
                    session.handle = Handle { process: key.process_id(), secret: key.secret_key() };
                }
                Message::ParameterStatus(_) => {}
                Message::ReadyForQuery(_) => return Ok(session),
                _ => return Err(lost("an unexpected message at the start")),
            }
        }
    }

    async fn log_in(&mut self, network: &Network) -> Result<(), WireError> {
        let password = network.password.as_bytes();
        let mut scram = None;
        loop {
            match self.next().await? {
                Message::AuthenticationOk => return Ok(()),
                Message::AuthenticationCleartextPassword if network.tls => {
                    frontend::password_message(password, &mut self.output)?;
                }
                Message::AuthenticationMd5Password(body) => {
                    let hash = md5_hash(network.user.as_bytes(), password, body.salt());
                    frontend::password_message(hash.as_bytes(), &mut self.output)?;
                }
                Message::AuthenticationSasl(body) => {
                    if !body.mechanisms().any(|name| Ok(name == SCRAM_SHA_256))? {
                        return Err(lost("the server offers no SCRAM-SHA-256"));
                    }
                    let state = ScramSha256::new(password, ChannelBinding::unsupported());
                    frontend::sasl_initial_response(
                        SCRAM_SHA_256,
                        state.message(),
                        &mut self.output,
                    )?;
                    scram = Some(state);
                }
                Message::AuthenticationSaslContinue(body) => {
                    let Some(state) = &mut scram else { return Err(lost("SASL out of order")) };
                    state.update(body.data())?;
                    frontend::sasl_response(state.message(), &mut self.output)?;
                }
                Message::AuthenticationSaslFinal(body) => {
                    let Some(state) = &mut scram else { return Err(lost("SASL out of order")) };
                    state.finish(body.data())?;
                }
                _ => return Err(lost("the server requires an unsupported authentication method")),
            }
        }
    }

    /// Queues a statement without parameters and rows.
    pub(super) fn add(&mut self, sql: &str) -> Result<(), WireError> {
        frontend::parse("", sql, [], &mut self.output)?;
        self.bind("", &[])?;
        frontend::execute("", 0, &mut self.output)?;
        Ok(())
    }

    /// Queues the preparation of a statement, and a description of its parameters and columns.
    pub(super) fn prepare(&mut self, name: &str, sql: &str) -> Result<(), WireError> {
        frontend::parse(name, sql, [], &mut self.output)?;
        frontend::describe(b'S', name, &mut self.output)?;
        Ok(())
    }

    /// Binds text to a prepared statement; all columns are returned as text.
    pub(super) fn bind(
        &mut self,
        statement: &str,
        values: &[Option<String>],
    ) -> Result<(), WireError> {
        let output = &mut self.output;
        match frontend::bind("", statement, [0], values, write_parameter, [0], output) {
            Ok(()) => Ok(()),
            Err(_) => Err(lost("the parameters do not fit into a message")),
        }
    }

    pub(super) fn execute(&mut self, max_rows: i32) -> Result<(), WireError> {
        frontend::execute("", max_rows, &mut self.output)?;
        Ok(())
    }

    pub(super) fn sync(&mut self) {
        frontend::sync(&mut self.output);
    }

    /// Sends the queued messages, and returns the next relevant message.
    pub(super) async fn next(&mut self) -> Result<Message, WireError> {
        if !self.output.is_empty() {
            self.stream.write_all(&self.output).await?;
            self.stream.flush().await?;
            self.output.clear();
        }
        loop {
            if let Some(header) = Header::parse(&self.input)? {
                let Ok(length) = usize::try_from(header.len()) else {
                    return Err(WireError::Large);
                };
                if length > self.max_message {
                    return Err(WireError::Large);
                }
                match Message::parse(&mut self.input)? {
                    Some(Message::NoticeResponse(_) | Message::NotificationResponse(_)) => continue,
                    Some(Message::ErrorResponse(body)) => return Err(refused(body.fields())),
                    Some(message) => return Ok(message),
                    None => {}
                }
            }
            if self.stream.read_buf(&mut self.input).await? == 0 {
                return Err(lost("the server closed the connection"));
            }
        }
    }

    /// Reads until the server is ready. Returns the first refusal on the way.
    pub(super) async fn ready(&mut self) -> Result<u8, WireError> {
        let mut first = None;
        loop {
            match self.next().await {
                Ok(Message::ReadyForQuery(body)) => {
                    return match first {
                        Some(refused) => Err(refused),
                        None => Ok(body.status()),
                    };
                }
                Ok(_) => {}
                Err(lost @ (WireError::Lost(_) | WireError::Large)) => return Err(lost),
                Err(refused) => first = first.or(Some(refused)),
            }
        }
    }
}

impl Session {
    /// Closes the session, and waits until the server has ended it. Cancel-safe.
    pub(super) async fn end(&mut self) {
        let _gone = self.stream.shutdown().await;
        // Discards rows in transit.
        while let Ok(1..) = self.stream.read_buf(&mut self.input).await {
            self.input.clear();
        }
    }
}

impl Handle {
    /// Requests the server to cancel the session's statement.
    pub(super) async fn cancel(&self, connector: &Connector, network: &Network) {
        let Ok(mut stream) = dial(connector, network).await else { return };
        let mut buffer = BytesMut::new();
        frontend::cancel_request(self.process, self.secret, &mut buffer);
        // The server responds by closing. If the request is lost, the statement's timeout ends it.
        if stream.write_all(&buffer).await.is_ok() && stream.flush().await.is_ok() {
            let _closed = stream.read_u8().await;
        }
    }
}

async fn dial(connector: &Connector, network: &Network) -> Result<Stream, WireError> {
    let host = if network.host.contains(':') {
        format!("[{}]", network.host)
    } else {
        network.host.clone()
    };
    let scheme = if network.tls { "https" } else { "http" };
    let url = url::Url::parse(&format!("{scheme}://{host}:{}/", network.port)).map_err(lost)?;
    let target = Target::new(&url).map_err(lost)?;
    if !network.tls {
        return connector.connect(&target, Policy::Operator).await.map_err(lost);
    }
    let mut request = BytesMut::new();
    frontend::ssl_request(&mut request);
    connector.connect_upgraded(&target, Policy::Operator, &request, b'S').await.map_err(lost)
}

fn write_parameter(
    value: &Option<String>,
    buffer: &mut BytesMut,
) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
    Ok(match value {
        Some(text) => {
            buffer.extend_from_slice(text.as_bytes());
            IsNull::No
        }
        None => IsNull::Yes,
    })
}

fn refused(mut fields: ErrorFields<'_>) -> WireError {
    let mut code = String::new();
    let mut message = String::new();
    let mut hint = String::new();
    while let Ok(Some(field)) = fields.next() {
        let part = match field.type_() {
            b'C' => &mut code,
            b'M' => &mut message,
            b'H' => &mut hint,
            _ => continue,
        };
        *part = first_chars(&String::from_utf8_lossy(field.value_bytes()), 500).to_owned();
    }
    if !hint.is_empty() {
        message = format!("{message} ({hint})");
    }
    WireError::Refused { code, message }
}
