//! `lockgate keys`: makes, lists and revokes API keys in the keys file. A key's text is shown when
//! it is made and is nowhere afterwards. The file is replaced as a whole, under a lock, so that no
//! change of somebody else is lost.

use std::fs::{File, Metadata, OpenOptions, Permissions, TryLockError};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use lockgate_authn::is_scope;
use lockgate_authn::key::{self, Key, write_hash, write_time};
use serde_json::{Value, json};

/// How long another command may hold the file.
const PATIENCE: Duration = Duration::from_secs(10);
/// Most links on the way to the file.
const LINKS: usize = 40;
const HEAD: &str = "# API keys: hashes, no secrets. Written by `lockgate keys`.\n";

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Make a key and show it, once
    Create {
        /// Whom or what the key is for
        name: String,
        #[command(flatten)]
        grants: Grants,
        /// Until when it is good: 2027-01-31, 2027-01-31T12:00:00Z, or a number of days such as 90d
        /// [default: for ever]
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
    /// Take a key out of force at once
    Revoke {
        /// The key's id, the first part of its text: lg_ID_…
        id: String,
        #[command(flatten)]
        file: Named,
    },
}

#[derive(Args)]
pub(crate) struct Grants {
    /// The organisation that its holder belongs to
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
    /// The file named on the command line.
    pub(crate) fn file(&self) -> Option<&Path> {
        let (Self::Create { file, .. } | Self::List { file } | Self::Revoke { file, .. }) = self;
        file.file.as_deref()
    }
}

/// Runs one command on the keys file; gives what to print.
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
                "{text}\n\nkey {} for {name} is in {}. It is shown this once.",
                new.id,
                file.display()
            ))
        }
        Command::List { .. } => list(&read(file)?, now, json),
        Command::Revoke { id, .. } => {
            let id =
                id.strip_prefix(key::PREFIX).unwrap_or(id).split('_').next().unwrap_or_default();
            let mut revoked = now;
            change(file, |keys| {
                let Some(key) = keys.iter_mut().find(|key| key.id == id) else {
                    bail!("there is no key {id:.32} in {}", file.display());
                };
                revoked = *key.revoked.get_or_insert(now);
                Ok(())
            })?;
            match json {
                true => Ok(pretty(&json!({"id": id, "revoked": write_time(revoked)}))),
                false => Ok(format!("key {id} is revoked since {}", write_time(revoked))),
            }
        }
    }
}

impl Grants {
    fn check(&self, name: &str) -> anyhow::Result<()> {
        let mut texts = vec![name];
        texts.extend(self.organisation.as_deref());
        texts.extend(self.roles.iter().map(String::as_str));
        texts.extend(self.agent.as_deref());
        for text in texts {
            if text.is_empty() || text.len() > 256 || text.chars().any(char::is_control) {
                bail!("names must have 1 to 256 bytes without control characters");
            }
        }
        match self.scopes.iter().find(|scope| !is_scope(scope)) {
            Some(scope) => {
                bail!("{scope:?} is no scope: a scope is ASCII without blanks and quotes")
            }
            None => Ok(()),
        }
    }
}

fn moment(text: &str, now: u64) -> anyhow::Result<u64> {
    let days = text
        .strip_suffix('d')
        .and_then(|days| days.parse::<u64>().ok())
        .filter(|days| *days <= 36_500);
    let when = days.map(|days| now + days * 86_400).or_else(|| key::parse_time(text));
    let when = when.with_context(|| format!("{text:?} is no time: write 2027-01-31 or 90d"))?;
    if when <= now {
        bail!("{text} is in the past");
    }
    Ok(when)
}

fn list(keys: &[Key], now: u64, json: bool) -> anyhow::Result<String> {
    if json {
        let keys: Vec<Value> = keys.iter().map(|key| describe(key, now)).collect();
        return Ok(pretty(&json!({"keys": keys})));
    }
    if keys.is_empty() {
        return Ok("no keys".into());
    }
    let mut text = format!("{:<16}  {:<8}  {:<20}  NAME", "ID", "STATE", "EXPIRES");
    for key in keys {
        let expires = key.expires.map_or_else(|| "never".into(), write_time);
        text.push_str(&format!(
            "\n{:<16}  {:<8}  {expires:<20}  {}",
            key.id,
            key.state(now),
            key.name
        ));
    }
    Ok(text)
}

/// Everything but the hash.
fn describe(key: &Key, now: u64) -> Value {
    let mut shown = entry(key);
    shown.as_object_mut().map(|shown| shown.remove("hash"));
    shown["state"] = key.state(now).into();
    shown
}

