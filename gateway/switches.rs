//! Servers of the configuration that an operator has connected or disconnected while the gateway
//! runs. That is kept when the configuration is loaded again, until the server's own entry is
//! another one: then the entry says what is wanted.

use std::borrow::Cow;
use std::collections::BTreeMap;

use lockgate_upstream::Config;
use parking_lot::Mutex;

/// See the module.
#[derive(Default)]
pub(crate) struct Switches(Mutex<BTreeMap<String, Switched>>);

struct Switched {
    /// The entry that was switched, as the configuration has it.
    configured: Config,
    enabled: bool,
}

impl Switches {
    /// Notes that a server is to be connected, or not. `current` is its entry with what was
    /// switched before.
    pub(crate) fn set(&self, current: &Config, enabled: bool) {
        let mut all = self.0.lock();
        if let Some(known) = all.get_mut(&current.slug) {
            known.enabled = enabled;
            return;
        }
        let configured = current.clone();
        all.insert(current.slug.clone(), Switched { configured, enabled });
    }

    /// The entry of a server with what was switched.
    pub(crate) fn apply<'a>(&self, configured: &'a Config) -> Cow<'a, Config> {
        let all = self.0.lock();
        match all.get(&configured.slug) {
            Some(known) if known.configured == *configured => {
                Cow::Owned(Config { enabled: known.enabled, ..configured.clone() })
            }
            _ => Cow::Borrowed(configured),
        }
    }

    /// Forgets what was switched of entries that are others now, or gone.
    pub(crate) fn keep(&self, configured: &[Config]) {
        self.0.lock().retain(|_, known| configured.contains(&known.configured));
    }
}
