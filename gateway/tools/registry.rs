//! The built-in tools by name. A name is `category/own-name` and unique; observers are notified
//! when a tool is registered, removed or executed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::RwLock;

use crate::schema;
use crate::tool::{AnyTool, ToolSpec};

/// The organisation of callers without an organisation.
pub(crate) const DEFAULT_ORGANISATION: &str = "default";
/// Maximum number of tools per category.
const MAX_TOOLS: usize = 2000;

/// Events for observers, which are called synchronously and must not block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event<'a> {
    Registered,
    Unregistered,
    Executed { took: Duration, ended: CallOutcome, organisation: &'a str },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallOutcome {
    Success,
    /// Ended with an `isError` result, or timed out.
    Failure,
    /// The caller disconnected or cancelled the call.
    Cancelled,
}

pub(crate) trait Observer: Send + Sync + 'static {
    fn observe(&self, tool: &Arc<str>, event: Event<'_>);
}

pub(crate) struct RegisteredTool {
    pub(crate) name: Arc<str>,
    pub(crate) spec: ToolSpec,
    pub(crate) tool: Box<dyn AnyTool>,
}

impl RegisteredTool {
    /// Returns the name within its server.
    pub(crate) fn own(&self) -> &str {
        self.spec.own_name()
    }
}

pub(crate) struct Registry {
    entries: RwLock<BTreeMap<Arc<str>, Arc<RegisteredTool>>>,
    observers: Vec<Arc<dyn Observer>>,
}

/// Returns whether a name consists of characters that every client accepts.
pub(crate) fn is_valid_name(own: &str) -> bool {
    (1..=100).contains(&own.len())
        && own.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b))
}

impl Registry {
    pub(crate) fn new(observers: Vec<Arc<dyn Observer>>) -> Self {
        Self { entries: RwLock::default(), observers }
    }

    /// Reads the specs of a category's tools, and rejects invalid names and schemas. Changes
    /// nothing.
    pub(crate) fn prepare(
        category: &str,
        tools: Vec<Box<dyn AnyTool>>,
    ) -> Result<Vec<Arc<RegisteredTool>>, String> {
        if tools.len() > MAX_TOOLS {
            return Err(format!(
                "{category} has {} tools, at most {MAX_TOOLS} are possible",
                tools.len()
            ));
        }
        let mut entries: BTreeMap<Arc<str>, Arc<RegisteredTool>> = BTreeMap::new();
        let mut order = Vec::with_capacity(tools.len());
        for tool in tools {
            let spec = tool.describe();
            let name: Arc<str> = (*spec.name).into();
            match spec.split_name() {
                Some((own_category, own)) if own_category == category && is_valid_name(own) => {}
                _ => {
                    return Err(format!(
                        "the tool `{name}` must be named {category}/NAME, of a-z, A-Z, 0-9, _, - \
                            and ."
                    ));
                }
            }
            for (schema, what) in [(&spec.input, "input"), (&spec.output, "output")] {
                if let Err(words) = schema::is_checkable(schema) {
                    return Err(format!("{name}: its {what} schema: {words}"));
                }
            }
            let entry = Arc::new(RegisteredTool { name: Arc::clone(&name), spec, tool });
            if entries.insert(Arc::clone(&name), Arc::clone(&entry)).is_some() {
                return Err(format!("there are two tools named {name}"));
            }
            order.push(entry);
        }
        Ok(order)
    }

    pub(crate) fn install(&self, category: &str, tools: &[Arc<RegisteredTool>]) {
        let mut gone = Vec::new();
        {
            let mut entries = self.entries.write();
            entries.retain(|name, entry| match entry.spec.split_name() {
                Some((own_category, _)) if own_category == category => {
                    gone.push(Arc::clone(name));
                    false
                }
                _ => true,
            });
            for tool in tools {
                entries.insert(Arc::clone(&tool.name), Arc::clone(tool));
            }
            gone.retain(|name| !entries.contains_key(name));
        }
        for name in &gone {
            self.tell(name, Event::Unregistered);
        }
        for tool in tools {
            self.tell(&tool.name, Event::Registered);
        }
    }

    /// Starts a run on behalf of an organisation. The caller has to set how the run ended;
    /// otherwise it counts as cancelled.
    pub(crate) fn begin<'a>(&'a self, tool: &RegisteredTool, organisation: &'a str) -> Run<'a> {
        Run {
            registry: self,
            organisation,
            tool: Arc::clone(&tool.name),
            began: Instant::now(),
            ended: CallOutcome::Cancelled,
        }
    }

    pub(crate) fn all(&self) -> Vec<Arc<RegisteredTool>> {
        self.entries.read().values().cloned().collect()
    }

    fn tell(&self, tool: &Arc<str>, event: Event<'_>) {
        for observer in &self.observers {
            observer.observe(tool, event);
        }
    }
}

/// A run of a tool. Reports its end to the observers when dropped.
pub(crate) struct Run<'a> {
    registry: &'a Registry,
    organisation: &'a str,
    tool: Arc<str>,
    began: Instant,
    pub(crate) ended: CallOutcome,
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        let event = Event::Executed {
            took: self.began.elapsed(),
            ended: self.ended,
            organisation: self.organisation,
        };
        self.registry.tell(&self.tool, event);
    }
}

/// Logs when tools are registered and removed.
pub(crate) struct EventLog;

impl Observer for EventLog {
    fn observe(&self, tool: &Arc<str>, event: Event<'_>) {
        match event {
            Event::Registered => tracing::debug!(%tool, "tool registered"),
            Event::Unregistered => tracing::info!(%tool, "tool unregistered"),
            Event::Executed { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests;
