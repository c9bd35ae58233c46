//! The embedded databases: one SQLite file per organisation (or per person without one), into which
//! CSV is imported. Callers only have access to their own file; files are created and written by
//! imports alone.

use std::fs::{DirBuilder, OpenOptions, Permissions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use lockgate_upstream::CallerIdentity;
use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{
    Connection, ErrorCode, OpenFlags, OptionalExtension, Transaction, TransactionBehavior,
};
use serde_json::{Value, json};

use super::config::Settings;
use super::csv::{ColumnKind, Sheet};
use crate::blocking::BlockingPool;
use crate::tool::{Client, ToolError};

/// The table that records imports.
const LEDGER: &str = "lockgate_imports";
const PAGE_BYTES: u32 = 4096;
/// Maximum number of imported tables per database.
const MAX_TABLES: usize = 500;
const BUSY: &str = "other imports are still under way: try again in a moment";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner(String);

impl Owner {
    pub(super) fn of(client: &Client<'_>) -> Self {
        Self(match (client.organisation(), client.caller_view) {
            (Some(organisation), _) => format!("organisation\0{organisation}"),
            (None, Some(caller_view)) => {
                let CallerIdentity { issuer, subject, .. } = caller_view.identity();
                format!("person\0{issuer}\0{subject}")
            }
            (None, None) => "nobody".into(),
        })
    }
}

/// The folder of all files.
#[derive(Clone, Debug)]
pub(super) struct Embedded {
    folder: PathBuf,
    max_bytes: u64,
    pub(super) lock_timeout: Duration,
    /// How long an import waits for other imports.
    turn: Duration,
    /// Limits concurrent imports.
    places: BlockingPool,
}

/// How an import treats an existing table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Replace,
    Append,
}

impl Embedded {
    pub(super) fn new(folder: PathBuf, limits: &Settings) -> Self {
        Self {
            folder,
            max_bytes: limits.embedded.size,
            lock_timeout: limits.lock_timeout,
            turn: limits.timeout.max(limits.lock_timeout),
            places: BlockingPool::new(limits.pool),
        }
    }

