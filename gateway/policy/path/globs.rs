//! Globs over normalised paths. Denied names are folded as lenient file systems fold them, so that
//! another spelling of a name is denied too.

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use unicode_normalization::UnicodeNormalization;

/// Globs by the part of a path that they match.
#[derive(Clone, Debug)]
pub(super) struct Globs {
    names: GlobSet,
    whole: GlobSet,
    below: GlobSet,
}

impl Globs {
    /// Compiles globs for paths in these roots, each given as its names; `None` for none. Globs of
    /// denied paths fold case.
    pub(super) fn compile(
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
    pub(super) fn allow(&self, path: &str, below: &[String]) -> bool {
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
    pub(super) fn deny(&self, names: &[String], root: usize) -> bool {
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
