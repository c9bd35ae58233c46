//! Errors of the store. Messages include the remedy, but no address, password or stored value.

use std::path::{Path, PathBuf};

use lockgate_postgres::WireError;

/// The cause of errors for requests that receive no response in time.
const NO_ANSWER: &str = "it does not answer";

/// What the functions of the store return.
pub(crate) type Result<T, E = StoreError> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A retry may succeed.
    #[error("the database cannot be reached: {0}")]
    Unavailable(String),
    /// Another writer holds a lock. A retry may succeed.
    #[error("the database is busy: {0}")]
    Busy(&'static str),
    /// The database did not report the result of a commit.
    #[error("it is not known whether the change was made: {0}")]
    Unknown(String),
    #[error("the disk of the database is full; free space, then retry")]
    Full,
    #[error("{}", cannot_write(.0))]
    ReadOnly(PathBuf),
    #[error("the database is read-only, such as a standby; use the address of its primary")]
    Standby,
    #[error(
        "the database was written by a newer Lockgate (its schema is {found}, this program \
         supports {known}); start that version, or restore an older backup"
    )]
    Newer { found: i64, known: i64 },
    #[error(
        "{} is not a database of Lockgate; set `store.file` to another file, and leave this one \
         unchanged",
        .0.display()
    )]
    Foreign(PathBuf),
    #[error(
        "the database {} is damaged ({reason}); set it aside and restore a backup",
        .file.display()
    )]
    Damaged { file: PathBuf, reason: String },
    /// The database, or a check before it, rejects an operation.
    #[error("the store rejected the operation: {0}")]
    Refused(String),
    #[error(transparent)]
    Vault(#[from] VaultError),
}

fn cannot_write(path: &Path) -> String {
    format!(
        "the database {} cannot be written; give this user write access to its folder, or set \
         `store.file` or `store.url`",
        path.display()
    )
}

impl StoreError {
    /// Returns whether the error is permanent, so that the gateway should not start.
    pub fn is_lasting(&self) -> bool {
        matches!(self, Self::Newer { .. } | Self::Foreign(_) | Self::Damaged { .. })
    }

    /// Returns the error of a request without a response in time.
    pub fn no_answer() -> Self {
        Self::Unavailable(NO_ANSWER.into())
    }

    /// Returns whether the database accepted a request but did not respond in time.
    pub(crate) fn is_no_answer(&self) -> bool {
        matches!(self, Self::Unavailable(why) if why == NO_ANSWER)
    }

    /// Returns whether the database can be read but not written.
    pub fn is_read_only(&self) -> bool {
        matches!(self, Self::ReadOnly(_) | Self::Standby)
    }

    /// Returns a message that contains no file, no host and no text from the database.
    pub fn describe_to_callers(&self) -> &'static str {
        match self {
            Self::Busy(_) => "the gateway's store is busy with other changes; retry",
            Self::Unavailable(_) | Self::Unknown(_) => {
                "the gateway's store cannot be reached; the last known state stays in use, retry \
                later"
            }
            Self::Full => "the gateway's store is full; ask the operator to make room",
            Self::ReadOnly(_) | Self::Standby => {
                "the gateway's store cannot be written; ask the operator to check the log"
            }
            Self::Newer { .. }
            | Self::Foreign(_)
            | Self::Damaged { .. }
            | Self::Refused(_)
            | Self::Vault(_) => {
                "the gateway's store cannot be used; ask the operator to check the log"
            }
        }
    }

    /// Returns the error of an operation during shutdown.
    pub(crate) fn stopping() -> Self {
        Self::Unavailable("the gateway is stopping".into())
    }

    /// Returns the error of a failed commit: its result is unknown, unless the database reported
    /// that it rejects the commit.
    pub(crate) fn of_commit(self) -> Self {
        match self {
            Self::Unavailable(_) => Self::Unknown(self.to_string()),
            known => known,
        }
    }

    /// Returns the error of TLS with a server.
    pub(crate) fn of_tls(why: &str) -> Self {
        let why = if why.contains("not valid for name") {
            "the certificate is for another host"
        } else {
            why
        };
        Self::Unavailable(format!(
            "TLS: {why} (in `store.url`, sslrootcert=FILE names a private authority, and \
             sslmode=disable disables TLS)"
        ))
    }

    /// Classifies an error of SQLite.
    pub(crate) fn of_sqlite(error: &rusqlite::Error, file: &Path) -> Self {
        let (code, message) = match error {
            rusqlite::Error::SqliteFailure(code, message) => (code.extended_code, message.clone()),
            rusqlite::Error::SqlInputError { error, msg, .. } => {
                (error.extended_code, Some(msg.clone()))
            }
            _ => (0, None),
        };
        let message = message.unwrap_or_else(|| error.to_string());
        // The low byte is the primary code (sqlite.org/rescode.html).
        match code & 0xff {
            5 | 6 => Self::Busy("another program has locked it"),
            8 | 14 => Self::ReadOnly(file.to_owned()),
            11 => Self::Damaged { file: file.to_owned(), reason: message },
            13 => Self::Full,
            26 => Self::Foreign(file.to_owned()),
            10 => Self::Unavailable("its file cannot be read or written".into()),
            _ => Self::Refused(message),
        }
    }
}

impl From<WireError> for StoreError {
    fn from(error: WireError) -> Self {
        match error {
            WireError::Lost(why) => Self::Unavailable(why),
            WireError::Large => Self::Unavailable("its response is too large".into()),
            WireError::Refused { code, message } => of_postgres(&code, message),
        }
    }
}

/// Classifies an error code of PostgreSQL (appendix A of its manual).
fn of_postgres(code: &str, message: String) -> StoreError {
    match code {
        "53100" => StoreError::Full,
        "25006" => StoreError::Standby,
        "28000" | "28P01" => StoreError::Unavailable("it rejected the user or the password".into()),
        "3D000" => StoreError::Unavailable("there is no such database; create it".into()),
        "42501" => StoreError::Refused(
            "the user may not create or use the schema `lockgate`; grant CREATE on the database, \
             or create the schema for it"
                .into(),
        ),
        // Shutdown or a statement timeout, lack of resources, and connection failures.
        code if code.starts_with("57") || code.starts_with("53") || code.starts_with("08") => {
            StoreError::Unavailable(format!("it returned the error {code}"))
        }
        "55P03" | "40001" | "40P01" => StoreError::Busy("a conflict with other changes"),
        _ => StoreError::Refused(message),
    }
}

/// Minimum length of the text that a key is derived from, in bytes.
pub const MIN_KEY: usize = 32;

/// The reason that a value cannot be sealed or opened. No variant contains a part of the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VaultError {
    #[error("no key is configured (store.keys), so credentials cannot be stored")]
    NoKey,
    #[error("a key is shorter than {MIN_KEY} bytes")]
    ShortKey,
    #[error("it was encrypted with a key that is not configured (store.keys)")]
    UnknownKey,
    #[error("it was altered, or copied from another record")]
    Altered,
    #[error("the cryptographic library failed")]
    Crypto,
}