    /// Runs work on files on a blocking thread. Each change holds a text in memory and a thread.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, ToolError> + Send + 'static,
    ) -> Result<T, ToolError> {
        let Some(permit) = self.places.acquire(self.turn).await else {
            return Err(ToolError::new(BUSY));
        };
        let embedded = self.clone();
        permit.run(move |_| work(&embedded)).await
    }

    /// Returns the file of an owner, if it exists.
    pub(super) fn file(&self, owner: &Owner) -> Option<PathBuf> {
        let path = self.path(owner);
        if path.is_file() { Some(path) } else { None }
    }

    /// Returns a path with a hash of the owner, so that it contains nothing that a caller chose.
    fn path(&self, owner: &Owner) -> PathBuf {
        self.folder.join(format!("{}.db", blake3::hash(owner.0.as_bytes()).to_hex()))
    }

    /// Creates or extends a table from a sheet. Returns its columns and number of rows. Blocks.
    pub(super) fn import(
        &self,
        owner: &Owner,
        table: &str,
        uri: &str,
        sheet: &Sheet,
        mode: Mode,
    ) -> Result<Value, ToolError> {
        let path = self.path(owner);
        self.make(&path).map_err(|error| self.report_unwritable(&error))?;
        let mut connection = self.open(&path)?;
        let transaction = writing(&mut connection)?;
        create_ledger(&transaction)?;
        let there = registered(&transaction, table)?;
        // SQLite ignores the case of table names. Appending keeps the existing spelling.
        let table = match (&there, mode) {
            (Some(there), Mode::Append) => there,
            _ => table,
        };
        match mode {
            Mode::Append if there.is_some() => fits(&transaction, table, sheet)?,
            _ => {
                if there.is_none() {
                    check_room(&transaction)?;
                }
                create_table(&transaction, table, sheet)?;
            }
        }
        fill(&transaction, table, sheet)?;
        let rows = count_rows(&transaction, table)?;
        forget(&transaction, table)?;
        register(&transaction, table, uri, rows)?;
        let columns = describe_columns(&transaction, table)?;
        transaction.commit()?;
        Ok(json!({"table": table, "imported": sheet.count, "rows": rows, "columns": columns}))
    }

    /// Logs the reason for the operator; the caller does not receive it.
    fn report_unwritable(&self, error: &std::io::Error) -> ToolError {
        tracing::error!(folder = %self.folder.display(), %error, "an embedded database cannot be \
            created");
        ToolError::new("the embedded database cannot be written: the gateway's log has the reason")
    }

    /// Lists an owner's imports. Blocks.
    pub(super) fn list(&self, owner: &Owner) -> Result<Vec<Value>, ToolError> {
        let Some(path) = self.file(owner) else { return Ok(Vec::new()) };
        let connection = self.open(&path)?;
        let sql = format!("SELECT name, uri, rows, imported_at FROM {LEDGER} ORDER BY name");
        let mut statement = connection.prepare(&sql)?;
        let imports = statement.query_map([], |row| {
            let (table, uri, rows, at): (String, String, i64, String) = row.try_into()?;
            Ok(json!({"table": table, "uri": uri, "rows": rows, "imported_at": at}))
        })?;
        Ok(imports.collect::<Result<_, _>>()?)
    }

    /// Deletes an imported table. Blocks.
    pub(super) fn drop_table(&self, owner: &Owner, table: &str) -> Result<(), ToolError> {
        let Some(file) = self.file(owner) else { return Err(unknown_table(table)) };
        let mut connection = self.open(&file)?;
        let transaction = writing(&mut connection)?;
        if registered(&transaction, table)?.is_none() {
            return Err(unknown_table(table));
        }
        transaction.execute_batch(&format!("DROP TABLE IF EXISTS {}", quoted(table)))?;
        forget(&transaction, table)?;
        Ok(transaction.commit()?)
    }

    /// Creates a file that other users cannot read, in a folder that they cannot enter, regardless
    /// of the umask. SQLite gives its auxiliary files the same mode.
    #[allow(
        clippy::disallowed_methods,
        reason = "the folder of the embedded databases is the gateway's own"
    )]
    fn make(&self, path: &Path) -> std::io::Result<()> {
        if !self.folder.is_dir() {
            DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        }
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        file.set_permissions(Permissions::from_mode(0o600))
    }

    fn open(&self, path: &Path) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        self.confine(&connection)?;
        Ok(connection)
    }

    fn confine(&self, connection: &Connection) -> rusqlite::Result<()> {
        connection.busy_timeout(self.turn)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
        connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
        connection.pragma_update(None, "page_size", PAGE_BYTES)?;
        let pages = (self.max_bytes / u64::from(PAGE_BYTES)).max(16);
        connection.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(()))
    }
}

impl From<rusqlite::Error> for ToolError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => {
                return Self::new("the embedded database is full: drop imported tables first");
            }
            Some(ErrorCode::DatabaseBusy) => return Self::new(BUSY),
            _ => {}
        }
        tracing::warn!(%error, "the embedded database failed");
        Self::new("the embedded database failed: try again; the gateway's log has the reason")
    }
}

fn unknown_table(table: &str) -> ToolError {
    ToolError::new(format!("there is no imported table {table}: `imports` lists them"))
}

/// Takes the write lock at the start of the transaction, which waits for it. A transaction that has
/// read before cannot wait for the lock and fails.
fn writing(connection: &mut Connection) -> rusqlite::Result<Transaction<'_>> {
    connection.transaction_with_behavior(TransactionBehavior::Immediate)
}

fn create_ledger(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    let sql = format!(
        "CREATE TABLE IF NOT EXISTS {LEDGER} (name TEXT PRIMARY KEY COLLATE NOCASE, \
            uri TEXT NOT NULL, rows INTEGER NOT NULL, imported_at TEXT NOT NULL)"
    );
    transaction.execute_batch(&sql)
}

/// Checks that another table may be imported.
fn check_room(transaction: &Transaction<'_>) -> Result<(), ToolError> {
    let count = usize::try_from(count_rows(transaction, LEDGER)?).unwrap_or(0);
    if count >= MAX_TABLES {
        let words = format!("there are {MAX_TABLES} imported tables: drop one first");
        return Err(ToolError::new(words));
    }
    Ok(())
}

