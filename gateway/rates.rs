//! What counts for the policies' rates: this process by itself, or with other gateways where the
//! configuration names a store that they share.

use std::sync::Arc;

use lockgate_config::Config;
use lockgate_egress::Connector;
use lockgate_limits::Shared;
use lockgate_policy::{Limiter, Local};

/// The limiter, the same one through all reloads.
pub(crate) struct Rates {
    limiter: Arc<dyn Limiter>,
    /// The same, where other gateways count as well.
    shared: Option<Arc<Shared>>,
}

impl Rates {
    /// Begins to look for the store, if there is to be one; needs a runtime.
    pub(crate) fn start(config: &Config, connector: &Arc<Connector>) -> Self {
        let Some(limits) = &config.limits else {
            return Self { limiter: Arc::new(Local::new()), shared: None };
        };
        let shared = Shared::start(limits.clone(), Arc::clone(connector));
        Self { limiter: Arc::clone(&shared) as Arc<dyn Limiter>, shared: Some(shared) }
    }

    pub(crate) fn limiter(&self) -> Arc<dyn Limiter> {
        Arc::clone(&self.limiter)
    }

    /// Whether other gateways count as well now; `None` where they never do.
    pub(crate) fn are_shared(&self) -> Option<bool> {
        let shared = self.shared.as_ref()?;
        Some(!shared.is_away())
    }
}