/// A key as it stands in the file.
fn entry(key: &Key) -> Value {
    let mut entry = json!({"id": key.id, "hash": write_hash(&key.hash), "name": key.name});
    let texts = [("organisation", &key.organisation), ("agent", &key.agent)];
    for (name, text) in texts.into_iter().filter_map(|(name, text)| Some((name, text.as_ref()?))) {
        entry[name] = text.as_str().into();
    }
    for (name, all) in [("roles", &key.roles), ("scopes", &key.scopes)] {
        if !all.is_empty() {
            entry[name] = json!(all);
        }
    }
    for (name, time) in
        [("created", Some(key.created)), ("expires", key.expires), ("revoked", key.revoked)]
    {
        if let Some(time) = time {
            entry[name] = write_time(time).into();
        }
    }
    entry
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

fn read(file: &Path) -> anyhow::Result<Vec<Key>> {
    let folder = file.parent().unwrap_or(Path::new("/"));
    lockgate_config::keys::load(file, folder).map_err(|report| anyhow::anyhow!("{report}"))
}

/// Reads, changes and replaces the file, while nobody else does.
#[allow(
    clippy::disallowed_methods,
    reason = "the command line writes the file that the operator named"
)]
fn change(
    file: &Path,
    edit: impl FnOnce(&mut Vec<Key>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    if !file
        .extension()
        .is_some_and(|kind| ["yaml", "yml", "json"].iter().any(|known| kind == *known))
    {
        bail!("{}: a keys file is named .yaml, .yml or .json", file.display());
    }
    let target = target(file)?;
    let _lock = lock(&target)?;
    let mut keys = read(file)?;
    let was = render(file, &keys);
    edit(&mut keys)?;
    let fresh = render(file, &keys);
    let old = std::fs::read_to_string(&target).unwrap_or_default();
    let text = with_comments(&old, &was, &fresh).unwrap_or(fresh);
    replace(&target, &text).with_context(|| format!("{} cannot be written", file.display()))
}

/// The fresh text with what people noted in the old one, where that is laid out as commands write
/// it: `was` but for notes.
fn with_comments(old: &str, was: &str, fresh: &str) -> Option<String> {
    let mut known = was.lines().filter(|line| !is_note(line));
    let mut wanted = fresh.lines().filter(|line| !is_note(line));
    let mut lines = Vec::new();
    let mut notes = Vec::new();
    for line in old.lines() {
        if is_note(line) {
            notes.push(line);
            continue;
        }
        let here = known.next()?;
        let after = line.strip_prefix(here)?;
        if !is_note(after) || after.starts_with('#') {
            return None;
        }
        // What is added to an entry comes before the notes on the next one.
        loop {
            match wanted.next()? {
                same if same == here => break,
                added => lines.push(added),
            }
        }
        lines.append(&mut notes);
        lines.push(line);
    }
    lines.append(&mut notes);
    lines.extend(wanted);
    known.next().is_none().then(|| lines.join("\n") + "\n")
}

/// Where links lead: a link stays one, so that everybody who has one to this file sees the same
/// keys.
#[allow(
    clippy::disallowed_methods,
    reason = "the command line writes the file that the operator named"
)]
fn target(file: &Path) -> anyhow::Result<PathBuf> {
    let mut at = file.to_path_buf();
    for _ in 0..LINKS {
        match std::fs::read_link(&at) {
            Ok(target) => at = at.parent().unwrap_or(Path::new("/")).join(target),
            Err(_) => return Ok(at),
        }
    }
    bail!("{} leads through too many links", file.display())
}

fn render(file: &Path, keys: &[Key]) -> String {
    let entries: Vec<Value> = keys.iter().map(entry).collect();
    if file.extension().is_some_and(|extension| extension == "json") {
        return pretty(&json!({"keys": entries})) + "\n";
    }
    // Quoted as JSON, which is YAML too.
    let mut text = format!("{HEAD}keys:{}\n", if entries.is_empty() { " []" } else { "" });
    for entry in entries.iter().filter_map(Value::as_object) {
        for (at, (name, value)) in entry.iter().enumerate() {
            text.push_str(&format!("  {} {name}: {value}\n", if at == 0 { "-" } else { " " }));
        }
    }
    text
}

/// An empty file beside the keys file that one command at a time has locked.
#[allow(
    clippy::disallowed_methods,
    reason = "the command line writes the file that the operator named"
)]
fn lock(file: &Path) -> anyhow::Result<File> {
    let path = beside(file, "lock");
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let held =
        options.open(&path).with_context(|| format!("{} cannot be written", path.display()))?;
    if let Ok(keys) = std::fs::metadata(file) {
        // Or else the owner could not lock it next time; who may not change it is not who made it.
        let _ = fchown(&held, Some(keys.uid()), Some(keys.gid()));
    }
    let began = Instant::now();
    loop {
        match held.try_lock() {
            Ok(()) => return Ok(held),
            Err(TryLockError::WouldBlock) if began.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(TryLockError::WouldBlock) => {
                bail!("another command has held {} for too long", path.display())
            }
            Err(TryLockError::Error(error)) => {
                return Err(error).context(path.display().to_string());
            }
        }
    }
}

/// The new file is as readable as the old one: the gateway may run as somebody else than who edits
/// its keys.
#[allow(
    clippy::disallowed_methods,
    reason = "the command line writes the file that the operator named"
)]
fn replace(file: &Path, text: &str) -> std::io::Result<()> {
    // The lock is held, so nobody else writes here; what an earlier command left is overwritten.
    let fresh = beside(file, "new");
    let _ = std::fs::remove_file(&fresh);
    let mut new = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?;
    let written = write_alike(&mut new, text, std::fs::metadata(file).ok());
    if let Err(error) = written.and_then(|()| std::fs::rename(&fresh, file)) {
        let _ = std::fs::remove_file(&fresh);
        return Err(error);
    }
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// Writes the new file, and gives it the owner and the rights of the old one.
fn write_alike(new: &mut File, text: &str, old: Option<Metadata>) -> std::io::Result<()> {
    if let Some(old) = old {
        let own = new.metadata()?;
        if (own.uid(), own.gid()) != (old.uid(), old.gid()) {
            fchown(&*new, Some(old.uid()), Some(old.gid())).map_err(|error| {
                let message =
                    format!("it belongs to user {} and group {}: {error}", old.uid(), old.gid());
                std::io::Error::new(error.kind(), message)
            })?;
        }
        new.set_permissions(Permissions::from_mode(old.mode() & 0o777))?;
    }
    new.write_all(text.as_bytes())?;
    new.sync_all()
}

fn is_note(line: &str) -> bool {
    let text = line.trim_start();
    text.is_empty() || text.starts_with('#')
}

/// `.NAME.suffix` in the same folder.
fn beside(file: &Path, suffix: &str) -> PathBuf {
    let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    file.with_file_name(format!(".{name}.{suffix}"))
}

#[cfg(test)]
mod tests;
