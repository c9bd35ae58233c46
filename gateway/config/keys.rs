//! The file of API keys, read and checked with places like the configuration. It contains hashes
//! and no secret.

use std::collections::BTreeSet;
use std::path::Path;

use lockgate_authn::key::{Key, is_id, parse_hash, parse_time};
use lockgate_text::organisation::find_mistake;

use crate::problem::{Problems, Report};
use crate::raw::leaf::Text;
use crate::source;
use crate::source::layer::check_as;
use crate::source::node::Node;

/// Maximum keys of a file.
pub const MAX_KEYS: usize = 10_000;
/// Maximum bytes of a name, role or agent.
const MAX_TEXT: usize = 256;
/// Maximum roles, and maximum scopes, of a key.
const MAX_GRANTS: usize = 256;

lockgate_text::settings! {
    struct File as "Keys" {
        keys: Vec<Raw>,
    }

    struct Raw as "Key" {
        id: String = Text,
        hash: String = Text,
        name: String = Text,
        organisation: Option<String> = Option<Text>,
        roles: Vec<String> = Vec<Text>,
        scopes: Vec<String> = Vec<Text>,
        agent: Option<String> = Option<Text>,
        created: Option<String> = Option<Text>,
        expires: Option<String> = Option<Text>,
        revoked: Option<String> = Option<Text>,
    }
}

/// Reads the keys of a file; empty if the file does not exist yet.
///
/// # Errors
/// Every mistake in it.
pub fn load(path: &Path, cwd: &Path) -> Result<Vec<Key>, Report> {
    let mut problems = Problems::default();
    let keys = read(path, cwd, &mut problems);
    problems.finish()?;
    Ok(keys)
}

/// Reads the keys for the configuration, and reports mistakes.
pub(crate) fn read(path: &Path, cwd: &Path, problems: &mut Problems) -> Vec<Key> {
    if !path.exists() {
        return Vec::new();
    }
    let Some(mut root) = problems.value_of(source::read_file(path, cwd, false)) else {
        return Vec::new();
    };
    let Some(file) = check_as::<File>(&mut root, "docs/authentication.md", problems) else {
        return Vec::new();
    };
    if file.keys.len() > MAX_KEYS {
        let place = root.nearest_place(&["keys"]);
        problems.error(place, "keys", "has more than 10000 keys", "remove revoked keys");
        return Vec::new();
    }
    let mut reader = Reader { root: &root, problems, ids: BTreeSet::new(), at: 0 };
    file.keys.into_iter().map(|raw| reader.key(raw)).collect()
}

struct Reader<'a> {
    root: &'a Node,
    problems: &'a mut Problems,
    ids: BTreeSet<String>,
    /// The index of the entry that is read.
    at: usize,
}

impl Reader<'_> {
    fn error(&mut self, key: &str, what: &str, hint: &str) {
        let path = ["keys", &self.at.to_string(), key].map(str::to_owned);
        let path = self.root.written_path(&path).unwrap_or_else(|| path.to_vec());
        self.problems.error(self.root.nearest_place(&path), path.join("."), what, hint);
    }

    /// Checks an entry. The result is only used if the file has no mistake.
    fn key(&mut self, raw: Raw) -> Key {
        self.check_id(&raw.id);
        self.check_texts(&raw);
        self.check_grants(&raw);
        let key = Key {
            hash: self.read_hash(&raw.hash),
            created: self.read_time("created", raw.created.as_deref()).unwrap_or(0),
            expires: self.read_time("expires", raw.expires.as_deref()),
            revoked: self.read_time("revoked", raw.revoked.as_deref()),
            id: raw.id,
            name: raw.name,
            organisation: raw.organisation,
            roles: raw.roles,
            scopes: raw.scopes,
            agent: raw.agent,
        };
        self.at += 1;
        key
    }

    fn check_id(&mut self, id: &str) {
        if !is_id(id) {
            self.error("id", "must be 16 hexadecimal digits", "use `lockgate keys create`");
        } else if !self.ids.insert(id.to_owned()) {
            self.error("id", "is listed twice", "keep one of them");
        }
    }

    fn read_hash(&mut self, text: &str) -> [u8; 32] {
        let hash = parse_hash(text);
        if hash.is_none() {
            let what = "must be `blake3:` and 64 hexadecimal digits";
            self.error("hash", what, "use `lockgate keys create`");
        }
        hash.unwrap_or_default()
    }

    fn check_texts(&mut self, raw: &Raw) {
        // Only a name may be empty.
        let name = Some(&raw.name).filter(|name| !name.is_empty());
        for (key, text) in [("name", name), ("agent", raw.agent.as_ref())] {
            if text.is_some_and(|text| !is_plain(text)) {
                let what = "must be 1 to 256 bytes without control characters";
                self.error(key, what, "shorten it");
            }
        }
        if let Some(mistake) = raw.organisation.as_deref().and_then(find_mistake) {
            self.error("organisation", mistake, "choose another name");
        }
    }

    fn check_grants(&mut self, raw: &Raw) {
        if raw.roles.len() > MAX_GRANTS || !raw.roles.iter().all(|role| is_plain(role)) {
            let what = "must be at most 256 texts without control characters";
            self.error("roles", what, "shorten it");
        }
        let are_scopes = raw.scopes.iter().all(|scope| lockgate_authn::is_scope(scope));
        if raw.scopes.len() > MAX_GRANTS || !are_scopes {
            let hint = "a scope is ASCII without blanks and quotes";
            self.error("scopes", "must be at most 256 scopes", hint);
        }
    }

    fn read_time(&mut self, key: &str, text: Option<&str>) -> Option<u64> {
        let time = parse_time(text?);
        if time.is_none() {
            self.error(key, "is not a time", "write 2027-01-31 or 2027-01-31T12:00:00Z");
        }
        time
    }
}

fn is_plain(text: &str) -> bool {
    (1..=MAX_TEXT).contains(&text.len()) && !text.contains(char::is_control)
}
