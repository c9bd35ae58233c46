//! The `path` rule: the paths that an argument may contain. A path is parsed strictly, normalised
//! as text, and must then be inside a root. A path that another program could read differently is
//! refused, because the server parses the argument again. The rule does not access the file system,
//! so it cannot resolve symbolic links on the server's machine.

mod spelling;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
#[cfg(test)]
use schemars::JsonSchema;
use serde::Deserialize;
use unicode_normalization::UnicodeNormalization;

use crate::refusal::check_size;
use crate::{Refusal, no};

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

pub(crate) fn goes_up(text: &str) -> bool {
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

// Globs over normalised paths. Denied names are folded as lenient file systems fold them, so that
// another spelling of a name is denied too.

/// Globs by the part of a path that they match.
#[derive(Clone, Debug)]
struct Globs {
    names: GlobSet,
    whole: GlobSet,
    below: GlobSet,
}

impl Globs {
    /// Compiles globs for paths in these roots, each given as its names; `None` for none. Globs of
    /// denied paths fold case.
    fn compile(
        globs: &[String],
        roots: &[Vec<String>],
        fold: bool,
    ) -> Result<Option<Self>, String> {
        if globs.is_empty() {
            return Ok(None);
        }
        let mut names = GlobSetBuilder::new();
        let mut whole = GlobSetBuilder::new();
        let mut below = GlobSetBuilder::new();
        for glob in globs {
            // `secrets/` means a folder of this name anywhere, as in other programs.
            let text = if fold { glob.strip_suffix('/').unwrap_or(glob) } else { glob };
            fits_some(text, roots).map_err(|words| format!("{glob:?} {words}"))?;
            let spelled = if fold { cased(text) } else { text.to_owned() };
            let compiled = GlobBuilder::new(&spelled).literal_separator(true).build();
            let compiled =
                compiled.map_err(|error| format!("{glob:?} is not a glob: {}", error.kind()))?;
            match (text.contains('/'), text.starts_with('/')) {
                (false, _) => names.add(compiled),
                (true, true) => whole.add(compiled),
                (true, false) => below.add(compiled),
            };
        }
        Ok(Some(Self { names: build(&names)?, whole: build(&whole)?, below: build(&below)? }))
    }

    /// Returns whether a path is allowed; `below` are its names below the root.
    fn allow(&self, path: &str, below: &[String]) -> bool {
        if below.is_empty() {
            // A root is allowed if the globs allow every name in it.
            let any = ANY_NAME.to_owned();
            return self.allow(&format!("{}/{any}", path.trim_end_matches('/')), &[any]);
        }
        self.whole.is_match(path)
            || below.last().is_some_and(|name| self.names.is_match(name))
            || self.below.is_match(below.join("/"))
    }

    /// Returns whether a path, or a folder that contains it, is denied; its root has `root` names.
    /// Names are matched as written and as lenient file systems read them, because a glob may match
    /// only one of the two.
    fn deny(&self, names: &[String], root: usize) -> bool {
        self.hold(names, root, cased)
            || self.hold(names, root, folded)
            || names.iter().skip(root).any(|name| is_short(&folded(name)))
    }

    /// Returns whether a glob matches the path or one of its parent folders. `read` folds each
    /// name.
    fn hold(&self, names: &[String], root: usize, read: fn(&str) -> String) -> bool {
        let mut whole = String::new();
        let mut below = String::new();
        for (at, name) in names.iter().enumerate() {
            let name = read(name);
            whole.push('/');
            whole.push_str(&name);
            // A glob that begins with `/` may name a folder that contains the root.
            if self.whole.is_match(&whole) {
                return true;
            }
            if at < root {
                continue;
            }
            if !below.is_empty() {
                below.push('/');
            }
            below.push_str(&name);
            if self.names.is_match(&name) || self.below.is_match(&below) {
                return true;
            }
        }
        false
    }
}

fn build(globs: &GlobSetBuilder) -> Result<GlobSet, String> {
    globs.build().map_err(|error| error.to_string())
}

/// Checks that a glob can match a path in these roots, judging by its literal names.
fn fits_some(glob: &str, roots: &[Vec<String>]) -> Result<(), String> {
    let rest = glob.strip_prefix('/').unwrap_or(glob);
    if glob.is_empty() {
        return Err("is empty".into());
    }
    if glob.ends_with('/') {
        return Err(format!("matches no path: write {rest}** for the contents of the folder"));
    }
    if rest.split('/').any(|name| matches!(name, "" | "." | "..")) {
        return Err("matches no path: leave out `.`, `..` and doubled slashes".into());
    }
    if rest.len() < glob.len() && !roots.iter().any(|root| meets(rest, root)) {
        return Err("is outside of all roots: leave it out, or begin it without `/`".into());
    }
    Ok(())
}

/// Returns whether a glob and a root have equal names, up to the first wildcard or the end of the
/// shorter one.
fn meets(glob: &str, root: &[String]) -> bool {
    for (name, folder) in glob.split('/').zip(root) {
        if name.contains(['*', '?', '[', '{', '\\']) {
            return true;
        }
        if cased(name) != cased(folder) {
            return false;
        }
    }
    true
}

/// A name that no glob contains.
const ANY_NAME: &str = "\u{1}";

/// Folds case, wide letters, trailing dots and spaces, and streams (`name:stream`).
fn folded(name: &str) -> String {
    let name = name.split(':').next().unwrap_or("");
    cased(name.trim_end_matches(['.', ' ']))
}

/// Folds case, wide letters and combining accents.
fn cased(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        let narrow = match c {
            '\u{FF01}'..='\u{FF5E}' => char::from_u32(u32::from(c) - 0xFEE0).unwrap_or(c),
            c => c,
        };
        for upper in narrow.to_uppercase() {
            plain.extend(upper.to_lowercase());
        }
    }
    plain.nfc().collect()
}

/// Returns whether a name has the short form of Windows (`GIT~1`), which can stand for any name.
fn is_short(name: &str) -> bool {
    let (stem, extension) = name.split_once('.').unwrap_or((name, ""));
    let Some((start, digits)) = stem.rsplit_once('~') else { return false };
    stem.len() <= 8
        && extension.len() <= 3
        && !start.is_empty()
        && !digits.is_empty()
        && digits.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests;
