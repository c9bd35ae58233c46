//! The limiter of gateways that share their rates. Combines local counts with the usage of all
//! gateways. While the store is unreachable, each policy's `when_away` applies.

use std::sync::Arc;
use std::time::Duration;

use lockgate_egress::Connector;
use lockgate_policy::{Allowance, HeldPermit, LimitKey, Limiter, Local, Reached, WhenAway};

use crate::config::Config;
use crate::counts::Counts;
use crate::report::keep_reporting;

/// The wait reported while the store is unreachable; its return cannot be predicted.
const UNREACHABLE_WAIT: Duration = Duration::from_secs(1);

/// A limiter with rates shared between gateways and local concurrency limits.
pub struct Shared {
    /// Bounds this gateway to the full allowance, even if the store has lost its data.
    local: Local,
    counts: Arc<Counts>,
}

impl Shared {
    /// Starts reporting to the store for as long as the runtime runs. The store counts as away
    /// until its first reply.
    pub fn start(config: Config, connector: Arc<Connector>) -> Arc<Self> {
        let counts = Arc::new(Counts::new(config.key));
        tokio::spawn(keep_reporting(Arc::clone(&counts), connector, config));
        Arc::new(Self { local: Local::new(), counts })
    }

    /// Returns whether the store is unreachable.
    pub fn is_away(&self) -> bool {
        self.counts.is_away()
    }
}

impl Limiter for Shared {
    fn take(&self, of: Allowance<'_>, key: &LimitKey<'_>) -> Result<Option<HeldPermit>, Reached> {
        if of.quota.rate.is_none() {
            return self.local.take(of, key);
        }
        let is_away = self.is_away();
        match of.quota.when_away {
            WhenAway::Deny if is_away => return Err(Reached::Unavailable(UNREACHABLE_WAIT)),
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
