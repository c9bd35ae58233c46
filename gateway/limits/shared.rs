//! The limiter of gateways that share their rates: what this process counts by itself, and what
//! all of them have used together. While the store is away, each policy says what holds.

use std::sync::Arc;
use std::time::Duration;

use lockgate_egress::Connector;
use lockgate_policy::{Allowance, Held, LimitKey, Limiter, Local, Reached, WhenAway};

use crate::config::Config;
use crate::counts::Counts;
use crate::report::keep_reporting;

/// How long to wait for the store to come back; nobody knows.
const GUESS: Duration = Duration::from_secs(1);

/// Counts together with other gateways how often, and by itself how many run at a time.
pub struct Shared {
    /// No gateway lets more pass than the whole of an allowance, whatever the store has forgotten.
    local: Local,
    counts: Arc<Counts>,
}

impl Shared {
    /// Begins to look for the store, and goes on for as long as the runtime runs. Until the store
    /// answers it is away.
    #[must_use]
    pub fn start(config: Config, connector: Arc<Connector>) -> Arc<Self> {
        let counts = Arc::new(Counts::new(config.key));
        tokio::spawn(keep_reporting(Arc::clone(&counts), connector, config));
        Arc::new(Self { local: Local::new(), counts })
    }

    /// Whether the store cannot be reached now.
    #[must_use]
    pub fn is_away(&self) -> bool {
        self.counts.is_away()
    }
}

impl Limiter for Shared {
    fn take(&self, of: Allowance<'_>, key: &LimitKey<'_>) -> Result<Option<Held>, Reached> {
        if of.quota.rate.is_none() {
            return self.local.take(of, key);
        }
        let is_away = self.is_away();
        match of.quota.when_away {
            WhenAway::Deny if is_away => return Err(Reached::Unavailable(GUESS)),
            WhenAway::Allow if is_away => {
                let held = self.local.hold(of, key)?;
                self.counts.note(of, key);
                return Ok(held);
            }
            _ => {}
        }
        let held = self.local.take(of, key)?;
        if is_away {
            self.counts.note(of, key);
        } else if let Err(wait) = self.counts.take(of, key) {
            self.local.give_back(of, key);
            return Err(Reached::Rate(wait));
        }
        Ok(held)
    }

    fn give_back(&self, of: Allowance<'_>, key: &LimitKey<'_>) {
        self.local.give_back(of, key);
        self.counts.give_back(of, key);
    }

    fn sweep(&self) {
        self.local.sweep();
        self.counts.sweep();
    }
}
