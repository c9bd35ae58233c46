//! `store`: one place for what people change, and keys that cannot be guessed. It opens nothing.

use std::path::{Path, PathBuf};

use lockgate_store::{Keys, Place};

use super::Check;
use crate::loaded::Sources;
use crate::raw::Store;
use crate::raw::leaf::Text;

/// As many as are looked through for one credential.
const KEYS: usize = 8;
const FOLDER: &str = ".lockgate";
const FILE: &str = "lockgate.db";

impl Check<'_> {
    pub fn store(&mut self, raw: &Store, own: Option<&Path>) -> lockgate_store::Config {
        if raw.keys.len() > KEYS {
            let what = format!("has more than {KEYS}");
            self.error(&["store", "keys"], what, "run `lockgate vault rotate`, then drop the last");
        }
        let mut keys = Vec::with_capacity(raw.keys.len());
        for (number, key) in raw.keys.iter().enumerate() {
            let number = number.to_string();
            keys.extend(self.long_secret(&["store", "keys", &number], Some(key)));
        }
        let place = match (&raw.url, &raw.file) {
            (Some(_), Some(_)) => {
                let hint = "take one of them out";
                self.error(&["store", "file"], "is not used with `store.url`", hint);
                Place::File(PathBuf::new())
            }
            (Some(url), None) => self.store_url(url),
            (None, Some(file)) => Place::File(PathBuf::from(&file.0)),
            (None, None) => Place::File(default_file(self.sources, own)),
        };
        lockgate_store::Config { place, keys: Keys(keys) }
    }

    fn store_url(&mut self, text: &Text) -> Place {
        let is_fit = match url::Url::parse(&text.0) {
            Ok(url) => matches!(url.scheme(), "postgres" | "postgresql") && url.host().is_some(),
            Err(_) => false,
        };
        if !is_fit {
            let hint = "write it like postgres://USER:PASSWORD@HOST/DATABASE; a file of SQLite is \
                `store.file`";
            self.error(&["store", "url"], "must be an address of PostgreSQL", hint);
        }
        Place::Postgres(text.0.clone())
    }
}

/// Where a service keeps its state, or beside the configuration file, or where programs of a user
/// keep theirs.
fn default_file(sources: &Sources, own: Option<&Path>) -> PathBuf {
    if let Some(folders) = find_set(sources, "STATE_DIRECTORY") {
        let first = folders.split(':').next().unwrap_or_default();
        return Path::new(first).join(FILE);
    }
    if let Some(folder) = own.and_then(Path::parent) {
        return folder.join(FOLDER).join(FILE);
    }
    match (find_set(sources, "XDG_DATA_HOME"), find_set(sources, "HOME")) {
        (Some(folder), _) => Path::new(folder).join("lockgate").join(FILE),
        (None, Some(home)) => Path::new(home).join(".local/share/lockgate").join(FILE),
        (None, None) => sources.cwd.join(FOLDER).join(FILE),
    }
}

/// What a variable holds, unless it is empty.
fn find_set<'a>(sources: &'a Sources, name: &str) -> Option<&'a String> {
    sources.env.get(name).filter(|value| !value.is_empty())
}
