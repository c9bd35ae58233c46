//! A connection to PostgreSQL: statements, and notifications of changes.

mod address;
mod dial;
mod tls;

use std::sync::Arc;

use fallible_iterator::FallibleIterator;
use lockgate_postgres::{DataRowBody, Login, Message, RowDescriptionBody, Session, WireError};
use lockgate_text::hex;

use crate::error::StoreError;
use crate::value::{Outcome, Row, Value};
use address::Address;

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
    pub(crate) async fn open(url: &str) -> Result<Self, StoreError> {
        let address = Address::parse(url)?;
        let (stream, is_encrypted) = dial::connect(&address).await?;
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
    pub(crate) async fn run(&mut self, sql: &str) -> Result<(), StoreError> {
        self.session.query(sql)?;
        self.session.ready().await?;
        Ok(())
    }

    pub(crate) async fn query(
        &mut self,
        sql: &str,
        values: &[Value],
    ) -> Result<Outcome, StoreError> {
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

    pub(crate) async fn execute_each(
        &mut self,
        sql: &str,
        rows: &[Vec<Value>],
    ) -> Result<(), StoreError> {
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
    pub(crate) async fn wait_for_notification(&mut self) -> Result<(), StoreError> {
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
        let mut values = Vec::with_capacity(texts.len());
        for (text, kind) in texts.into_iter().zip(&self.types) {
            values.push(match text {
                Some(text) => from_text(text, *kind),
                None => Value::Null,
            });
        }
        Ok(Row { columns: Arc::clone(&self.names), values })
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
