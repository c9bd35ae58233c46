//! A session: its start, its messages, and requests to cancel its statements.

use std::io;

use bytes::BytesMut;
use fallible_iterator::FallibleIterator;
use postgres_protocol::IsNull;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256};
use postgres_protocol::message::backend::{DataRowBody, ErrorFields, Header, Message};
use postgres_protocol::message::frontend;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Maximum size of messages at the start of a session.
const MAX_MESSAGE: usize = 1 << 20;
/// Maximum length of a part of an error, in characters.
const MAX_ERROR: usize = 500;

/// A connection to a server, plain or encrypted.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for S {}

/// The credentials and settings of a new session.
#[derive(Clone, Copy)]
pub struct Login<'a> {
    pub user: &'a str,
    pub password: &'a str,
    pub database: &'a str,
    /// Whether the stream is encrypted. A password is never sent in clear text over others.
    pub is_encrypted: bool,
    /// Further parameters, such as `application_name`.
    pub parameters: &'a [(&'a str, &'a str)],
}

#[derive(Debug)]
pub enum WireError {
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
pub struct Handle {
    process: i32,
    secret: i32,
}

pub struct Session {
    stream: Box<dyn ByteStream>,
    input: BytesMut,
    output: BytesMut,
    pub handle: Handle,
    /// Maximum size of a received message.
    pub max_message: usize,
}

impl Session {
    /// Logs in over a stream.
    pub async fn start(stream: Box<dyn ByteStream>, login: Login<'_>) -> Result<Self, WireError> {
        let handle = Handle { process: 0, secret: 0 };
        let input = BytesMut::with_capacity(8192);
        let output = BytesMut::with_capacity(1024);
        let mut session = Self { stream, input, output, handle, max_message: MAX_MESSAGE };
        let own = [("user", login.user), ("database", login.database), ("client_encoding", "UTF8")];
        let parameters = own.iter().chain(login.parameters).copied();
        frontend::startup_message(parameters, &mut session.output)?;
        session.log_in(login).await?;
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

    async fn log_in(&mut self, login: Login<'_>) -> Result<(), WireError> {
        let password = login.password.as_bytes();
        let mut scram = None;
        loop {
            match self.next().await? {
                Message::AuthenticationOk => return Ok(()),
                Message::AuthenticationCleartextPassword if login.is_encrypted => {
                    frontend::password_message(password, &mut self.output)?;
                }
                Message::AuthenticationMd5Password(body) => {
                    let hash = md5_hash(login.user.as_bytes(), password, body.salt());
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

    /// Queues statements without parameters, separated by semicolons.
    ///
    /// # Errors
    /// They do not fit into a message.
    pub fn query(&mut self, sql: &str) -> Result<(), WireError> {
        Ok(frontend::query(sql, &mut self.output)?)
    }

    /// Queues a statement without parameters and rows.
    ///
    /// # Errors
    /// It does not fit into a message.
    pub fn add(&mut self, sql: &str) -> Result<(), WireError> {
        frontend::parse("", sql, [], &mut self.output)?;
        self.bind("", &[])?;
        self.execute(0)
    }

    /// Queues the preparation of a statement, and a description of its parameters and columns.
    /// The server infers types that are 0 or missing.
    ///
    /// # Errors
    /// It does not fit into a message.
    pub fn prepare(
        &mut self,
        name: &str,
        sql: &str,
        types: impl IntoIterator<Item = u32>,
    ) -> Result<(), WireError> {
        frontend::parse(name, sql, types, &mut self.output)?;
        Ok(frontend::describe(b'S', name, &mut self.output)?)
    }

    /// Binds text to a prepared statement; all columns are returned as text.
    ///
    /// # Errors
    /// The values do not fit into a message.
    pub fn bind(&mut self, statement: &str, values: &[Option<String>]) -> Result<(), WireError> {
        let output = &mut self.output;
        frontend::bind("", statement, [0], values, write_parameter, [0], output)
            .map_err(|_| lost("the parameters do not fit into a message"))
    }

    /// Queues the execution of the bound statement; 0 means all rows.
    pub fn execute(&mut self, max_rows: i32) -> Result<(), WireError> {
        Ok(frontend::execute("", max_rows, &mut self.output)?)
    }

    /// Queues the end of a group of messages.
    pub fn sync(&mut self) {
        frontend::sync(&mut self.output);
    }

    /// Sends the queued messages, and returns the next relevant message.
    pub async fn next(&mut self) -> Result<Message, WireError> {
        loop {
            match self.receive().await? {
                Message::NoticeResponse(_) | Message::NotificationResponse(_) => {}
                message => return Ok(message),
            }
        }
    }

    /// Waits for a notification. Cancel-safe.
    pub async fn wait_for_notification(&mut self) -> Result<(), WireError> {
        while !matches!(self.receive().await?, Message::NotificationResponse(_)) {}
        Ok(())
    }

    async fn receive(&mut self) -> Result<Message, WireError> {
        if !self.output.is_empty() {
            self.stream.write_all(&self.output).await?;
            self.stream.flush().await?;
            self.output.clear();
        }
        loop {
            if let Some(header) = Header::parse(&self.input)? {
                let length = usize::try_from(header.len()).unwrap_or(usize::MAX);
                if length > self.max_message {
                    return Err(WireError::Large);
                }
                match Message::parse(&mut self.input)? {
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

    /// Reads until the server is ready, and returns the state of the transaction.
    ///
    /// # Errors
    /// [`WireError`], such as the first refusal on the way.
    pub async fn ready(&mut self) -> Result<u8, WireError> {
        let mut first = None;
        loop {
            match self.next().await {
                Ok(Message::ReadyForQuery(body)) => {
                    return first.map_or_else(|| Ok(body.status()), Err);
                }
                Ok(_) => {}
                Err(lost @ (WireError::Lost(_) | WireError::Large)) => return Err(lost),
                Err(refused) => first = first.or(Some(refused)),
            }
        }
    }

    /// Closes the session, and waits until the server has ended it. Cancel-safe.
    pub async fn end(&mut self) {
        let _gone = self.stream.shutdown().await;
        // Discards rows in transit.
        while let Ok(1..) = self.stream.read_buf(&mut self.input).await {
            self.input.clear();
        }
    }
}

impl Handle {
    /// Returns the request to cancel the session's statement, for a connection of its own. The
    /// server responds by closing it.
    pub fn cancel_request(&self) -> BytesMut {
        let mut request = BytesMut::new();
        frontend::cancel_request(self.process, self.secret, &mut request);
        request
    }
}

/// Returns the request for TLS, which the server answers with `S` or `N`.
pub fn ssl_request() -> BytesMut {
    let mut request = BytesMut::new();
    frontend::ssl_request(&mut request);
    request
}

/// Returns the columns of a row. Text that is not UTF-8 is left out.
///
/// # Errors
/// [`WireError::Lost`] for a damaged row.
pub fn read_texts(body: &DataRowBody) -> Result<Vec<Option<&str>>, WireError> {
    let texts = body.ranges().map(|range| {
        let bytes = range.map(|range| body.buffer().get(range).unwrap_or(&[]));
        Ok(bytes.and_then(|bytes| std::str::from_utf8(bytes).ok()))
    });
    texts.collect().map_err(|_| lost("a row is damaged"))
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
        *part = String::from_utf8_lossy(field.value_bytes()).chars().take(MAX_ERROR).collect();
    }
    if !hint.is_empty() {
        message = format!("{message} ({hint})");
    }
    WireError::Refused { code, message }
}
