//! The `path` rule: the paths that an argument may contain. A path is parsed strictly, normalised
//! as text, and must then be inside a root. A path that another program could read differently is
//! refused, because the server parses the argument again. The rule does not access the file system,
//! so it cannot resolve symbolic links on the server's machine.

mod globs;
mod spelling;

#[cfg(test)]
use schemars::JsonSchema;
use serde::Deserialize;

use crate::refusal::check_size;
use crate::{Refusal, no};
use globs::Globs;

/// The rule as it is written in a policy file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Spec {
    /// Folders that paths must be in, absolute: `/srv/data`. At least one.
    pub roots: Vec<String>,
    /// The folder that relative paths start from: a root, or a folder in one. Without it relative
    /// paths are refused.
    pub base: Option<String>,
    /// Globs of paths (`*`, `?`, `[…]`, `{a,b}`; `**` crosses folders). A glob without `/` is
    /// matched against the last name (`*.md`), one that begins with `/` against the whole path, any
    /// other against the path below the root. Default: every path in the roots.
    pub allow: Vec<String>,
    /// Globs of paths that are refused with everything below them, regardless of `allow` and of
    /// case. A glob without `/` is matched against every name of the path (`.git`, `*.pem`), the
    /// others as in `allow`.
    pub deny: Vec<String>,
    /// Whether a root itself, or a folder that contains one, is allowed, and not only paths inside
    /// of a root. Default: true for tools that are annotated as read-only, prompts and resources;
    /// false for other tools, which may write or delete the path.
    pub allow_root: Option<bool>,
    /// The server takes every name literally: `~`, `$HOME`, `{a,b}` and `\` in a path have no
    /// special meaning. Not for a path that is passed to a shell, or a server on Windows. Default
    /// `false`.
    pub literal: bool,
    /// Also accept `file:///…` URIs; they are decoded once and checked as paths. Default `false`.
    pub uris: bool,
    /// Longest path in bytes, 1–65536. Default 4096.
    pub max_bytes: usize,
}

impl Default for Spec {
    fn default() -> Self {
        Self {
            roots: Vec::new(),
            base: None,
            allow: Vec::new(),
            deny: Vec::new(),
            allow_root: None,
            literal: false,
            uris: false,
            max_bytes: 4096,
        }
    }
}

const MAX_BYTES: usize = 65_536;
const MAX_NAMES: usize = 256;
/// Number of roots named in a refusal.
const MAX_NAMED_ROOTS: usize = 3;
/// Folders of the kernel. Their entries refer to other resources.
const KERNEL: [&str; 4] = ["proc", "sys", "dev", ".vol"];

/// A compiled rule.
#[derive(Clone, Debug)]
pub struct Path {
    spec: Spec,
    /// The names of each root, in order.
    roots: Vec<Vec<String>>,
    base: Option<Vec<String>>,
    /// `None` allows every path in the roots.
    allow: Option<Globs>,
    deny: Option<Globs>,
}

/// A path that a rule allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// Absolute and normalised: without `.`, `..` and double slashes.
    pub path: String,
    /// The innermost root that contains the path.
    pub root: String,
    /// Whether the path is a root or contains one.
    pub holds_root: bool,
    /// Whether the path was written with `..`, which a server may follow through a link. In that
    /// case `path` must be sent in place of the original.
    pub went_up: bool,
}

impl Path {
    /// Compiles a rule.
    ///
    /// # Errors
    /// Returns the first invalid entry.
    pub fn compile(spec: &Spec) -> Result<Self, String> {
        let lists = [&spec.roots, &spec.allow, &spec.deny].map(Vec::len);
        check_size(&lists, spec.max_bytes, MAX_BYTES)?;
        if spec.roots.is_empty() {
            return Err("roots: name at least one folder".into());
        }
        let roots = spec.roots.iter().map(|root| under("roots", folder(root)));
        let roots = roots.collect::<Result<Vec<_>, _>>()?;
        let base = spec.base.as_ref().map(|base| under("base", folder(base))).transpose()?;
        if let Some(base) = &base
            && !roots.iter().any(|root| base.starts_with(root))
        {
            return Err("base: must be a root or a folder in a root".into());
        }
        let allow = under("allow", Globs::compile(&spec.allow, &roots, false))?;
        let deny = under("deny", Globs::compile(&spec.deny, &roots, true))?;
        Ok(Self { spec: spec.clone(), roots, base, allow, deny })
    }

    /// Checks the argument of a call. Returns the text to send in its place, if that differs.
    /// `reads` indicates that the call changes nothing.
    pub(crate) fn check_argument(
        &self,
        text: &str,
        reads: bool,
    ) -> Result<Option<String>, Refusal> {
        let checked = self.check(text)?;
        if checked.holds_root && !self.spec.allow_root.unwrap_or(reads) {
            let path = &checked.path;
            return no(format!(
                "{path} is a root, which must not be changed: use a path in it (or set allow_root \
                    in its rule)"
            ));
        }
        if !checked.went_up {
            return Ok(None);
        }
        if self.spec.uris && !text.starts_with('/') && text.contains(':') {
            return no("the URI contains `..`: write the resolved path");
        }
        Ok(Some(checked.path))
    }

