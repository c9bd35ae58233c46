//! The file of API keys, read and checked with places like the configuration. It contains hashes
//! and no secret.

use std::collections::BTreeSet;
use std::path::Path;

use lockgate_authn::key::{Key, is_id, parse_hash, parse_time};
use lockgate_text::organisation::find_mistake;

use crate::problem::{Problem, Problems, Report};
use crate::raw::leaf::Text;
use crate::source;
use crate::source::layer::Layer;

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
    Ok(keys.unwrap_or_default())
}

/// Reads the keys for the configuration. Reports mistakes, and then returns `None`.
pub(crate) fn read(path: &Path, cwd: &Path, problems: &mut Problems) -> Option<Vec<Key>> {
    if !path.exists() {
        return Some(Vec::new());
    }
    let node = match source::read_file(path, cwd, false) {
        Ok(node) => node,
        Err(problem) => {
            problems.push(problem);
            return None;
        }
    };
    let mut layer = Layer::new(node);
    let file = layer.check_as::<File>("docs/authentication.md", problems)?;
    let mut reader =
        Reader { layer: &layer, problems, wrong: !layer.damaged.is_empty(), ids: BTreeSet::new() };
    if file.keys.len() > MAX_KEYS {
        reader.error(&["keys"], "has more than 10000 keys", "remove revoked keys");
        return None;
    }
    let mut keys = Vec::with_capacity(file.keys.len());
    for (at, raw) in file.keys.into_iter().enumerate() {
        keys.push(reader.key(at, raw));
    }
    if reader.wrong { None } else { Some(keys) }
}

struct Reader<'a> {
    layer: &'a Layer,
    problems: &'a mut Problems,
    wrong: bool,
    ids: BTreeSet<String>,
}

impl Reader<'_> {
    fn error(&mut self, path: &[&str], what: &str, hint: &str) {
        self.wrong = true;
        let place = self.layer.root.nearest_place(path);
        let problem = Problem::error(place, path.join("."), what);
        self.problems.push(problem.hint(hint));
    }

    /// Checks an entry. The result is only used if the file has no mistake.
    fn key(&mut self, at: usize, raw: Raw) -> Key {
        let at = at.to_string();
        self.check_id(&at, &raw.id);
        let hash = self.read_hash(&at, &raw.hash);
        self.check_texts(&at, &raw);
        self.check_grants(&at, &raw);
        let created = self.read_time(&at, "created", raw.created.as_deref());
        let expires = self.read_time(&at, "expires", raw.expires.as_deref());
        let revoked = self.read_time(&at, "revoked", raw.revoked.as_deref());
        Key {
            id: raw.id,
            hash,
            name: raw.name,
            organisation: raw.organisation,
            roles: raw.roles,
            scopes: raw.scopes,
            agent: raw.agent,
            created: created.unwrap_or(0),
            expires,
            revoked,
        }
    }

    fn check_id(&mut self, at: &str, id: &str) {
        let path = ["keys", at, "id"];
        if !is_id(id) {
            let what = "must be 16 hexadecimal digits";
            self.error(&path, what, "use `lockgate keys create`");
        } else if !self.ids.insert(id.to_owned()) {
            self.error(&path, "is listed twice", "keep one of them");
        }
    }

    fn read_hash(&mut self, at: &str, text: &str) -> [u8; 32] {
        if let Some(hash) = parse_hash(text) {
            return hash;
        }
        let what = "must be `blake3:` and 64 hexadecimal digits";
        self.error(&["keys", at, "hash"], what, "use `lockgate keys create`");
        [0; 32]
    }

    fn check_texts(&mut self, at: &str, raw: &Raw) {
        // Only a name may be empty.
        if !raw.name.is_empty() {
            self.check_text(at, "name", Some(&raw.name));
        }
        if let Some(name) = &raw.organisation
            && let Some(mistake) = find_mistake(name)
        {
            self.error(&["keys", at, "organisation"], mistake, "choose another name");
        }
        self.check_text(at, "agent", raw.agent.as_deref());
    }

    fn check_text(&mut self, at: &str, name: &str, text: Option<&str>) {
        if let Some(text) = text
            && !is_plain(text)
        {
            let what = "must be 1 to 256 bytes without control characters";
            self.error(&["keys", at, name], what, "shorten it");
        }
    }

    fn check_grants(&mut self, at: &str, raw: &Raw) {
        if raw.roles.len() > MAX_GRANTS || !raw.roles.iter().all(|role| is_plain(role)) {
            let what = "must be at most 256 texts without control characters";
            self.error(&["keys", at, "roles"], what, "shorten it");
        }
        let are_scopes = raw.scopes.iter().all(|scope| lockgate_authn::is_scope(scope));
        if raw.scopes.len() > MAX_GRANTS || !are_scopes {
            let what = "must be at most 256 scopes";
            let hint = "a scope is ASCII without blanks and quotes";
            self.error(&["keys", at, "scopes"], what, hint);
        }
    }

    fn read_time(&mut self, at: &str, name: &str, text: Option<&str>) -> Option<u64> {
        let time = parse_time(text?);
        if time.is_none() {
            let hint = "write 2027-01-31 or 2027-01-31T12:00:00Z";
            self.error(&["keys", at, name], "is not a time", hint);
        }
        time
    }
}

fn is_plain(text: &str) -> bool {
    (1..=MAX_TEXT).contains(&text.len()) && !text.contains(char::is_control)
}
