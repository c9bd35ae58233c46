//! `store`: a single database, and keys that cannot be guessed. Opens nothing.

use std::path::{Path, PathBuf};

use lockgate_store::{Keys, StorePlace};

use super::Check;
use crate::loaded::Sources;
use crate::raw::Store;
use crate::raw::leaf::Text;
use crate::source::environment::find_set;
use crate::suggest;

/// The maximum that is tried for a credential.
const MAX_KEYS: usize = 8;
const FOLDER: &str = ".lockgate";
const FILE: &str = "lockgate.db";
/// The generated key's file, beside the SQLite file.
const KEY: &str = "vault.key";
const STRICTEST: &str = "verify-full";
const SSL_MODES: [&str; 6] = ["disable", "allow", "prefer", "require", "verify-ca", STRICTEST];

impl Check<'_> {
    /// Checks the store; `makes_key` is set if the gateway may create a key itself.
    pub fn store(
        &mut self,
        raw: &Store,
        own: Option<&Path>,
        makes_key: bool,
    ) -> lockgate_store::Config {
        if raw.keys.len() > MAX_KEYS {
            let what = format!("has more than {MAX_KEYS} keys");
            self.error(
                &["store", "keys"],
                what,
                "run `lockgate vault rotate`, then remove the last",
            );
        }
        let mut keys = Vec::with_capacity(raw.keys.len());
        for (number, key) in raw.keys.iter().enumerate() {
            let number = number.to_string();
            keys.extend(self.long_secret(&["store", "keys", &number], Some(key)));
        }
        let place = match (&raw.url, &raw.file) {
            (Some(_), Some(_)) => {
                let hint = "remove one of them";
                self.error(&["store", "file"], "is not used with `store.url`", hint);
                StorePlace::File(PathBuf::new())
            }
            (Some(url), None) => self.store_url(url),
            (None, Some(file)) => StorePlace::File(PathBuf::from(&file.0)),
            (None, None) => StorePlace::File(default_file(self.sources, own)),
        };
        let own_key = match &place {
            StorePlace::File(file) if raw.keys.is_empty() => Some(file.with_file_name(KEY)),
            _ => None,
        };
        let is_required = raw.required.0;
        lockgate_store::Config { place, keys: Keys(keys), own_key, makes_key, is_required }
    }

    fn store_url(&mut self, text: &Text) -> StorePlace {
        let Some(url) = parse_postgres(&text.0) else {
            let hint = "for example postgres://USER:PASSWORD@HOST/DATABASE; for a SQLite file use \
                `store.file`";
            self.error(&["store", "url"], "must be a PostgreSQL address", hint);
            return StorePlace::Postgres(text.0.clone());
        };
        let mode = find_parameter(&url, &["sslmode", "ssl-mode"]);
        if let Some(mode) = &mode {
            self.ssl_mode(mode, is_on_this_machine(&url));
        }
        StorePlace::Postgres(match mode {
            None if !is_on_this_machine(&url) => demand_certificate(&text.0),
            _ => text.0.clone(),
        })
    }

    fn ssl_mode(&mut self, mode: &str, is_near: bool) {
        let key = ["store", "url"];
        if !SSL_MODES.contains(&mode) {
            let what = "has an unknown `sslmode`";
            self.error(&key, what, suggest::one_of(&SSL_MODES));
        } else if mode != STRICTEST && !is_near {
            let what =
                "has an `sslmode` that lets an attacker on the network impersonate the database";
            let hint = "remove it, or use sslmode=verify-full; set `sslrootcert` to the file of a \
                private authority";
            self.warning(&key, what, hint);
        }
    }
}

fn parse_postgres(text: &str) -> Option<url::Url> {
    let url = url::Url::parse(text).ok()?;
    let is_fit = matches!(url.scheme(), "postgres" | "postgresql") && url.host().is_some();
    if is_fit { Some(url) } else { None }
}

/// Returns whether the database is on this machine, at a loopback address or a socket path.
fn is_on_this_machine(url: &url::Url) -> bool {
    let host = find_parameter(url, &["host", "hostaddr"])
        .unwrap_or_else(|| url.host_str().unwrap_or("").to_owned());
    let host = host.trim_matches(['[', ']']).to_ascii_lowercase();
    match host.parse::<std::net::IpAddr>() {
        Ok(address) => address.is_loopback(),
        Err(_) => host == "localhost" || host.starts_with('/') || host.starts_with("%2f"),
    }
}

/// Returns the last value of these parameters.
fn find_parameter(url: &url::Url, names: &[&str]) -> Option<String> {
    let mut found = None;
    for (name, value) in url.query_pairs() {
        if names.contains(&&*name) {
            found = Some(value.into_owned());
        }
    }
    found
}

/// Adds the strictest certificate check, because the client's default would be weaker.
fn demand_certificate(url: &str) -> String {
    let sign = if url.contains('?') { '&' } else { '?' };
    format!("{url}{sign}sslmode={STRICTEST}")
}

/// Returns the default file: in a service's state directory, beside the configuration file, or in
/// the user's data folder.
fn default_file(sources: &Sources, own: Option<&Path>) -> PathBuf {
    let env = &sources.env;
    if let Some(folders) = find_set(env, "STATE_DIRECTORY") {
        let first = folders.split(':').next().unwrap_or("");
        return Path::new(first).join(FILE);
    }
    if let Some(own) = own
        && let Some(folder) = own.parent()
    {
        return folder.join(FOLDER).join(FILE);
    }
    match (find_set(env, "XDG_DATA_HOME"), find_set(env, "HOME")) {
        (Some(folder), _) => Path::new(folder).join("lockgate").join(FILE),
        (None, Some(home)) => Path::new(home).join(".local/share/lockgate").join(FILE),
        (None, None) => sources.cwd.join(FOLDER).join(FILE),
    }
}
