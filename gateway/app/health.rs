//! The answers to `/healthz`, `/readyz` and `/metrics`.

use std::collections::BTreeMap;

use lockgate_admin::{Connected, Health, Ready};
use lockgate_upstream::{Upstream, UpstreamState};

use super::App;

impl Health for App {
    fn connected(&self) -> Connected {
        let mut connected = Connected { now: 0, of: 0 };
        let users = self.user_clients.lock().clone();
        for (slug, client) in &*self.clients.lock() {
            let state = client.status().state;
            // A server that lists nothing without an account delays no start.
            let is_idle = users.get(slug).is_some_and(|users| users.lists_as_users());
            connected.of += usize::from(state != UpstreamState::Disabled && !is_idle);
            connected.now += usize::from(state == UpstreamState::Connected);
        }
        connected
    }

    fn ready(&self) -> Ready {
        self.ready
    }

    fn state(&self) -> lockgate_admin::LifeState {
        self.life.state()
    }

    fn servers(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        // The same servers as in `connected`, so without built-in ones.
        for client in self.clients.lock().values() {
            *counts.entry(client.status().state.as_str()).or_default() += 1;
        }
        counts
    }

    fn stores(&self) -> Option<bool> {
        let registry = self.registry.as_ref()?;
        Some(registry.trouble().is_none())
    }

    fn lacks_store(&self) -> bool {
        let registry = self.registry.as_ref();
        self.requires_store && registry.is_some_and(|registry| !registry.is_loaded())
    }

    fn has_other_secret(&self) -> bool {
        self.secret_check.is_different()
    }

    fn issuers_without_keys(&self) -> Vec<String> {
        self.gateway.issuers_without_keys()
    }

    fn shares_rates(&self) -> Option<bool> {
        self.rates.are_shared()
    }

    fn metrics(&self, is_operator: bool) -> String {
        self.gateway.observe();
        self.observe_certificate();
        let is_away = self.rates.are_shared() == Some(false);
        self.metrics.gauges().shared_rates_away.set(usize::from(is_away));
        if is_operator { self.metrics.render() } else { self.metrics.render_shared() }
    }
}
