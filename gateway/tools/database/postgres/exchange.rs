//! Exchanges common to all statements: built-in statements, the reset of a session, and rows and
//! parameters as text.

use lockgate_postgres::{DataRowBody, Message, Session, WireError, read_texts};
use serde_json::Value;

use super::value;

/// Queues the rollback of the transaction and the reset of all session state: locks, prepared
/// statements, settings.
pub(super) fn forget(session: &mut Session) -> Result<(), WireError> {
    session.add("ROLLBACK")?;
    session.sync();
    session.add("DISCARD ALL")?;
    session.sync();
    Ok(())
}

pub(super) async fn forgotten(session: &mut Session) -> Result<(), WireError> {
    let ended = match session.ready().await {
        Ok(_) => session.ready().await,
        refused => refused,
    };
    match ended {
        Ok(b'I') => Ok(()),
        Ok(_) => Err(WireError::Lost("the transaction did not end".into())),
        Err(trouble) => Err(lose_session(trouble)),
    }
}

/// A session that cannot be reset is not reused.
fn lose_session(trouble: WireError) -> WireError {
    match trouble {
        WireError::Refused { message, .. } => WireError::Lost(message),
        lost @ (WireError::Lost(_) | WireError::Large) => lost,
    }
}

pub(super) async fn clean(session: &mut Session) -> Result<(), WireError> {
    forget(session)?;
    forgotten(session).await
}

/// Runs a built-in statement.
pub(super) async fn own(
    session: &mut Session,
    sql: &str,
    values: &[Option<String>],
) -> Result<Vec<Vec<Option<String>>>, WireError> {
    session.prepare("", sql, [])?;
    session.bind("", values)?;
    session.execute(0)?;
    session.sync();
    let mut rows = Vec::new();
    loop {
        let message = match session.next().await {
            Err(refused @ WireError::Refused { .. }) => {
                session.ready().await?;
                return Err(refused);
            }
            other => other?,
        };
        match message {
            Message::DataRow(body) => {
                let mut row = Vec::new();
                for text in read_texts(&body)? {
                    row.push(text.map(str::to_owned));
                }
                rows.push(row);
            }
            Message::ReadyForQuery(_) => return Ok(rows),
            _ => {}
        }
    }
}

pub(super) fn row(body: &DataRowBody, oids: &[u32]) -> Result<Vec<Value>, WireError> {
    let mut row = Vec::with_capacity(oids.len());
    for (oid, text) in oids.iter().zip(read_texts(body)?) {
        row.push(match text {
            Some(text) => value::json(*oid, text),
            None => Value::Null,
        });
    }
    Ok(row)
}

/// Converts a parameter to text. PostgreSQL parses it as the type that the statement requires.
pub(super) fn parameter(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}
