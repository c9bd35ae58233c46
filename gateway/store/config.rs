//! Where the database is and with what credentials are sealed, already validated. It reads no file
//! and no environment.

use std::fmt;
use std::path::PathBuf;

/// The store of one gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    pub place: Place,
    pub keys: Keys,
    /// The key that is made when the first credential is stored, where there is no other.
    pub own_key: Option<PathBuf>,
    /// It is made when it is first needed; one that is there is used in any case.
    pub makes_key: bool,
    /// A gateway that has not read it yet is not ready.
    pub is_required: bool,
}

/// Secrets that the vault's keys are made of: the first seals, all open. Without one no credential
/// can be stored.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Keys(pub Vec<String>);

/// Where the database is.
#[derive(Clone, PartialEq, Eq)]
pub enum Place {
    /// A file of SQLite, which the first change makes.
    File(PathBuf),
    /// A URL of PostgreSQL, with its password.
    Postgres(String),
}

/// The file, or the address of the database without its credentials.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(file) => write!(f, "{}", file.display()),
            Self::Postgres(url) => {
                let address = url.split('?').next().unwrap_or("");
                let place = address.rsplit_once('@').or_else(|| address.split_once("://"));
                f.write_str(place.map_or("PostgreSQL", |(_, place)| place))
            }
        }
    }
}

/// Says how many there are.
impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keys({})", self.0.len())
    }
}

/// Shows no URL, because it holds a password.
impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            Self::Postgres(_) => f.write_str("Postgres"),
        }
    }
}
