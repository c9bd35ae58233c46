//! A connection to Redis: authenticated, with its database selected and the script loaded. Commands
//! are pipelined. A connection is unusable after an error.

use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use lockgate_egress::{ConnectError, Connector, Policy, Stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::Config;

/// Counts an allowance.
const SCRIPT: &str = include_str!("take.lua");
/// Timeout for replies. Meanwhile the usage of other gateways is unknown.
const REPLY_TIMEOUT: Duration = Duration::from_millis(500);
/// Timeout of connecting, including TLS, so that a host that drops packets is detected as fast as
/// one that hangs.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

pub(crate) struct Connection {
    stream: Stream,
    input: BytesMut,
    /// The hash of the script on the server.
    script: Vec<u8>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum RedisError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("the connection was lost: {0}")]
    Lost(#[from] std::io::Error),
    #[error("no answer within {} ms", REPLY_TIMEOUT.as_millis())]
    Timeout,
    #[error("no connection within {} s", CONNECT_TIMEOUT.as_secs())]
    ConnectTimeout,
    #[error(transparent)]
    Malformed(#[from] Malformed),
    #[error("the server returned: {0}")]
    Refused(String),
}

/// The usage of an allowance, counted in a single step.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Report {
    pub(crate) name: [u8; 16],
    /// Requests passed; negative if more were returned.
    pub(crate) passed: i64,
    /// Microseconds until a request is replenished.
    pub(crate) each: f64,
    pub(crate) burst: u32,
}

impl Connection {
    pub(crate) async fn open(connector: &Connector, config: &Config) -> Result<Self, RedisError> {
        let connecting = connector.connect_without_alpn(&config.target, Policy::Operator, None);
        let stream = tokio::time::timeout(CONNECT_TIMEOUT, connecting).await;
        let stream = stream.map_err(|_| RedisError::ConnectTimeout)??;
        let mut connection = Self { stream, input: BytesMut::new(), script: Vec::new() };
        if let Some(password) = &config.password {
            let mut words = vec!["AUTH"];
            words.extend(config.user.as_deref());
            words.push(password);
            connection.ask(&words).await?;
        }
        if config.database > 0 {
            connection.ask(&["SELECT", &config.database.to_string()]).await?;
        }
        match connection.ask(&["SCRIPT", "LOAD", SCRIPT]).await? {
            Reply::Text(name) => connection.script = name.to_vec(),
            _ => return Err(Malformed.into()),
        }
        Ok(connection)
    }

    /// Reports usage, and returns the remaining thousandths of requests of each allowance.
    pub(crate) async fn report(
        &mut self,
        prefix: &str,
        reports: &[Report],
    ) -> Result<Vec<i64>, RedisError> {
        let mut output = BytesMut::new();
        for report in reports {
            let name = format!("{prefix}:rate:{}", lockgate_text::hex::encode(&report.name));
            let passed = report.passed.to_string();
            let each = format!("{:.3}", report.each);
            let burst = report.burst.to_string();
            let words: [&[u8]; 7] = [
                b"EVALSHA",
                &self.script,
                b"1",
                name.as_bytes(),
                passed.as_bytes(),
                each.as_bytes(),
                burst.as_bytes(),
            ];
            write_command(&mut output, &words);
        }
        let mut left = Vec::with_capacity(reports.len());
        for reply in self.exchange(&output, reports.len()).await? {
            match reply {
                Reply::Number(number) => left.push(number),
                Reply::Error(words) => return Err(RedisError::Refused(words)),
                Reply::Text(_) => return Err(Malformed.into()),
            }
        }
        Ok(left)
    }

    pub(crate) async fn ping(&mut self) -> Result<(), RedisError> {
        self.ask(&["PING"]).await?;
        Ok(())
    }

    /// Sends a single command and returns its reply.
    pub(crate) async fn ask(&mut self, words: &[&str]) -> Result<Reply, RedisError> {
        let mut output = BytesMut::new();
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        write_command(&mut output, &words);
        match self.exchange(&output, 1).await?.pop() {
            Some(Reply::Error(words)) => Err(RedisError::Refused(words)),
            Some(reply) => Ok(reply),
            None => Err(Malformed.into()),
        }
    }

    /// Sends commands and reads `count` replies.
    async fn exchange(&mut self, output: &[u8], count: usize) -> Result<Vec<Reply>, RedisError> {
        let exchange = async {
            self.stream.write_all(output).await?;
            self.stream.flush().await?;
            let mut replies = Vec::with_capacity(count);
            while replies.len() < count {
                match take_reply(&mut self.input)? {
                    Some(reply) => replies.push(reply),
                    None => {
                        if self.stream.read_buf(&mut self.input).await? == 0 {
                            let ended = std::io::ErrorKind::UnexpectedEof;
                            return Err(RedisError::Lost(ended.into()));
                        }
                    }
                }
            }
            Ok(replies)
        };
        tokio::time::timeout(REPLY_TIMEOUT, exchange).await.unwrap_or(Err(RedisError::Timeout))
    }
}

/// Writes a command in RESP: an array of bulk strings.
fn write_command(output: &mut BytesMut, words: &[&[u8]]) {
    output.put_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        output.put_slice(format!("${}\r\n", word.len()).as_bytes());
        output.put_slice(word);
        output.put_slice(b"\r\n");
    }
}

lockgate_text::debug_fields!(Connection);

/// Maximum length of a line; below, of a text. This client requests nothing longer.
const MAX_LINE: usize = 4096;
const MAX_TEXT: usize = 64 * 1024;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Text(Bytes),
    Number(i64),
    /// The server's message, which begins with a kind such as `NOSCRIPT`.
    Error(String),
}

/// Input that is not a RESP2 reply, or not of a type that this client expects.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the response is not a valid Redis reply")]
pub(crate) struct Malformed;

/// Removes the first reply from the input. Returns `None` if it is incomplete.
fn take_reply(input: &mut BytesMut) -> Result<Option<Reply>, Malformed> {
    let Some(end) = input.windows(2).take(MAX_LINE).position(|pair| pair == b"\r\n") else {
        return if input.len() > MAX_LINE { Err(Malformed) } else { Ok(None) };
    };
    let (kind, line) = input[..end].split_first().ok_or(Malformed)?;
    let reply = match kind {
        b'+' => Reply::Text(Bytes::copy_from_slice(line)),
        b'-' => Reply::Error(String::from_utf8_lossy(line).into_owned()),
        b':' => Reply::Number(parse_number(line)?),
        b'$' => return take_text(input, end),
        _ => return Err(Malformed),
    };
    input.advance(end + 2);
    Ok(Some(reply))
}

/// Removes a text; the line up to `end` contains its length.
fn take_text(input: &mut BytesMut, end: usize) -> Result<Option<Reply>, Malformed> {
    let length = match usize::try_from(parse_number(&input[1..end])?) {
        Ok(length) if length <= MAX_TEXT => length,
        _ => return Err(Malformed),
    };
    let start = end + 2;
    match input.get(start + length..start + length + 2) {
        None => return Ok(None),
        Some(b"\r\n") => {}
        Some(_) => return Err(Malformed),
    }
    input.advance(start);
    let text = input.split_to(length).freeze();
    input.advance(2);
    Ok(Some(Reply::Text(text)))
}

fn parse_number(digits: &[u8]) -> Result<i64, Malformed> {
    str::from_utf8(digits).map_err(|_| Malformed)?.parse().map_err(|_| Malformed)
}

#[cfg(test)]
mod tests;
