//! Detects values of a client's file that may be secrets, and replaces them by references. In doubt
//! a value is a secret: an extra variable is a nuisance, a secret in a file is a leak.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::effective::SCHEMES;
use crate::problem::ValuePlace;
use crate::source::node::Node;

/// Parts of the names of secret values.
const NAMES: [&str; 16] = [
    "TOKEN",
    "KEY",
    "SECRET",
    "PASS",
    "PWD",
    "AUTH",
    "CREDENTIAL",
    "COOKIE",
    "SESSION",
    "DSN",
    "PRIVATE",
    "SIGNATURE",
    "WEBHOOK",
    "CONNECTION",
    "BEARER",
    "_PAT",
];
/// Prefixes of well-known tokens.
const PREFIXES: [&str; 12] = [
    "sk-",
    "pk_",
    "ghp_",
    "gho_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "xox",
    "AKIA",
    "eyJ",
    "npm_",
    "-----BEGIN",
];
/// Headers that reveal nothing about the caller.
const OPEN_HEADERS: [&str; 2] = ["accept-language", "user-agent"];
/// Minimum lengths of a random value, and of its longest part.
const MIN_RANDOM_LENGTH: usize = 20;
const MIN_RANDOM_PART: usize = 16;

/// A variable to set before the gateway starts.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct RequiredVariable {
    pub name: String,
    /// The key of its use, such as `servers.github.env.GITHUB_TOKEN`.
    pub key: String,
    /// The current location of its value.
    pub place: ValuePlace,
}

/// A value in a client's file: the name of its server, its key and its location.
#[derive(Clone, Copy)]
pub struct WrittenAt<'a> {
    pub slug: &'a str,
    pub key: &'a str,
    pub place: &'a ValuePlace,
}

/// The references created so far.
#[derive(Default)]
pub struct Secrets {
    home: String,
    workspace: PathBuf,
    /// By name: the replaced value, if known, and the variable's description.
    made: BTreeMap<String, (Option<String>, RequiredVariable)>,
    /// Names of variables that the files themselves refer to.
    reserved: BTreeSet<String>,
    /// Variables that stand for an input of VS Code, with the input's id as written.
    inputs: BTreeMap<String, String>,
}

impl Secrets {
    pub fn start_file(&mut self, home: &str, workspace: &Path) {
        self.home = home.to_string();
        self.workspace = workspace.to_path_buf();
    }

    /// Reserves the names of the variables in `node`, so that no secret takes them.
    pub fn reserve(&mut self, node: &Node) {
        for (_, node) in node.all() {
            for part in node.as_text().unwrap_or("").split("${").skip(1) {
                let inside = part.split('}').next().unwrap_or("");
                let name = inside.strip_prefix("env:").unwrap_or(inside);
                let name = name.split(":-").next().unwrap_or("");
                self.reserved.insert(name.to_string());
            }
        }
    }

    /// Takes the inputs found since the last call, by the variable that replaces each.
    pub fn take_inputs(&mut self) -> BTreeMap<String, String> {
        std::mem::take(&mut self.inputs)
    }

    pub fn into_wanted(self) -> Vec<RequiredVariable> {
        self.made.into_values().map(|(_, one)| one).collect()
    }

