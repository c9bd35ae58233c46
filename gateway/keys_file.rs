//! The file of API keys. It is replaced as a whole and under a lock, so that concurrent changes are
//! not lost, and comments in it are kept. Changed by the command line and by the API of a running
//! gateway.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{File, Metadata, OpenOptions, Permissions, TryLockError};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use lockgate_admin::FileChangeError;
use lockgate_authn::DEFAULT_ORGANISATION;
use lockgate_authn::key::{Key, write_hash, write_time};
use lockgate_config::keys::MAX_KEYS;
use serde_json::{Value, json};

/// How long to wait for the lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of symbolic links on the way to the file.
const MAX_LINKS: usize = 40;
/// Maximum keys that the API creates for one organisation, to leave room for the others.
const MAX_OF_ORGANISATION: usize = 1_000;
/// Bytes and values of the file beyond which the API adds no key. The margin below the reader's
/// limits (1 MiB, 100,000) is for revoking all keys and for comments.
const MAX_BYTES: usize = 768 << 10;
const MAX_VALUES: usize = 80_000;
/// Divisors: the share of both limits for one organisation, and the share reserved for the default.
const ORGANISATION_DIVISOR: usize = 3;
const RESERVE_DIVISOR: usize = 8;
const HEAD: &str = "# API keys: hashes, no secrets. Written by `lockgate keys`.\n";

/// Adds a key, or revokes it if it has the time of its revocation.
pub(crate) fn apply(file: &Path, wanted: &Key) -> Result<(), FileChangeError> {
    let mut refusal = None;
    let changed = change(file, |keys| {
        if let Err(why) = edit(keys, wanted) {
            refusal = Some(why);
            bail!("refused");
        }
        Ok(())
    });
    match (refusal, changed) {
        (Some(why), _) => Err(why),
        (None, Err(error)) => Err(FileChangeError::Unwritable(format!("{error:#}"))),
        (None, Ok(())) => Ok(()),
    }
}

/// Checks whether a change would succeed, without making it.
pub(crate) fn rehearse(file: &Path, wanted: &Key) -> Result<(), FileChangeError> {
    let keys = read(file).map_err(|error| FileChangeError::Unwritable(format!("{error:#}")));
    edit(&mut keys?, wanted)
}

fn edit(keys: &mut Vec<Key>, wanted: &Key) -> Result<(), FileChangeError> {
    let Some(at) = wanted.revoked else {
        make_room(keys, wanted)?;
        keys.push(wanted.clone());
        return Ok(());
    };
    let key = keys.iter_mut().find(|key| key.id == wanted.id).ok_or(FileChangeError::Unknown)?;
    key.revoked.get_or_insert(at);
    Ok(())
}

/// Removes expired and revoked keys, the oldest first, until there is room for another key.
fn make_room(keys: &mut Vec<Key>, new: &Key) -> Result<(), FileChangeError> {
    let own = new.organisation_or_default();
    loop {
        let of_own = keys.iter().filter(|key| key.organisation_or_default() == own);
        let has_too_many = of_own.count() >= MAX_OF_ORGANISATION;
        let is_large = !has_own_room(keys, new);
        if !has_too_many && !is_large && has_room(keys, new) {
            return Ok(());
        }
        let mut oldest: Option<(u64, usize)> = None;
        for (at, key) in keys.iter().enumerate() {
            let is_own = key.organisation_or_default() == own;
            let helps = is_own || !(has_too_many || is_large);
            match (end_of(key), oldest) {
                (Some(end), Some((known, _))) if known <= end => {}
                (Some(end), _) if helps && end <= new.created => oldest = Some((end, at)),
                _ => {}
            }
        }
        let Some((_, at)) = oldest else { return Err(FileChangeError::Full) };
        keys.remove(at);
    }
}

/// Returns when a key expires or was revoked, whichever is earlier.
fn end_of(key: &Key) -> Option<u64> {
    match (key.revoked, key.expires) {
        (Some(revoked), Some(expires)) => Some(revoked.min(expires)),
        (revoked, None) => revoked,
        (None, expires) => expires,
    }
}

