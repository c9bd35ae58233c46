//! The encoding of a guard's plan: fields separated by NUL, which none of them can contain.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// A program with its complete environment.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) command: OsString,
    pub(super) arguments: Vec<OsString>,
    pub(super) environment: Vec<(OsString, OsString)>,
    pub(super) cwd: Option<PathBuf>,
}

impl Plan {
    /// Returns `None` if a field contains a NUL, which no program can be started with.
    pub(super) fn encode(&self) -> Option<Vec<u8>> {
        let cwd = match &self.cwd {
            Some(cwd) => cwd.as_os_str(),
            None => OsStr::new(""),
        };
        let count = self.arguments.len().to_string();
        let mut fields = vec![self.command.as_bytes(), cwd.as_bytes(), count.as_bytes()];
        fields.extend(self.arguments.iter().map(|argument| argument.as_bytes()));
        for (name, value) in &self.environment {
            fields.extend([name.as_bytes(), value.as_bytes()]);
        }
        if fields.iter().any(|field| field.contains(&0)) {
            return None;
        }
        Some(fields.join(&0))
    }

    pub(super) fn decode(text: &[u8]) -> Option<Self> {
        let mut fields =
            text.split(|byte| *byte == 0).map(|field| OsString::from_vec(field.to_vec()));
        let command = fields.next()?;
        let cwd = match fields.next() {
            Some(cwd) if !cwd.is_empty() => Some(PathBuf::from(cwd)),
            _ => None,
        };
        let count: usize = fields.next()?.to_str()?.parse().ok()?;
        let arguments: Vec<OsString> = fields.by_ref().take(count).collect();
        if arguments.len() < count {
            return None;
        }
        let mut environment = Vec::new();
        while let Some(name) = fields.next() {
            environment.push((name, fields.next()?));
        }
        Some(Self { command, arguments, environment, cwd })
    }
}

#[cfg(test)]
mod tests;
