//! Exchanges with a session that are the same for every statement: fixed statements of ours, the
//! end that leaves no trace, and rows and parameters as text.

use fallible_iterator::FallibleIterator;
use postgres_protocol::message::backend::{DataRowBody, Message};
use serde_json::Value;

use super::value;
use super::wire::{Session, Trouble};

/// Ends the transaction without a trace, and all that outlives transactions: locks, prepared
/// statements, settings.
pub(super) fn forget(session: &mut Session) -> Result<(), Trouble> {
    session.add("ROLLBACK")?;
    session.sync();
    session.add("DISCARD ALL")?;
    session.sync();
    Ok(())
}

pub(super) async fn forgotten(session: &mut Session) -> Result<(), Trouble> {
    let lost = |trouble| match trouble {
        Trouble::Refused { words, .. } => Trouble::Lost(words),
        lost @ (Trouble::Lost(_) | Trouble::Large) => lost,
    };
    session.ready().await.map_err(lost)?;
    match session.ready().await.map_err(lost)? {
        b'I' => Ok(()),
        _ => Err(Trouble::Lost("the transaction did not end".into())),
    }
}

pub(super) async fn clean(session: &mut Session) -> Result<(), Trouble> {
    forget(session)?;
    forgotten(session).await
}

/// A fixed statement of ours.
pub(super) async fn own(
    session: &mut Session,
    sql: &str,
    values: &[Option<String>],
) -> Result<Vec<Vec<Option<String>>>, Trouble> {
    session.prepare("", sql)?;
    session.bind("", values)?;
    session.execute(0)?;
    session.sync();
    let mut rows = Vec::new();
    loop {
        let message = match session.next().await {
            Err(refused @ Trouble::Refused { .. }) => {
                return session.ready().await.and(Err(refused));
            }
            other => other?,
        };
        match message {
            Message::DataRow(body) => {
                rows.push(texts(&body)?.into_iter().map(|t| t.map(str::to_owned)).collect())
            }
            Message::ReadyForQuery(_) => return Ok(rows),
            _ => {}
        }
    }
}

fn texts(body: &DataRowBody) -> Result<Vec<Option<&str>>, Trouble> {
    let wrong = |_| Trouble::Lost("a row is damaged".into());
    let text = |range: Option<std::ops::Range<usize>>| {
        let bytes = range.map(|range| body.buffer().get(range).unwrap_or_default());
        Ok(bytes.and_then(|bytes| std::str::from_utf8(bytes).ok()))
    };
    body.ranges().map(text).collect().map_err(wrong)
}

pub(super) fn row(body: &DataRowBody, oids: &[u32]) -> Result<Vec<Value>, Trouble> {
    let texts = texts(body)?;
    Ok(oids
        .iter()
        .zip(texts)
        .map(|(oid, text)| text.map_or(Value::Null, |text| value::json(*oid, text)))
        .collect())
}

/// The text of a parameter; PostgreSQL reads it as the type that the statement wants.
pub(super) fn parameter(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}
