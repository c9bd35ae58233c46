//! `lockgate keys`: creates, lists and revokes API keys in the keys file. A key's text is shown
//! once, when it is created, and is not stored.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use lockgate_authn::is_scope;
use lockgate_authn::key::{self, Key, write_time};
use lockgate_text::organisation::find_mistake;
use serde_json::{Value, json};

use crate::commands::show::table;
use crate::keys_file::{change, entry, pretty, read};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Create a key and show it once
    Create {
        /// Name of the user or program of the key
        name: String,
        #[command(flatten)]
        grants: Grants,
        /// When the key expires: 2027-01-31, 2027-01-31T12:00:00Z, or a number of days such as 90d
        /// [default: never]
        #[arg(long, value_name = "WHEN")]
        expires: Option<String>,
        #[command(flatten)]
        file: Named,
    },
    /// List all keys, without their secrets
    List {
        #[command(flatten)]
        file: Named,
    },
    /// Revoke a key immediately
    Revoke {
        /// The key's id, the first part of its text: lg_ID_…
        id: String,
        #[command(flatten)]
        file: Named,
    },
}

#[derive(Args)]
pub(crate) struct Grants {
    /// The organisation of its holder
    #[arg(long, value_name = "NAME")]
    organisation: Option<String>,
    /// A role of its holder; may be repeated
    #[arg(long = "role", value_name = "NAME")]
    roles: Vec<String>,
    /// A scope that it grants; may be repeated
    #[arg(long = "scope", value_name = "SCOPE")]
    scopes: Vec<String>,
    /// The software that uses it
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
}

#[derive(Args)]
pub(crate) struct Named {
    /// The keys file (.yaml or .json) [default: `auth.keys_file` of the configuration]
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

impl Command {
    pub(crate) fn file(&self) -> Option<&Path> {
        let (Self::Create { file, .. } | Self::List { file } | Self::Revoke { file, .. }) = self;
        file.file.as_deref()
    }
}

pub(crate) fn run(command: &Command, file: &Path, json: bool) -> anyhow::Result<String> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    match command {
        Command::Create { name, grants, expires, .. } => {
            let expires = expires.as_deref().map(|text| moment(text, now)).transpose()?;
            let (mut new, text) = Key::mint(now)?;
            grants.check(name)?;
            (new.name, new.expires) = (name.clone(), expires);
            (new.organisation, new.agent) = (grants.organisation.clone(), grants.agent.clone());
            (new.roles, new.scopes) = (grants.roles.clone(), grants.scopes.clone());
            change(file, |keys| {
                keys.push(new.clone());
                Ok(())
            })?;
            if json {
                let mut shown = describe(&new, now);
                shown["key"] = text.into();
                return Ok(pretty(&shown));
            }
            Ok(format!(
                "{text}\n\nkey {} for {name} is in {}. It will not be shown again.",
                new.id,
                file.display()
            ))
        }
        Command::List { .. } => list(&read(file)?, now, json),
        Command::Revoke { id, .. } => {
            let id = id.strip_prefix(key::PREFIX).unwrap_or(id).split('_').next().unwrap_or("");
            let mut revoked = now;
            change(file, |keys| {
                let Some(key) = keys.iter_mut().find(|key| key.id == id) else {
                    bail!("there is no key {id:.32} in {}", file.display());
                };
                revoked = *key.revoked.get_or_insert(now);
                Ok(())
            })?;
            if json {
                Ok(pretty(&json!({"id": id, "revoked": write_time(revoked)})))
            } else {
                Ok(format!("key {id} was revoked at {}", write_time(revoked)))
            }
        }
    }
}

impl Grants {
    fn check(&self, name: &str) -> anyhow::Result<()> {
        let mut texts = vec![name];
        texts.extend(self.roles.iter().map(String::as_str));
        texts.extend(self.agent.as_deref());
        for text in texts {
            if text.is_empty() || text.len() > 256 || text.contains(char::is_control) {
                bail!("names must have 1 to 256 bytes without control characters");
            }
        }
        if let Some(mistake) = self.organisation.as_deref().and_then(find_mistake) {
            bail!("the name of the organisation {mistake}");
        }
        for scope in &self.scopes {
            if !is_scope(scope) {
                bail!("{scope:?} is not a scope: a scope is ASCII without blanks and quotes");
            }
        }
        Ok(())
    }
}

fn moment(text: &str, now: u64) -> anyhow::Result<u64> {
    let when = in_days(text).map(|days| now + days * 86_400).or_else(|| key::parse_time(text));
    let when = when.with_context(|| format!("{text:?} is not a time: use 2027-01-31 or 90d"))?;
    if when <= now {
        bail!("{text} is in the past");
    }
    Ok(when)
}

fn in_days(text: &str) -> Option<u64> {
    let days = text.strip_suffix('d')?.parse().ok()?;
    if days <= 36_500 { Some(days) } else { None }
}

fn list(keys: &[Key], now: u64, json: bool) -> anyhow::Result<String> {
    if json {
        let keys: Vec<Value> = keys.iter().map(|key| describe(key, now)).collect();
        return Ok(pretty(&json!({"keys": keys})));
    }
    if keys.is_empty() {
        return Ok("no keys".into());
    }
    let mut rows = Vec::new();
    for key in keys {
        let roles = if key.roles.is_empty() { "-".to_owned() } else { key.roles.join(", ") };
        let expires = key.expires.map_or_else(|| "never".into(), write_time);
        rows.push(vec![
            key.id.clone(),
            key.state(now).to_owned(),
            expires,
            key.organisation_or_default().to_owned(),
            roles,
            key.name.clone(),
        ]);
    }
    Ok(table(&["id", "state", "expires", "organisation", "roles", "name"], &rows))
}

/// Describes a key without its hash.
fn describe(key: &Key, now: u64) -> Value {
    let mut shown = entry(key);
    if let Value::Object(shown) = &mut shown {
        shown.remove("hash");
    }
    shown["state"] = key.state(now).into();
    shown
}

#[cfg(test)]
mod tests;
