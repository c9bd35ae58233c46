//! The file of API keys: read and checked with places, as the configuration is. It holds hashes and
//! no secret.

use std::collections::BTreeSet;
use std::path::Path;

use lockgate_authn::key::{Key, is_id, parse_hash, parse_time};
use serde::Deserialize;

use crate::problem::{Place, Problem, Problems, Report};
use crate::raw::leaf::Text;
use crate::source;
use crate::source::layer::Layer;

/// Keys of one file.
const KEYS: usize = 10_000;
/// Longest name, organisation, role or agent.
const TEXT: usize = 256;
/// Roles, and scopes, of one key.
const GRANTS: usize = 256;

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    keys: Vec<Raw>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Raw {
    id: Text,
    hash: Text,
    name: Text,
    organisation: Option<Text>,
    roles: Vec<Text>,
    scopes: Vec<Text>,
    agent: Option<Text>,
    created: Option<Text>,
    expires: Option<Text>,
    revoked: Option<Text>,
}

/// The keys of a file; none when there is no such file yet.
///
/// # Errors
/// Every mistake in it.
pub fn load(path: &Path, cwd: &Path) -> Result<Vec<Key>, Report> {
    let mut problems = Problems::default();
    let keys = read(path, cwd, &mut problems);
    problems.finish().map(|_| keys.unwrap_or_default())
}

/// The same for the configuration: reports mistakes, and gives keys only when there is none.
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
    if file.keys.len() > KEYS {
        reader.error(&["keys"], "has more than 10000 keys", "take out those that were revoked");
        return None;
    }
    let keys: Vec<Key> =
        file.keys.into_iter().enumerate().map(|(at, raw)| reader.key(at, raw)).collect();
    (!reader.wrong).then_some(keys)
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
        let place = (1..=path.len()).rev().find_map(|n| self.layer.root.place_of(&path[..n]));
        let problem = Problem::error(place.unwrap_or(Place::Nowhere), path.join("."), what);
        self.problems.push(problem.hint(hint));
    }

    fn key(&mut self, at: usize, raw: Raw) -> Key {
        let at = at.to_string();
        let path = |name: &'static str| ["keys", at.as_str(), name];
        if !is_id(&raw.id.0) {
            self.error(
                &path("id"),
                "must be 16 hexadecimal digits",
                "`lockgate keys create` makes keys",
            );
        } else if !self.ids.insert(raw.id.0.clone()) {
            self.error(&path("id"), "stands twice", "keep one of them");
        }
        let hash = parse_hash(&raw.hash.0);
        if hash.is_none() {
            let what = "must be `blake3:` and 64 hexadecimal digits";
            self.error(&path("hash"), what, "`lockgate keys create` makes keys");
        }
        let single = [
            ("name", Some(&raw.name)),
            ("organisation", raw.organisation.as_ref()),
            ("agent", raw.agent.as_ref()),
        ];
        for (name, text) in single {
            if text.is_some_and(|text| !(is_plain(&text.0) || name == "name" && text.0.is_empty()))
            {
                self.error(
                    &path(name),
                    "must be 1 to 256 bytes without control characters",
                    "shorten it",
                );
            }
        }
        if raw.roles.len() > GRANTS || !raw.roles.iter().all(|role| is_plain(&role.0)) {
            self.error(
                &path("roles"),
                "must be at most 256 texts without control characters",
                "shorten it",
            );
        }
        if raw.scopes.len() > GRANTS
            || !raw.scopes.iter().all(|scope| lockgate_authn::is_scope(&scope.0))
        {
            self.error(
                &path("scopes"),
                "must be at most 256 scopes",
                "a scope is ASCII without blanks and quotes",
            );
        }
        let mut time = |name: &'static str, text: Option<&Text>| {
            let time = text.map(|text| parse_time(&text.0));
            if time == Some(None) {
                self.error(&path(name), "is no time", "write 2027-01-31 or 2027-01-31T12:00:00Z");
            }
            time.flatten()
        };
        let created = time("created", raw.created.as_ref());
        let expires = time("expires", raw.expires.as_ref());
        let revoked = time("revoked", raw.revoked.as_ref());
        let texts = |all: Vec<Text>| all.into_iter().map(|text| text.0).collect();
        Key {
            id: raw.id.0,
            hash: hash.unwrap_or_default(),
            name: raw.name.0,
            organisation: raw.organisation.map(|text| text.0),
            roles: texts(raw.roles),
            scopes: texts(raw.scopes),
            agent: raw.agent.map(|text| text.0),
            created: created.unwrap_or_default(),
            expires,
            revoked,
        }
    }
}

fn is_plain(text: &str) -> bool {
    (1..=TEXT).contains(&text.len()) && !text.chars().any(char::is_control)
}