    /// Converts a value that is not secret: only the editor's variables in it are translated.
    pub fn plain(&mut self, text: &str, of: WrittenAt<'_>) -> String {
        let mut out = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            out.push_str(before);
            let Some((inside, tail)) = after.split_once('}') else {
                out.push_str("$${");
                rest = after;
                continue;
            };
            out.push_str(&self.reference(inside, of));
            rest = tail;
        }
        out.push_str(rest);
        out
    }

    /// Converts a value with a name; as a secret, it becomes this variable.
    pub fn named(&mut self, text: &str, name: &str, variable: &str, of: WrittenAt<'_>) -> String {
        if is_secret_name(name) || is_secret_value(text) {
            self.secret(text, variable, of)
        } else {
            self.plain(text, of)
        }
    }

    pub fn header(&mut self, text: &str, name: &str, of: WrittenAt<'_>) -> String {
        if OPEN_HEADERS.contains(&name.to_ascii_lowercase().as_str()) {
            return self.plain(text, of);
        }
        let is_token = name.eq_ignore_ascii_case("authorization");
        let name = if is_token { "token" } else { name };
        self.after_scheme(text, &format!("{}_{name}", of.slug), of)
    }

    /// Converts an argument of a program; `before` may be the option that the argument belongs to.
    pub fn argument(&mut self, text: &str, before: &str, of: WrittenAt<'_>) -> String {
        if let Some((name, value)) = text.split_once('=')
            && !name.contains(['/', ':', '?'])
            && (is_secret_name(name) || is_secret_value(value))
        {
            let made = self.secret(value, name.trim_start_matches('-'), of);
            return format!("{name}={made}");
        }
        let option = before.strip_prefix('-').unwrap_or("").trim_start_matches('-');
        if !option.contains('=') && is_secret_name(option) && !text.starts_with('-') {
            return self.secret(text, option, of);
        }
        if text.contains("://") {
            return self.address(text, of);
        }
        if SCHEMES.iter().any(|scheme| text.contains(scheme)) {
            return self.after_scheme(text, &format!("{}_token", of.slug), of);
        }
        if is_secret_value(text) {
            self.secret(text, &format!("{}_secret", of.slug), of)
        } else {
            self.plain(text, of)
        }
    }

    /// Converts an address, in which user, path or query may be secret.
    pub fn address(&mut self, text: &str, of: WrittenAt<'_>) -> String {
        let Ok(url) = url::Url::parse(text) else {
            return self.plain(text, of);
        };
        let has_user = !url.username().is_empty() || url.password().is_some();
        let in_path = url.path().split('/').any(is_secret_value);
        if has_user || in_path {
            return self.secret(text, &format!("{}_url", of.slug), of);
        }
        let Some((address, query)) = text.split_once('?') else {
            return self.plain(text, of);
        };
        let pairs: Vec<_> = query.split('&').map(|pair| self.parameter(pair, of)).collect();
        format!("{}?{}", self.plain(address, of), pairs.join("&"))
    }

    fn parameter(&mut self, pair: &str, of: WrittenAt<'_>) -> String {
        let Some((name, value)) = pair.split_once('=') else { return self.plain(pair, of) };
        format!("{name}={}", self.named(value, name, &format!("{}_{name}", of.slug), of))
    }

    /// Replaces the secret after `Bearer` or another scheme.
    fn after_scheme(&mut self, text: &str, name: &str, of: WrittenAt<'_>) -> String {
        let mut parts =
            SCHEMES.iter().filter_map(|scheme| Some((scheme, text.split_once(scheme)?)));
        match parts.next() {
            Some((scheme, (before, secret))) => {
                format!("{before}{scheme}{}", self.secret(secret, name, of))
            }
            None => self.secret(text, name, of),
        }
    }

    /// Replaces a secret by a reference, unless the value is a reference already.
    fn secret(&mut self, text: &str, name: &str, of: WrittenAt<'_>) -> String {
        if text.is_empty() || text.contains("${") {
            return self.plain(text, of);
        }
        let mut name = variable_name(name);
        // Such names have a meaning for the gateway.
        let is_ours = name.starts_with("LOCKGATE_") || name.starts_with("MCP_");
        if is_ours || self.is_taken(&name, text) {
            name = variable_name(&format!("{}_{name}", of.slug));
        }
        self.refer(&name, text, of)
    }

    fn input(&mut self, id: &str, inside: &str, of: WrittenAt<'_>) -> String {
        let reference = self.refer(&variable_name(id), inside, of);
        self.inputs.insert(reference.clone(), id.to_string());
        reference
    }

    /// Returns a reference by this name, or by the next free one.
    fn refer(&mut self, first: &str, value: &str, of: WrittenAt<'_>) -> String {
        let mut name = first.to_string();
        let mut number = 2;
        while self.is_taken(&name, value) {
            name = format!("{first}_{number}");
            number += 1;
        }
        self.want(&name, Some(value), of);
        format!("${{{name}}}")
    }

    fn is_taken(&self, name: &str, value: &str) -> bool {
        match self.made.get(name) {
            Some((known, _)) => known.as_deref() != Some(value),
            None => self.reserved.contains(name),
        }
    }

    fn want(&mut self, name: &str, value: Option<&str>, of: WrittenAt<'_>) {
        if !self.made.contains_key(name) {
            let wanted = RequiredVariable {
                name: name.to_string(),
                key: of.key.to_string(),
                place: of.place.clone(),
            };
            self.made.insert(name.to_string(), (value.map(str::to_string), wanted));
        }
    }

    /// Translates the reference between `${` and `}` in a client's file.
    fn reference(&mut self, inside: &str, of: WrittenAt<'_>) -> String {
        match inside {
            "userHome" => return self.home.clone(),
            "workspaceFolder" => return self.workspace.display().to_string(),
            "pathSeparator" | "/" => return "/".to_string(),
            _ => {}
        }
        let name = match inside.split_once(':') {
            Some(("env", name)) => name.to_string(),
            Some(("input", id)) => return self.input(id, inside, of),
            Some((_, default)) if default.starts_with('-') => return format!("${{{inside}}}"),
            Some(_) => variable_name(inside),
            None => variable_name_as_is(inside),
        };
        self.want(&name, None, of);
        format!("${{{name}}}")
    }
}

fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_uppercase().replace('-', "_");
    NAMES.iter().any(|part| name.contains(part))
}

/// Returns whether a value looks like a secret.
fn is_secret_value(text: &str) -> bool {
    if text.contains("${") {
        return false;
    }
    if PREFIXES.iter().any(|prefix| text.starts_with(prefix)) {
        return true;
    }
    if let Ok(url) = url::Url::parse(text)
        && text.contains("://")
    {
        return url.password().is_some();
    }
    let has_digit = text.contains(|c: char| c.is_ascii_digit());
    let has_letter = text.contains(|c: char| c.is_ascii_alphabetic());
    let is_one_word = text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-+=".contains(&b));
    // Names of packages and models have short parts; a UUID has parts, too.
    let longest = text.split(['-', '_']).map(str::len).max().unwrap_or(0);
    let is_uuid = text.len() == 36 && text.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
    let is_long = text.len() >= MIN_RANDOM_LENGTH && longest >= MIN_RANDOM_PART;
    has_digit && has_letter && is_one_word && (is_long || is_uuid)
}

/// Returns a name of upper case letters, digits and `_`.
fn variable_name(text: &str) -> String {
    let mut name = String::new();
    for c in text.chars() {
        if c.is_ascii_alphanumeric() {
            name.push(c.to_ascii_uppercase());
        } else if !name.ends_with('_') {
            name.push('_');
        }
    }
    let name = name.trim_matches('_');
    if name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        name.to_string()
    } else {
        format!("SECRET_{name}")
    }
}

/// Returns the text unchanged if it is a valid name.
fn variable_name_as_is(text: &str) -> String {
    let is_name = text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if is_name { text.to_string() } else { variable_name(text) }
}
