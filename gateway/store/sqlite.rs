//! A connection to a SQLite file. Statements run on the runtime's threads for blocking work.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rusqlite::types::{Value as SqliteValue, ValueRef};
use rusqlite::{OpenFlags, Statement};

use crate::error::{Result, StoreError};
use crate::file::Access;
use crate::value::{Outcome, Row, Value};

pub(crate) struct SqliteConnection {
    file: PathBuf,
    connection: Arc<Mutex<rusqlite::Connection>>,
}

impl SqliteConnection {
    /// Opens an existing file.
    pub(crate) async fn open(file: &Path, access: Access) -> Result<Self> {
        let mode = match access {
            Access::Read => OpenFlags::SQLITE_OPEN_READ_ONLY,
            Access::Write => OpenFlags::SQLITE_OPEN_READ_WRITE,
        };
        let flags = mode | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let path = file.to_owned();
        let open = rusqlite::Connection::open_with_flags;
        let connection = on_thread(move || open(path, flags), file).await?;
        Ok(Self { file: file.to_owned(), connection: Arc::new(Mutex::new(connection)) })
    }

    pub(crate) async fn run(&self, sql: &str) -> Result<()> {
        let sql = sql.to_owned();
        self.with(move |connection| connection.execute_batch(&sql)).await
    }

    pub(crate) async fn query(&self, sql: &str, values: &[Value]) -> Result<Outcome> {
        let sql = sql.to_owned();
        let values = values.to_vec();
        self.with(move |connection| query(connection, &sql, values)).await
    }

    pub(crate) async fn execute_each(&self, sql: &str, rows: Vec<Vec<Value>>) -> Result<()> {
        let sql = sql.to_owned();
        self.with(move |connection| execute_each(connection, &sql, rows)).await
    }

    async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&rusqlite::Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T> {
        let connection = Arc::clone(&self.connection);
        on_thread(move || work(&connection.lock()), &self.file).await
    }

    /// Closes the file, which may write to it.
    pub(crate) async fn close(self) {
        let Self { file, connection } = self;
        // An error is not of interest: the file is in a state that the next program recovers.
        let _closed = on_thread(
            move || {
                drop(connection);
                Ok(())
            },
            &file,
        )
        .await;
    }
}

async fn on_thread<T: Send + 'static>(
    work: impl FnOnce() -> rusqlite::Result<T> + Send + 'static,
    file: &Path,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await.map_err(|_| StoreError::stopping())?;
    done.map_err(|error| StoreError::of_sqlite(&error, file))
}

fn query(
    connection: &rusqlite::Connection,
    sql: &str,
    values: Vec<Value>,
) -> rusqlite::Result<Outcome> {
    let mut statement = connection.prepare(sql)?;
    bind(&mut statement, values)?;
    let columns: Arc<[String]> = statement.column_names().map(str::to_owned).collect();
    let mut outcome = Outcome::default();
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next()? {
        let mut values = Vec::with_capacity(columns.len());
        for index in 0..columns.len() {
            values.push(match row.get_ref(index)? {
                ValueRef::Integer(value) => Value::Integer(value),
                ValueRef::Text(text) => Value::Text(String::from_utf8_lossy(text).into_owned()),
                ValueRef::Blob(bytes) => Value::Bytes(bytes.to_owned()),
                // The schema has no other type.
                ValueRef::Null | ValueRef::Real(_) => Value::Null,
            });
        }
        outcome.rows.push(Row { columns: Arc::clone(&columns), values });
    }
    drop(rows);
    outcome.affected = connection.changes();
    Ok(outcome)
}

fn execute_each(
    connection: &rusqlite::Connection,
    sql: &str,
    rows: Vec<Vec<Value>>,
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare(sql)?;
    for values in rows {
        bind(&mut statement, values)?;
        statement.raw_execute()?;
    }
    Ok(())
}

/// Binds parameters by their names, since SQLite numbers `$1` and `$2` in the order of their first
/// occurrence.
fn bind(statement: &mut Statement<'_>, values: Vec<Value>) -> rusqlite::Result<()> {
    for (index, value) in values.into_iter().enumerate() {
        let name = format!("${}", index + 1);
        let Some(index) = statement.parameter_index(&name)? else {
            return Err(rusqlite::Error::InvalidParameterName(name));
        };
        let value = match value {
            Value::Null => SqliteValue::Null,
            Value::Integer(value) => SqliteValue::Integer(value),
            Value::Text(value) => SqliteValue::Text(value),
            Value::Bytes(value) => SqliteValue::Blob(value),
        };
        statement.raw_bind_parameter(index, value)?;
    }
    Ok(())
}
