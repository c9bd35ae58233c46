//! The configuration of the database and of the vault's keys. It reads no file and no
//! environment.

use std::fmt;
use std::path::PathBuf;

use lockgate_text::setting::{Text, Toggle, Written};
use lockgate_text::settings;

settings! {
    // Storage of integrations, agents and credentials added at run time.

    pub struct Config as "Store" {
        /// PostgreSQL, for gateways that share changes made at run time:
        /// `postgres://USER:PASSWORD@HOST/DATABASE`. A reference: `${STORE_URL}` or `file:PATH`.
        /// Without it a SQLite file is used.
        pub url: Option<String> = Option<Text>,
        /// The SQLite file; relative to this file. Default `.lockgate/lockgate.db` next to this
        /// file. Created by the first change or counted call.
        pub file: Option<PathBuf> = Option<Text>,
        /// Secrets of at least 32 characters, 8 at most: the first encrypts the credentials of
        /// integrations, all decrypt them. Without one no credential can be stored. References:
        /// `${STORE_KEY}` or `file:PATH`.
        pub keys: Keys = Vec<Text> => to_keys,
        /// `false`: a gateway that starts while the store is unavailable is ready without the
        /// stored data.
        pub required: bool = Toggle<true>,
        /// The location that results from `url` and `file`.
        @serde(skip)
        pub place: StorePlace,
        /// The file of the gateway's own key, which is used if no other keys are configured.
        @serde(skip)
        pub own_key: Option<PathBuf>,
        /// Whether a missing key file is created with the first credential. An existing file is
        /// used in any case.
        @serde(skip)
        pub makes_key: bool,
    }
}

fn to_keys(written: Vec<Text>) -> Keys {
    Keys(written.plain())
}

// Omits the URL, because it contains a password.
lockgate_text::debug_fields!(Config: place, keys, own_key, makes_key, required);

/// Secrets that the vault's keys are derived from: the first seals, all open. Without a key no
/// credential can be stored.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Keys(pub Vec<String>);

/// The location of the store.
#[derive(Clone, PartialEq, Eq)]
pub enum StorePlace {
    /// A SQLite file, created by the first change.
    File(PathBuf),
    /// A PostgreSQL URL, including its password.
    Postgres(String),
}

impl Default for StorePlace {
    fn default() -> Self {
        Self::File(PathBuf::new())
    }
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