    /// Checks a path.
    ///
    /// # Errors
    /// Returns the refused part and the value to send instead.
    pub fn check(&self, text: &str) -> Result<Checked, Refusal> {
        let bytes = text.len();
        let most = self.spec.max_bytes;
        if bytes > most {
            return no(format!("the path has {bytes} bytes and at most {most} are allowed"));
        }
        let decoded = if self.spec.uris { spelling::decode_uri(text)? } else { None };
        let text = decoded.as_deref().unwrap_or(text);
        self.spelled(text)?;
        let names = self.normalise(text)?;
        let checked = self.judge(&names)?;
        // Some programs read a backslash as a slash, and some drop it: both readings must be
        // allowed.
        if !self.spec.literal && text.contains('\\') {
            // Removing `.` and empty names can change how the path begins.
            self.spelled(&checked.path.replace('\\', "/"))?;
            for other in [text.replace('\\', "/"), text.replace('\\', "")] {
                if goes_up(&other) {
                    return no("the path has a backslash and `..`: separate names with /");
                }
                self.spelled(&other)?;
                self.judge(&self.normalise(&other)?)?;
            }
        }
        Ok(Checked { went_up: goes_up(text), ..checked })
    }

    /// Checks that every program reads the text in the same way.
    fn spelled(&self, text: &str) -> Result<(), Refusal> {
        Ok(spelling::check(text, self.spec.literal)?)
    }

    fn judge(&self, names: &[String]) -> Result<Checked, Refusal> {
        let Some(root) = self.root_of(names) else { return Err(self.outside()) };
        let below = names.get(root.len()..).unwrap_or(&[]);
        if let Some(first) = names.first()
            && root.is_empty()
            && KERNEL.contains(&first.to_lowercase().as_str())
        {
            let path = whole(names);
            return no(format!("{path} is a folder of the kernel: use a path of ordinary files"));
        }
        let path = whole(names);
        // Removing empty names can leave white space at the end of the path.
        self.spelled(&path)?;
        // Roots may be nested: a path that is denied in one is denied in all.
        let mut holding = self.roots.iter().filter(|root| names.starts_with(root));
        if let Some(deny) = &self.deny
            && holding.any(|root| deny.deny(names, root.len()))
        {
            return no("the path is denied: use another path");
        }
        if self.allow.as_ref().is_some_and(|allow| !allow.allow(&path, below)) {
            return no("the path is not on the list of allowed paths: use an allowed path");
        }
        let holds_root = self.roots.iter().any(|root| root.starts_with(names));
        Ok(Checked { path, root: whole(root), holds_root, went_up: false })
    }

    /// Returns the names of the absolute path. `..` may only remove names below a root.
    fn normalise(&self, text: &str) -> Result<Vec<String>, Refusal> {
        let mut names: Vec<String> = match (&self.base, text.starts_with('/')) {
            (_, true) => Vec::new(),
            (Some(base), false) => base.clone(),
            (None, false) => {
                let where_to = self.where_to();
                return no(format!("the path is relative: use an absolute path {where_to}"));
            }
        };
        for name in text.split('/') {
            match name {
                "" | "." => {}
                ".." => {
                    match self.root_of(&names) {
                        Some(root) if names.len() > root.len() => names.pop(),
                        _ => return Err(self.outside()),
                    };
                }
                name => names.push(name.to_owned()),
            }
            if names.len() > MAX_NAMES {
                return no(format!("the path has more than {MAX_NAMES} names: use a shorter one"));
            }
        }
        Ok(names)
    }

    /// Returns the innermost root that contains a path.
    fn root_of(&self, names: &[String]) -> Option<&[String]> {
        let roots = self.roots.iter().filter(|root| names.starts_with(root));
        let innermost = roots.max_by_key(|root| root.len())?;
        Some(innermost)
    }

    fn outside(&self) -> Refusal {
        Refusal(format!("the path leaves the allowed folders: use a path {}", self.where_to()))
    }

    fn where_to(&self) -> String {
        let named = self.roots.iter().take(MAX_NAMED_ROOTS).map(|root| whole(root));
        format!("in {}", Vec::from_iter(named).join(" or "))
    }
}

/// Prefixes an error with the key of its entry.
fn under<T>(key: &str, compiled: Result<T, String>) -> Result<T, String> {
    compiled.map_err(|words| format!("{key}: {words}"))
}

fn goes_up(text: &str) -> bool {
    text.split('/').any(|name| name == "..")
}

fn whole(names: &[String]) -> String {
    format!("/{}", names.join("/"))
}

/// Parses a folder of a rule into its names.
fn folder(text: &str) -> Result<Vec<String>, String> {
    let mut is_plain =
        text.starts_with('/') && !text.contains('\\') && spelling::check(text, false).is_ok();
    let mut names = Vec::new();
    for name in text.split('/') {
        match name {
            "" => {}
            "." | ".." => is_plain = false,
            name => names.push(name.to_owned()),
        }
    }
    if is_plain && names.len() <= MAX_NAMES {
        Ok(names)
    } else {
        Err(format!("{text:?} must begin with / and be plain, without . and .. and escapes"))
    }
}

#[cfg(test)]
mod tests;