/// Reports whether the file with `new` stays clear of the reader's limits, beyond which no key
/// could be revoked. The last part of the room is reserved for the default organisation.
fn has_room(keys: &[Key], new: &Key) -> bool {
    let mut all = keys.to_vec();
    all.push(new.clone());
    let part = if is_of_default(new) { 0 } else { 1 };
    let most_keys = MAX_KEYS - part * MAX_KEYS / RESERVE_DIVISOR;
    let most_bytes = MAX_BYTES - part * MAX_BYTES / RESERVE_DIVISOR;
    let most_values = MAX_VALUES - part * MAX_VALUES / RESERVE_DIVISOR;
    all.len() <= most_keys && fits(&all, most_bytes, most_values)
}

/// Reports whether the organisation's keys stay within its share.
fn has_own_room(keys: &[Key], new: &Key) -> bool {
    let own = new.organisation_or_default();
    let mut all = vec![new.clone()];
    all.extend(keys.iter().filter(|key| key.organisation_or_default() == own).cloned());
    is_of_default(new)
        || fits(&all, MAX_BYTES / ORGANISATION_DIVISOR, MAX_VALUES / ORGANISATION_DIVISOR)
}

fn is_of_default(key: &Key) -> bool {
    key.organisation_or_default() == DEFAULT_ORGANISATION
}

fn fits(keys: &[Key], most_bytes: usize, most_values: usize) -> bool {
    let values: usize = keys.iter().map(|key| 24 + key.roles.len() + key.scopes.len()).sum();
    values <= most_values && render(Path::new("keys.json"), keys).len() <= most_bytes
}

pub(crate) fn read(file: &Path) -> anyhow::Result<Vec<Key>> {
    let folder = file.parent().unwrap_or(Path::new("/"));
    lockgate_config::keys::load(file, folder).or_else(|report| bail!("{report}"))
}

/// Reads, edits and replaces the file under the lock.
#[allow(clippy::disallowed_methods, reason = "the file that the operator named")]
pub(crate) fn change(
    file: &Path,
    edit: impl FnOnce(&mut Vec<Key>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    match file.extension().and_then(OsStr::to_str) {
        Some("yaml" | "yml" | "json") => {}
        _ => bail!("{}: a keys file must end in .yaml, .yml or .json", file.display()),
    }
    let target = target(file)?;
    if let Some(folder) = target.parent()
        && !folder.as_os_str().is_empty()
        && !folder.is_dir()
    {
        let file = file.display();
        bail!("{file} cannot be written: there is no folder {}", folder.display());
    }
    let _lock = lock(&target)?;
    let mut keys = read(file)?;
    let mut known = keys.clone();
    edit(&mut keys)?;
    let fresh = render(file, &keys);
    let kept: BTreeSet<&str> = keys.iter().map(|key| key.id.as_str()).collect();
    known.retain(|key| kept.contains(key.id.as_str()));
    let old = std::fs::read_to_string(&target).unwrap_or_default();
    let old = without_entries(&old, &kept);
    let text = with_comments(&old, &render(file, &known), &fresh).unwrap_or(fresh);
    replace(&target, &text).with_context(|| format!("{} cannot be written", file.display()))
}

/// Returns a text in the commands' layout without the entries of removed keys. Comments are kept.
fn without_entries(text: &str, kept: &BTreeSet<&str>) -> String {
    let mut lines = Vec::new();
    let mut is_kept = true;
    for line in text.lines() {
        if let Some(entry) = line.strip_prefix("  - id: ") {
            is_kept = kept.contains(entry.split('"').nth(1).unwrap_or(""));
        }
        if is_kept || is_note(line) {
            lines.push(line);
        }
    }
    lines.join("\n") + "\n"
}

/// Returns the fresh text with the comments of the old one, if the old text is in the commands'
/// layout, that is, equal to `was` except for comments.
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
        // Lines added to an entry come before the comments on the next entry.
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
    if known.next().is_some() { None } else { Some(lines.join("\n") + "\n") }
}

