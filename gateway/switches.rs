//! Configured servers that an operator has connected or disconnected at run time. The switch
//! survives reloads until the server's own entry changes; then the entry applies again.

use std::borrow::Cow;
use std::collections::BTreeMap;

use lockgate_upstream::Config;
use parking_lot::Mutex;

#[derive(Default)]
pub(crate) struct Switches(Mutex<BTreeMap<String, Switched>>);

struct Switched {
    /// The server's entry in the configuration at the time of the switch.
    configured: Config,
    enabled: bool,
}

impl Switches {
    /// Records that a server is to be connected, or not. `current` is its entry with earlier
    /// switches applied.
    pub(crate) fn set(&self, current: &Config, enabled: bool) {
        let mut all = self.0.lock();
        if let Some(known) = all.get_mut(&current.slug) {
            known.enabled = enabled;
            return;
        }
        let configured = current.clone();
        all.insert(current.slug.clone(), Switched { configured, enabled });
    }

    /// Returns the entry of a server with its switch applied.
    pub(crate) fn apply<'a>(&self, configured: &'a Config) -> Cow<'a, Config> {
        let all = self.0.lock();
        match all.get(&configured.slug) {
            Some(known) if known.configured == *configured => {
                Cow::Owned(Config { enabled: known.enabled, ..configured.clone() })
            }
            _ => Cow::Borrowed(configured),
        }
    }

    /// Drops switches of entries that have changed or are gone.
    pub(crate) fn keep(&self, configured: &[Config]) {
        self.0.lock().retain(|_, known| configured.contains(&known.configured));
    }
}
