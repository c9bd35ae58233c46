//! Approved tools: fingerprints of definitions, the content of the lock file, and the reaction to
//! new and changed tools. This module reads no files; definitions are passed as JSON text.

mod text;

use std::collections::BTreeMap;
use std::path::PathBuf;

use lockgate_text::setting::Text;
use lockgate_text::{json, settings};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use text::{Finding, changes, inspect, is_clean, shown, strip};

/// Maximum number of tools in a lock file.
pub const MAX_PINS: usize = 100_000;
const PIN_VERSION: u32 = 1;

settings! {
    /// A lock file and the reactions to deviations from it.
    #[derive(Debug)]
    pub struct Pins as "Pins" {
        /// The lock file with approved tools, such as `lockgate.pins.json`; relative to this file.
        /// Without it nothing is pinned. `lockgate pins approve` writes it.
        pub file: Option<PathBuf> = Option<Text>,
        /// Reaction to a tool whose definition differs from the approved one: `quarantine` (neither
        /// listed nor callable), `report` or `allow`.
        pub changed: Reaction,
        /// Reaction to a tool that was never approved: `quarantine`, `report` or `allow`.
        pub new: Reaction,
        /// Handling of invisible characters in the servers' descriptions of tools, prompts and
        /// resources: `strip` removes them, `quarantine` also hides such a tool, `report` keeps
        /// them.
        pub hidden_text: HiddenText,
        /// The content of the lock file. If `None`, nothing is pinned.
        @serde(skip)
        pub lock: Option<Lock>,
    }

    /// The reaction to a new or changed tool. Unless allowed, it is reported to operators.
    #[derive(Default)]
    #[serde(rename_all = "lowercase")]
    pub enum Reaction { #[default] Quarantine, Report, Allow }

    /// The reaction to invisible characters in the texts of servers.
    #[derive(Default)]
    #[serde(rename_all = "lowercase")]
    pub enum HiddenText { #[default] Strip, Quarantine, Report }
}

lockgate_text::words! {
    /// The status of a tool according to the lock file.
    #[derive(Hash)]
    pub enum Standing {
        Approved = "approved",
        /// Not in the lock file.
        New = "new",
        /// In the lock file with another definition.
        Changed = "changed",
        /// Reviewed with this definition, and kept hidden.
        Rejected = "rejected",
    }
}

/// The content of a lock file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lock {
    version: u32,
    /// By `server/tool`, with the tool's name at its server.
    #[serde(rename = "tools")]
    pins: BTreeMap<String, Pin>,
    /// Fingerprints of rejected definitions, by the same names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    rejected: BTreeMap<String, String>,
}

/// One approved definition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pin {
    pub fingerprint: String,
    /// The approved definition, for reading and comparing.
    pub definition: Value,
}

impl Pin {
    /// Creates a pin from the definition of a tool. It covers every listed member, including
    /// unknown ones. Pins of earlier versions covered only name, title, description, schemas and
    /// annotations; they stay valid for tools without other members.
    ///
    /// # Errors
    /// The definition is not a JSON object.
    pub fn of(tool: &[u8]) -> Result<Self, String> {
        let Ok(mut definition @ Value::Object(_)) = json::from_slice::<Value>(tool) else {
            return Err("the definition is not a JSON object".into());
        };
        definition.sort_all_objects();
        Ok(Self { fingerprint: fingerprint(&definition), definition })
    }
}

/// Returns the BLAKE3 hash of the canonical text: sorted members, no white space.
fn fingerprint(definition: &Value) -> String {
    format!("blake3:{}", blake3::hash(definition.to_string().as_bytes()).to_hex())
}

impl Default for Lock {
    fn default() -> Self {
        Self { version: PIN_VERSION, pins: BTreeMap::new(), rejected: BTreeMap::new() }
    }
}

impl Lock {
    /// Parses a lock file.
    ///
    /// # Errors
    /// Returns a description of the mistake.
    pub fn read(text: &str) -> Result<Self, String> {
        let mut lock: Self = json::from_str(text).map_err(|error| error.to_string())?;
        if lock.version != PIN_VERSION {
            return Err(format!("it has version {}, not {PIN_VERSION}", lock.version));
        }
        if lock.size() > MAX_PINS {
            return Err(format!("it has more than {MAX_PINS} tools"));
        }
        for (name, pin) in &mut lock.pins {
            pin.definition.sort_all_objects();
            if fingerprint(&pin.definition) != pin.fingerprint {
                return Err(format!(
                    "{name}: the fingerprint does not match the definition; approve the tool \
                        instead"
                ));
            }
        }
        Ok(lock)
    }

    /// Returns the text of the lock file. Equal content yields equal text.
    pub fn write(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    pub fn pin(&self, slug: &str, tool: &str) -> Option<&Pin> {
        self.pins.get(&name(slug, tool))
    }

    /// Approves a definition.
    pub fn approve(&mut self, slug: &str, tool: &str, pin: Pin) {
        let name = name(slug, tool);
        self.rejected.remove(&name);
        self.pins.insert(name, pin);
    }

    /// Keeps a definition hidden, without a further review, until the tool changes again.
    pub fn reject(&mut self, slug: &str, tool: &str, fingerprint: &str) {
        self.rejected.insert(name(slug, tool), fingerprint.to_owned());
    }

    /// Removes a tool. Returns whether it was in the lock file.
    pub fn forget(&mut self, name: &str) -> bool {
        self.rejected.remove(name);
        self.pins.remove(name).is_some()
    }

    /// Returns the greater of the numbers of approved and of rejected tools.
    pub fn size(&self) -> usize {
        self.pins.len().max(self.rejected.len())
    }

    /// Returns the names of all tools as `server/tool`, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.pins.keys().map(String::as_str)
    }

    /// Returns the size in bytes of the entries with this prefix.
    pub fn measure(&self, prefix: &str) -> usize {
        let pins = self.pins.iter().filter(|(name, _)| name.starts_with(prefix));
        let pinned = pins.map(|(name, pin)| name.len() + pin.definition.to_string().len());
        let rejected = self.rejected.iter().filter(|(name, _)| name.starts_with(prefix));
        pinned.chain(rejected.map(|(name, fingerprint)| name.len() + fingerprint.len())).sum()
    }

    pub fn standing(&self, slug: &str, tool: &str, fingerprint: &str) -> Standing {
        let rejected = self.rejected.get(&name(slug, tool));
        match self.pin(slug, tool) {
            Some(pin) if pin.fingerprint == fingerprint => Standing::Approved,
            _ if rejected.is_some_and(|rejected| rejected == fingerprint) => Standing::Rejected,
            None => Standing::New,
            Some(_) => Standing::Changed,
        }
    }
}

/// Returns the name of a tool in lock files.
pub fn name(slug: &str, tool: &str) -> String {
    format!("{slug}/{tool}")
}

impl Pins {
    /// Returns the reaction to a tool with this standing.
    pub fn reaction(&self, standing: Standing) -> Reaction {
        match standing {
            Standing::Approved => Reaction::Allow,
            Standing::New => self.new,
            Standing::Changed => self.changed,
            Standing::Rejected => Reaction::Quarantine,
        }
    }
}

#[cfg(test)]
mod tests;