/// Creates an empty table with the columns of a sheet, in place of any existing table.
fn create_table(transaction: &Transaction<'_>, table: &str, sheet: &Sheet) -> rusqlite::Result<()> {
    let gone = format!("DROP TABLE IF EXISTS {}", quoted(table));
    transaction.execute_batch(&gone)?;
    let columns: Vec<_> =
        sheet.columns().map(|(name, kind)| format!("{} {}", quoted(name), kind.as_str())).collect();
    let made = format!("CREATE TABLE {} ({})", quoted(table), columns.join(", "));
    transaction.execute_batch(&made)
}

fn count_rows(transaction: &Transaction<'_>, table: &str) -> rusqlite::Result<i64> {
    let sql = format!("SELECT count(*) FROM {}", quoted(table));
    transaction.query_row(&sql, [], |row| row.get(0))
}

fn register(
    transaction: &Transaction<'_>,
    table: &str,
    uri: &str,
    rows: i64,
) -> rusqlite::Result<()> {
    let sql =
        format!("INSERT INTO {LEDGER} VALUES (?1, ?2, ?3, strftime('%Y-%m-%dT%H:%M:%SZ', 'now'))");
    transaction.execute(&sql, (table, uri, rows))?;
    Ok(())
}

/// Describes the columns of an imported table for a caller.
fn describe_columns(transaction: &Transaction<'_>, table: &str) -> rusqlite::Result<Vec<Value>> {
    let columns = columns(transaction, table)?.into_iter();
    Ok(columns
        .map(|(name, kind)| json!({"name": name, "type": kind.as_str().to_ascii_lowercase()}))
        .collect())
}

/// Returns the name of an imported table as registered. SQLite ignores the case of names.
fn registered(transaction: &Transaction<'_>, table: &str) -> rusqlite::Result<Option<String>> {
    let sql = format!("SELECT name FROM {LEDGER} WHERE name = ?1 COLLATE NOCASE");
    transaction.query_row(&sql, [table], |row| row.get(0)).optional()
}

fn forget(transaction: &Transaction<'_>, table: &str) -> rusqlite::Result<()> {
    let sql = format!("DELETE FROM {LEDGER} WHERE name = ?1 COLLATE NOCASE");
    transaction.execute(&sql, [table])?;
    Ok(())
}

fn columns(
    transaction: &Transaction<'_>,
    table: &str,
) -> rusqlite::Result<Vec<(String, ColumnKind)>> {
    let mut statement = transaction.prepare("SELECT name, type FROM pragma_table_info(?1)")?;
    let columns = statement.query_map([table], |row| {
        let kind = ColumnKind::parse(row.get_ref(1)?.as_str()?);
        Ok((row.get(0)?, kind.unwrap_or(ColumnKind::Text)))
    })?;
    columns.collect()
}

/// Checks that rows can be appended: the columns are the same, and no value would be converted.
fn fits(transaction: &Transaction<'_>, table: &str, sheet: &Sheet) -> Result<(), ToolError> {
    let columns = columns(transaction, table)?;
    let names: Vec<_> = columns.iter().map(|(name, _)| name.as_str()).collect();
    if sheet.names != names {
        let expected = names.join(", ");
        let words = format!(
            "the columns differ from those of the table ({expected}): use mode `replace`, or \
                another table"
        );
        return Err(ToolError::new(words));
    }
    if let Some(words) = sheet.misfit(&columns) {
        let instead = "import into another table, or one CSV with all rows with mode `replace`";
        return Err(ToolError::new(format!("{words}: {instead}")));
    }
    Ok(())
}

fn fill(transaction: &Transaction<'_>, table: &str, sheet: &Sheet) -> Result<(), ToolError> {
    let marks = vec!["?"; sheet.names.len()].join(", ");
    let insert = format!("INSERT INTO {} VALUES ({marks})", quoted(table));
    let mut statement = transaction.prepare(&insert)?;
    let mut rows = sheet.rows();
    // A missing value is bound as NULL.
    while let Some(row) = rows.next_row()? {
        statement.execute(rusqlite::params_from_iter(row))?;
    }
    Ok(())
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
