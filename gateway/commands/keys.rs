//! `lockgate keys`: creates, lists and revokes API keys in the keys file. A key's text is shown
//! once, when it is created, and is not stored.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use lockgate_authn::is_scope;
use lockgate_authn::key::{self, Key, write_time};
use lockgate_text::date;
use lockgate_text::organisation::find_mistake;
use serde_json::{Value, json};

use crate::commands::show::{pretty, table};
use crate::keys_file::{change, entry, read};

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
        /// The key's id, the first part of its text: lg_ID_…; or its name, if no other key of
        /// this name is valid
        #[arg(value_name = "ID|NAME")]
        key: String,
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
    let now = date::now();
    match command {
        Command::Create { name, grants, expires, .. } => {
            let expires = expires.as_deref().map(|text| moment(text, now)).transpose()?;
            let minted = Key::mint(now).context("the system returned no random bytes")?;
            let (mut new, text) = minted;
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
        Command::List { file: named } => {
            require(file, named)?;
            list(&read(file)?, now, json)
        }
        Command::Revoke { key, file: named } => {
            require(file, named)?;
            let mut told = None;
            change(file, |keys| {
                let found = find_key(keys, key, file)?;
                let revoked = write_time(*found.revoked.get_or_insert(now));
                told = Some(if json {
                    pretty(&json!({"id": found.id, "name": found.name, "revoked": revoked}))
                } else {
                    format!("key {} was revoked at {revoked}", identify(found))
                });
                Ok(())
            })?;
            Ok(told.unwrap_or_default())
        }
    }
}

/// Fails if a file that the command line names does not exist.
fn require(file: &Path, named: &Named) -> anyhow::Result<()> {
    let shown = file.display();
    let exists = file.try_exists().with_context(|| format!("{shown} cannot be read"))?;
    if named.file.is_some() && !exists {
        bail!("{shown} does not exist: `lockgate keys create` creates it");
    }
    Ok(())
}

/// Returns the id, name and organisation of a key.
fn identify(key: &Key) -> String {
    format!("{} ({:.64}, organisation {})", key.id, key.name, key.organisation_or_default())
}

/// Returns the key with this text, id or name. Of an organisation's keys with the same name, the
/// one that is not revoked is meant.
fn find_key<'a>(keys: &'a mut [Key], given: &str, file: &Path) -> anyhow::Result<&'a mut Key> {
    let id = given.strip_prefix(key::PREFIX).unwrap_or(given).split('_').next().unwrap_or("");
    let mut found: Vec<&mut Key> = Vec::new();
    for key in keys {
        if key.id == id {
            return Ok(key);
        }
        if key.name == given {
            found.push(key);
        }
    }
    let active = found.iter().filter(|key| key.revoked.is_none()).count();
    let organisations: BTreeSet<&str> =
        found.iter().map(|key| key.organisation_or_default()).collect();
    if active > 1 || active == 1 && organisations.len() > 1 {
        let keys: Vec<String> = found.iter().map(|key| identify(key)).collect();
        bail!("several keys are named {given:.64}: use the id, one of {}", keys.join(", "));
    }
    found.sort_by_key(|key| key.revoked.is_none());
    found.pop().with_context(|| {
        // The rest of a key's text is its secret.
        let is_text = given.starts_with(key::PREFIX) || key::is_id(id);
        let named = if is_text { id } else { given };
        let file = file.display();
        format!("there is no key {named:.64} in {file}; `lockgate keys list` shows ids and names")
    })
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
    (days <= 36_500).then_some(days)
}

fn list(keys: &[Key], now: u64, json: bool) -> anyhow::Result<String> {
    if json {
        let keys: Vec<Value> = keys.iter().map(|key| describe(key, now)).collect();
        return Ok(pretty(&json!({"keys": keys})));
    }
    if keys.is_empty() {
        return Ok("no keys".into());
    }
    let rows = keys.iter().map(|key| {
        let roles = if key.roles.is_empty() { "-".to_owned() } else { key.roles.join(", ") };
        let expires = key.expires.map_or_else(|| "never".into(), write_time);
        let organisation = key.organisation_or_default();
        [&key.id, key.state(now), &expires, organisation, &roles, &key.name]
            .map(str::to_owned)
            .into()
    });
    let rows: Vec<Vec<String>> = rows.collect();
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
