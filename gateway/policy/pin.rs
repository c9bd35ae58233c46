//! Tools as they were approved: the fingerprint of a definition, the lock file's content, and what
//! becomes of tools that are new or have changed since. It reads no file; definitions come in as
//! JSON text.

mod changes;
mod text;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use changes::changes;
pub use text::{Finding, inspect, is_clean, shown, strip};

/// Most tools of a lock file.
pub const MAX_PINS: usize = 100_000;
const VERSION: u32 = 1;

/// What becomes of a tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reaction {
    /// Neither listed nor callable until it is approved.
    #[default]
    Quarantine,
    /// As always, but operators are told.
    Report,
    Allow,
}

/// What becomes of invisible characters in what servers say of their items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HiddenText {
    /// They are taken out.
    #[default]
    Strip,
    /// The tool is neither listed nor callable, whatever the lock file says.
    Quarantine,
    /// They stay, and operators are told.
    Report,
}

/// How a tool stands to the lock file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Standing {
    Approved,
    /// It is not in the lock file.
    New,
    /// It is there with another definition.
    Changed,
}

impl Standing {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Approved => "approved",
            Self::New => "new",
            Self::Changed => "changed",
        }
    }
}

/// What is in a lock file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lock {
    /// By `server/tool`, in the server's own words.
    pins: BTreeMap<String, Pin>,
}

/// One approved definition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pin {
    pub fingerprint: String,
    /// What was approved, to be read and compared.
    pub definition: Value,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: u32,
    tools: BTreeMap<String, Pin>,
}

/// A lock and what follows from it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pins {
    /// Without one nothing is pinned.
    pub lock: Option<Lock>,
    pub changed: Reaction,
    pub new: Reaction,
    pub hidden_text: HiddenText,
}

impl Pin {
    /// The definition of a tool: everything that is listed of it, members that nobody knows
    /// included. Pins of earlier versions had name, title, description, schemas and annotations
    /// alone: those of tools that have nothing else stay as they are.
    ///
    /// # Errors
    /// It is no JSON object.
    pub fn of(tool: &[u8]) -> Result<Self, String> {
        let Ok(whole @ Value::Object(_)) = serde_json::from_slice::<Value>(tool) else {
            return Err("the definition is no JSON object".into());
        };
        let definition = sorted(whole);
        Ok(Self { fingerprint: fingerprint(&definition), definition })
    }
}

/// BLAKE3 over the canonical text: sorted members, no white space.
fn fingerprint(definition: &Value) -> String {
    format!("blake3:{}", blake3::hash(definition.to_string().as_bytes()).to_hex())
}

/// The same with members in the order of their names. Depth is bounded by the parser.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut all: Vec<_> = members.into_iter().collect();
            all.sort_by(|a, b| a.0.cmp(&b.0));
            let mut members = Map::with_capacity(all.len());
            for (name, value) in all {
                members.insert(name, sorted(value));
            }
            Value::Object(members)
        }
        Value::Array(mut items) => {
            for item in &mut items {
                *item = sorted(item.take());
            }
            Value::Array(items)
        }
        single => single,
    }
}

impl Lock {
    /// Reads a lock file.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn read(text: &str) -> Result<Self, String> {
        let file: File = match serde_json::from_str(text) {
            Ok(file) => file,
            Err(error) => return Err(error.to_string()),
        };
        if file.version != VERSION {
            return Err(format!("it has version {}, not {VERSION}", file.version));
        }
        if file.tools.len() > MAX_PINS {
            return Err(format!("it has more than {MAX_PINS} tools"));
        }
        let mut pins = BTreeMap::new();
        for (name, pin) in file.tools {
            let definition = sorted(pin.definition);
            if fingerprint(&definition) != pin.fingerprint {
                return Err(format!(
                    "{name}: the fingerprint is not that of the definition; approve the tool \
                        instead"
                ));
            }
            pins.insert(name, Pin { definition, ..pin });
        }
        Ok(Self { pins })
    }

    /// Its text, the same for the same content.
    #[must_use]
    pub fn write(&self) -> String {
        let file = File { version: VERSION, tools: self.pins.clone() };
        let mut text = serde_json::to_string_pretty(&file).unwrap_or_default();
        text.push('\n');
        text
    }

    #[must_use]
    pub fn pin(&self, slug: &str, tool: &str) -> Option<&Pin> {
        self.pins.get(&name(slug, tool))
    }

    /// Approves a definition.
    pub fn approve(&mut self, slug: &str, tool: &str, pin: Pin) {
        self.pins.insert(name(slug, tool), pin);
    }

    /// Forgets a tool that is gone. Gives whether it was there.
    pub fn forget(&mut self, name: &str) -> bool {
        self.pins.remove(name).is_some()
    }

    /// `server/tool` of all, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.pins.keys().map(String::as_str)
    }

    /// Bytes of the definitions whose names begin so.
    #[must_use]
    pub fn measure(&self, prefix: &str) -> usize {
        let mut bytes = 0;
        for (name, pin) in &self.pins {
            if name.starts_with(prefix) {
                bytes += name.len() + pin.definition.to_string().len();
            }
        }
        bytes
    }

    #[must_use]
    pub fn standing(&self, slug: &str, tool: &str, fingerprint: &str) -> Standing {
        match self.pin(slug, tool) {
            None => Standing::New,
            Some(pin) if pin.fingerprint == fingerprint => Standing::Approved,
            Some(_) => Standing::Changed,
        }
    }
}

/// How a tool is called in a lock file.
#[must_use]
pub fn name(slug: &str, tool: &str) -> String {
    let mut name = String::with_capacity(slug.len() + 1 + tool.len());
    let _ = write!(name, "{slug}/{tool}");
    name
}

impl Pins {
    /// What becomes of a tool with this standing.
    #[must_use]
    pub fn reaction(&self, standing: Standing) -> Reaction {
        match standing {
            Standing::Approved => Reaction::Allow,
            Standing::New => self.new,
            Standing::Changed => self.changed,
        }
    }
}

#[cfg(test)]
mod tests;
