//! The validated configuration of the database and of the vault's keys. It reads no file and no
//! environment.

use std::fmt;
use std::path::PathBuf;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    pub place: StorePlace,
    pub keys: Keys,
    /// The file of the gateway's own key, which is used if no other keys are configured.
    pub own_key: Option<PathBuf>,
    /// Whether a missing key file is created with the first credential. An existing file is used in
    /// any case.
    pub makes_key: bool,
    /// Whether the gateway is not ready before it has read the store.
    pub is_required: bool,
}

/// Secrets that the vault's keys are derived from: the first seals, all open. Without a key no
/// credential can be stored.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Keys(pub Vec<String>);

#[derive(Clone, PartialEq, Eq)]
pub enum StorePlace {
    /// A SQLite file, created by the first change.
    File(PathBuf),
    /// A PostgreSQL URL, including its password.
    Postgres(String),
}

/// Formats the file, or the address of the database without its credentials.
impl fmt::Display for StorePlace {
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

/// Shows only the number of keys.
impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keys({})", self.0.len())
    }
}

/// Omits the URL, because it contains a password.
impl fmt::Debug for StorePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            Self::Postgres(_) => f.write_str("Postgres"),
        }
    }
}
