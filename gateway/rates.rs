//! The limiter of the policies' rates: local to this process, or shared with other gateways through
//! the configured store.

use std::sync::Arc;

use lockgate_config::Config;
use lockgate_egress::Connector;
use lockgate_limits::Shared;
use lockgate_policy::{Limiter, Local};

/// The limiter, kept across reloads.
pub(crate) struct Rates {
    limiter: Arc<dyn Limiter>,
    /// The same limiter, if shared with other gateways.
    shared: Option<Arc<Shared>>,
}

impl Rates {
    /// Starts connecting to the shared store, if configured. Requires a runtime.
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

    /// Returns whether counts are shared now; `None` without a shared store.
    pub(crate) fn are_shared(&self) -> Option<bool> {
        let shared = self.shared.as_ref()?;
        Some(!shared.is_away())
    }
}