/// Resolves symbolic links. A link is kept, so that all links to this file lead to the same keys.
#[allow(clippy::disallowed_methods, reason = "the file that the operator named")]
fn target(file: &Path) -> anyhow::Result<PathBuf> {
    let mut at = file.to_path_buf();
    for _ in 0..MAX_LINKS {
        match std::fs::read_link(&at) {
            Ok(target) => at = at.parent().unwrap_or(Path::new("/")).join(target),
            Err(_) => return Ok(at),
        }
    }
    bail!("{} has too many levels of symbolic links", file.display())
}

fn render(file: &Path, keys: &[Key]) -> String {
    let entries: Vec<Value> = keys.iter().map(entry).collect();
    if file.extension() == Some(OsStr::new("json")) {
        return format!("{:#}\n", json!({"keys": entries}));
    }
    // Quoted as JSON, which is valid YAML.
    let mut text = format!("{HEAD}keys:{}\n", if entries.is_empty() { " []" } else { "" });
    for entry in &entries {
        let mut mark = "-";
        for (name, value) in entry.as_object().into_iter().flatten() {
            text.push_str(&format!("  {mark} {name}: {value}\n"));
            mark = " ";
        }
    }
    text
}

/// Locks an empty file beside the keys file, so that commands run one at a time.
#[allow(clippy::disallowed_methods, reason = "the file that the operator named")]
fn lock(file: &Path) -> anyhow::Result<File> {
    let path = beside(file, "lock");
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let held =
        options.open(&path).with_context(|| format!("{} cannot be written", path.display()))?;
    if let Ok(keys) = std::fs::metadata(file) {
        // Otherwise the owner could not lock the file. May fail if the file is another user's.
        let _ = fchown(&held, Some(keys.uid()), Some(keys.gid()));
    }
    let began = Instant::now();
    loop {
        match held.try_lock() {
            Ok(()) => return Ok(held),
            Err(TryLockError::WouldBlock) if began.elapsed() < LOCK_TIMEOUT => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(TryLockError::WouldBlock) => {
                bail!("another command has locked {} for too long", path.display())
            }
            Err(TryLockError::Error(error)) => {
                return Err(error).context(path.display().to_string());
            }
        }
    }
}

/// Replaces the file and keeps its permissions: the gateway may run as another user than the editor
/// of its keys.
#[allow(clippy::disallowed_methods, reason = "the file that the operator named")]
fn replace(file: &Path, text: &str) -> std::io::Result<()> {
    // The lock is held, so no other process writes; an earlier leftover is overwritten.
    let fresh = beside(file, "new");
    let _ = std::fs::remove_file(&fresh);
    let mut new = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?;
    let written = write_alike(&mut new, text, std::fs::metadata(file).ok());
    let done = written.and_then(|()| std::fs::rename(&fresh, file));
    if let Err(error) = done {
        let _ = std::fs::remove_file(&fresh);
        return Err(error);
    }
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    if let Err(error) = File::open(folder).and_then(|folder| folder.sync_all()) {
        // The change is made and must be recorded and applied, so this is not an error.
        tracing::warn!(%error, "keys file not synced: a power failure may restore the old one");
    }
    Ok(())
}

/// Writes the new file, and gives it the owner and permissions of the old one.
fn write_alike(new: &mut File, text: &str, old: Option<Metadata>) -> std::io::Result<()> {
    if let Some(old) = old {
        let own = new.metadata()?;
        if (own.uid(), own.gid()) != (old.uid(), old.gid())
            && let Err(error) = fchown(&*new, Some(old.uid()), Some(old.gid()))
        {
            let message =
                format!("it belongs to user {} and group {}: {error}", old.uid(), old.gid());
            return Err(std::io::Error::new(error.kind(), message));
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

/// Returns `.NAME.suffix` in the same folder.
fn beside(file: &Path, suffix: &str) -> PathBuf {
    let name = file.file_name().unwrap_or(OsStr::new("")).to_string_lossy();
    file.with_file_name(format!(".{name}.{suffix}"))
}

pub(crate) fn entry(key: &Key) -> Value {
    let mut entry = json!({"id": key.id, "hash": write_hash(&key.hash), "name": key.name});
    for (name, text) in [("organisation", &key.organisation), ("agent", &key.agent)] {
        if let Some(text) = text {
            entry[name] = text.as_str().into();
        }
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

#[cfg(test)]
mod tests;
