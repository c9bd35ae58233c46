//! The answers to `/healthz`, `/readyz` and `/metrics`.

use std::collections::BTreeMap;

use lockgate_admin::{Connected, Health, HealthReport};
use lockgate_upstream::{Upstream, UpstreamState};

use super::App;

impl Health for App {
    fn report(&self) -> HealthReport {
        let registry = self.registry.as_ref();
        let (connected, servers) = self.count_servers();
        HealthReport {
            state: self.life.state(),
            connected,
            ready: self.ready,
            servers,
            stores: registry.map(|registry| registry.trouble().is_none()),
            lacks_store: self.requires_store && registry.is_some_and(|one| !one.is_loaded()),
            has_other_secret: self.secret_check.is_different(),
            issuers_without_keys: self.gateway.issuers_without_keys(),
            shares_rates: self.rates.are_shared(),
        }
    }

    fn metrics(&self, is_operator: bool) -> String {
        self.gateway.observe();
        self.observe_certificate();
        let is_away = self.rates.are_shared() == Some(false);
        self.metrics.gauges().shared_rates_away.set(usize::from(is_away));
        if is_operator { self.metrics.render() } else { self.metrics.render_shared() }
    }
}

impl App {
    /// Counts the servers of the configuration, without built-in ones.
    fn count_servers(&self) -> (Connected, BTreeMap<&'static str, usize>) {
        let mut connected = Connected { now: 0, of: 0 };
        let mut counts = BTreeMap::new();
        let users = self.user_clients.lock().clone();
        for (slug, client) in &*self.clients.lock() {
            let state = client.status().state;
            // A server that lists nothing without an account delays no start.
            let is_idle = users.get(slug).is_some_and(|users| users.lists_as_users());
            connected.of += usize::from(state != UpstreamState::Disabled && !is_idle);
            connected.now += usize::from(state == UpstreamState::Connected);
            *counts.entry(state.as_str()).or_default() += 1;
        }
        (connected, counts)
    }
}
