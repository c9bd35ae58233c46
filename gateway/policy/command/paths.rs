//! Textual checks that the paths in a command stay inside the rule's roots. Links are not resolved
//! here: the process that opens a path has to hold it by descriptor.

use super::tokens::quoted;
use crate::Refusal;

/// Normalises a root for comparisons: absolute, without `.`, `..` and double slashes.
pub(super) fn root(text: &str) -> Result<String, String> {
    let rooted = if text.starts_with('/') && !goes_up(text) { join("/", text) } else { None };
    rooted.ok_or_else(|| format!("roots: `{text}` must be an absolute path without `..`"))
}

/// Resolves `path` from `folder` to an absolute path inside a root. Without a folder, a relative
/// path that does not go up is returned unchanged.
pub(super) fn locate(
    path: &str,
    folder: Option<&str>,
    roots: &[String],
) -> Result<String, Refusal> {
    let shown = quoted(path);
    if !path.starts_with('/') && folder.is_none() {
        // A revision such as `a..b` is not a path that goes up.
        if goes_up(path) {
            return Err(Refusal(format!("{shown} goes up with `..`; {}", advice(roots))));
        }
        return Ok(path.to_owned());
    }
    // With a known folder, the caller resolves links in the file system.
    if folder.is_none() && goes_up_behind_a_name(path) {
        return Err(Refusal(format!(
            "{shown} has `..` after a name, which may be a link: write the resolved path"
        )));
    }
    let Some(full) = join(folder.unwrap_or("/"), path) else {
        let advice = advice(roots);
        return Err(Refusal(format!("{shown} goes up beyond the root folder; {advice}")));
    };
    if roots.iter().any(|root| below(&full, root)) {
        return Ok(full);
    }
    let advice = advice(roots);
    Err(Refusal(format!("{shown} is outside of the folders that may be used; {advice}")))
}

fn advice(roots: &[String]) -> String {
    match roots {
        [] => "use a relative path below the working folder".to_owned(),
        roots => format!("allowed folders are: {}", roots.join(", ")),
    }
}

fn goes_up(path: &str) -> bool {
    path.split('/').any(|part| part == "..")
}

fn goes_up_behind_a_name(path: &str) -> bool {
    let mut has_name = false;
    for part in path.split('/') {
        match part {
            ".." if has_name => return true,
            "" | "." | ".." => {}
            _ => has_name = true,
        }
    }
    false
}

/// Joins and normalises two paths; returns `None` if the result is above `/`.
fn join(folder: &str, path: &str) -> Option<String> {
    let base = if path.starts_with('/') { "" } else { folder };
    let mut parts: Vec<&str> = Vec::new();
    for part in base.split('/').chain(path.split('/')) {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(format!("/{}", parts.join("/")))
}

fn below(path: &str, root: &str) -> bool {
    if root == "/" {
        return true;
    }
    let Some(rest) = path.strip_prefix(root) else { return false };
    rest.is_empty() || rest.starts_with('/')
}
