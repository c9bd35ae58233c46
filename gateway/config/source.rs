//! Sources of configuration: files (YAML, TOML, JSON), environment and flags, each read into a
//! layer without interpreting the values. Files are bounded in size and nesting.

#[allow(clippy::result_large_err, reason = "serde takes figment's error as it is")]
pub mod decode;
pub mod environment;
pub mod forms;
pub mod json;
pub mod layer;
pub mod node;
mod toml;
mod yaml;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::problem::{Problem, ValuePlace};
use node::{Node, Value};

/// Maximum size of a file in bytes.
pub const FILE_BYTES: u64 = 1024 * 1024;
/// File names searched in the current folder if no file is named.
const DEFAULT_FILES: [&str; 4] =
    ["lockgate.yaml", "lockgate.yml", "lockgate.toml", "lockgate.json"];

/// Returns the configuration file in a folder, if any. Several such files are a mistake.
pub fn locate(folder: &Path) -> Result<Option<PathBuf>, Problem> {
    let mut found = DEFAULT_FILES.iter().filter(|name| folder.join(name).is_file());
    let first = found.next();
    if let (Some(first), Some(second)) = (first, found.next()) {
        let what = format!("{second} exists too");
        let hint = "keep one of them, or select one with --config";
        return Err(Problem::error(ValuePlace::file(Path::new(first)), "", what).hint(hint));
    }
    Ok(first.map(|name| folder.join(name)))
}

/// Returns a file's display path: relative to the current folder if inside.
pub fn display_path(path: &Path, cwd: &Path) -> PathBuf {
    path.strip_prefix(cwd).unwrap_or(path).to_path_buf()
}

/// Reads a file according to its extension. With `otherwise_json`, other extensions are read as
/// JSON.
pub fn read_file(path: &Path, cwd: &Path, otherwise_json: bool) -> Result<Node, Problem> {
    let name = Arc::new(display_path(path, cwd));
    let whole = ValuePlace::file(&name);
    let text = read_text(path, &whole)?;
    let extension = path.extension().unwrap_or_default().to_ascii_lowercase();
    let node = match extension.to_str().unwrap_or("") {
        "yaml" | "yml" if text.trim().is_empty() => Node::map(whole.clone()),
        "yaml" | "yml" => yaml::read(&name, &text)?,
        "toml" => toml::read(&name, &text)?,
        "json" | "jsonc" => json::read(&name, &text)?,
        _ if otherwise_json => json::read(&name, &text)?,
        _ => {
            let what = "the file's extension is unknown";
            return Err(Problem::error(whole, "", what).hint("name it .yaml, .toml or .json"));
        }
    };
    match node.value {
        Value::Map(_) => Ok(node),
        Value::Null => Ok(Node::map(whole)),
        _ => {
            let what = format!("must contain keys and values, not {}", node.kind());
            Err(Problem::error(whole, "", what))
        }
    }
}

/// Reads JSON text from a source that is not a file.
pub fn read_json(source: &Path, text: &str) -> Result<Node, Problem> {
    json::read(&Arc::new(source.to_path_buf()), text)
}

/// Reads a file up to a byte more than the maximum.
#[allow(clippy::disallowed_methods, reason = "reads what the operator named, within a bound")]
pub fn read_bytes(path: &Path, most: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(most + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn read_text(path: &Path, whole: &ValuePlace) -> Result<String, Problem> {
    let what = match read_bytes(path, FILE_BYTES) {
        Ok(bytes) if bytes.len() as u64 > FILE_BYTES => "is larger than 1 MiB".to_string(),
        Ok(bytes) => match String::from_utf8(bytes) {
            Ok(text) => return Ok(text),
            Err(_) => "is not UTF-8 text".to_string(),
        },
        Err(error) => format!("cannot be read: {}", reason(&error)),
    };
    Err(Problem::error(whole.clone(), "", what))
}

pub fn reason(error: &std::io::Error) -> String {
    use std::io::ErrorKind as K;
    match error.kind() {
        K::NotFound => "there is no such file".to_string(),
        K::PermissionDenied => "permission denied".to_string(),
        K::IsADirectory => "it is a folder".to_string(),
        _ => error.to_string(),
    }
}
