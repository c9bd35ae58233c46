//! `lockgate config show`: prints the settings in force and the source of each value. Starts
//! nothing and shows no secret.

use std::process::ExitCode;

use anyhow::bail;
use lockgate_config::{Effective, Setting, ValuePlace};
use serde_json::{Value, json};

use crate::commands::{Printed, show};

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Print every key, its value and where that comes from; secrets as references
    Show {
        /// Only this key and the keys below it, such as `servers.time`
        key: Option<String>,
        /// Omit keys that are not set anywhere
        #[arg(long)]
        set: bool,
    },
}

impl Command {
    pub(crate) fn run(&self, effective: &Effective, json: bool) -> Printed {
        let Self::Show { key, set } = self;
        let mut settings: Vec<&Setting> = effective.settings.iter().collect();
        if let Some(key) = key {
            settings.retain(|setting| is_at(&setting.key, key));
            if settings.is_empty() {
                bail!("there is no key `{key}`; `lockgate config show` lists all keys");
            }
        }
        if *set {
            settings.retain(|setting| setting.origin != ValuePlace::Nowhere);
        }
        let text = if json { as_json(effective, &settings) } else { as_table(&settings) };
        Ok((text, ExitCode::SUCCESS))
    }
}

/// Reports whether a key is `named`, or below it.
fn is_at(key: &str, named: &str) -> bool {
    key.strip_prefix(named).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn as_json(effective: &Effective, settings: &[&Setting]) -> String {
    show::pretty(&json!({
        "files": effective.loaded.files,
        "problems": effective.loaded.warnings,
        "settings": settings,
    }))
}

fn as_table(settings: &[&Setting]) -> String {
    let rows = settings.iter();
    let rows = rows.map(|one| vec![one.key.clone(), value(one), origin(&one.origin)]);
    let rows: Vec<_> = rows.collect();
    show::table(&["key", "value", "from"], &rows)
}

/// Returns the value as it is written, or the default in brackets.
fn value(setting: &Setting) -> String {
    match (&setting.value, &setting.otherwise) {
        (Value::Null, Some(words)) => format!("({words})"),
        (Value::Null, None) => "-".to_string(),
        (Value::String(text), _) => text.escape_debug().to_string(),
        (value, _) => value.to_string(),
    }
}

/// Returns the file and line, the variable, or the flag that set the value.
fn origin(place: &ValuePlace) -> String {
    match place {
        ValuePlace::File { path, line, .. } if *line > 0 => format!("{}:{line}", path.display()),
        ValuePlace::Nowhere => "default".to_string(),
        place => place.to_string(),
    }
}
