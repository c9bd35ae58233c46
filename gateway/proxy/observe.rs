//! Gauges that are copied into the metrics only when the metrics are read.

use lockgate_telemetry::{Bounds, KeySet};
use lockgate_upstream::BreakerState;

use crate::catalog::organisation_of;
use crate::gateway::Gateway;

impl Gateway {
    /// Returns the number of live legacy sessions.
    #[must_use]
    pub fn session_count(&self) -> usize {
        self.sessions.len()
    }

    /// Returns the number of open event streams.
    #[must_use]
    pub fn stream_count(&self) -> usize {
        self.streams.len()
    }

    /// Updates the metrics' gauges.
    pub fn observe(&self) {
        let gauges = self.metrics.gauges();
        gauges.sessions.set(self.session_count());
        gauges.streams.set(self.stream_count());
        gauges.parked.set(self.parked.len());
        gauges.approvals.set(self.approvals.len());
        self.observe_key_sets();
        let budget = self.budget();
        gauges.bytes_in_flight.set(budget.used());
        gauges.bytes_limit.set(budget.limit());
        self.metrics.set_refused_for_memory(budget.refused());
        let mut running = self.cpu_pool.limit().running();
        let mut waiting = self.cpu_pool.limit().waiting();
        let own = self.directory.own_servers();
        for server in self.servers().into_iter().chain(own) {
            running += server.calls().running();
            waiting += server.calls().waiting();
            if let Some(stats) = server.stats() {
                let open = !matches!(stats.breaker, BreakerState::Closed { .. });
                let organisation = organisation_of(&*server);
                self.metrics.server(organisation, server.slug()).set_load(&Bounds {
                    running: stats.running,
                    concurrency: stats.concurrency,
                    waiting: stats.waiting,
                    queue: stats.queue,
                    timeout: stats.call_timeout,
                    open,
                });
            }
        }
        gauges.in_flight.set(running);
        gauges.queued.set(waiting);
    }

    /// Returns the token issuers without loaded keys.
    pub fn issuers_without_keys(&self) -> Vec<String> {
        let mut without = Vec::new();
        for set in self.snapshot.load().authenticator.key_sets() {
            if set.keys == 0 {
                without.push(set.issuer);
            }
        }
        without
    }

    fn observe_key_sets(&self) {
        let mut sets = Vec::new();
        for set in self.snapshot.load().authenticator.key_sets() {
            sets.push(KeySet { issuer: set.issuer, keys: set.keys, age: set.age });
        }
        self.metrics.set_key_sets(sets);
    }
}
