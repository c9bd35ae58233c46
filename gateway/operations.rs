//! The operations that the API requires of the running program: the configuration in force, the
//! connections to its servers, the configured files, and its health.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use lockgate_accounts::Accounts;
use lockgate_admin::{
    ApiConfig, AuditReport, Candidate, Connected, EffectiveSetting, FileChangeError, Health,
    HealthReport, Offered, Operations, ProbeFailure, Switch,
};
use lockgate_authn::fetch_json;
use lockgate_authn::key::Key;
use lockgate_config::{Setting, ValuePlace};
use lockgate_egress::Policy;
use lockgate_proxy::PinChange;
use lockgate_registry::Registry;
use lockgate_upstream::{BoxFuture, Config, Upstream, UpstreamState};
use serde_json::Value;
use url::Url;

use crate::app::{App, ConfiguredServer};
use crate::commands::verify;
use crate::probe::probe;
use crate::server_clients::ServerClients;
use crate::{keys_file, pins_file};

impl Operations for App {
    fn settings(&self) -> Arc<ApiConfig> {
        Arc::clone(&self.api.lock().access)
    }

    fn effective_settings(&self) -> Result<Vec<EffectiveSetting>, String> {
        let sources = self.sources.get().ok_or_else(|| "the gateway is starting".to_owned())?;
        let effective = lockgate_config::effective(sources).map_err(|report| report.to_string())?;
        let settings = effective.settings.into_iter();
        Ok(settings
            .map(|Setting { key, value, otherwise, origin }| {
                let origin = (origin != ValuePlace::Nowhere).then(|| origin.to_string());
                EffectiveSetting { key, value, otherwise, origin }
            })
            .collect())
    }

    fn keys(&self) -> Arc<[Key]> {
        Arc::clone(&self.api.lock().keys)
    }

    fn accounts(&self) -> Arc<Accounts> {
        Arc::clone(&self.accounts)
    }

    fn registry(&self) -> Option<Arc<Registry>> {
        self.registry.clone()
    }

    fn serve_changes<'a>(&'a self, organisation: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if let Some(tenants) = &self.tenants {
                tenants.serve_changes(organisation).await;
            }
        })
    }

    fn probe(&self, candidate: Candidate) -> BoxFuture<'static, Result<Offered, ProbeFailure>> {
        let tenants = self.tenants.as_ref();
        let around = tenants.map(|tenants| tenants.surroundings_of(&candidate.organisation));
        let around = around.unwrap_or_else(|| self.around.clone());
        Box::pin(probe(around, candidate))
    }

    fn fetch_document(&self, url: Url) -> BoxFuture<'static, Result<Value, String>> {
        let connector = Arc::clone(&self.around.connector);
        Box::pin(async move { fetch_json(&connector, &url, Policy::Operator).await })
    }

    fn switch(&self, organisation: Option<&str>, slug: &str, to: Switch) -> bool {
        if let Some(organisation) = organisation {
            let tenants = self.tenants.as_ref();
            return tenants.is_some_and(|tenants| tenants.switch(organisation, slug, to));
        }
        let _changing = self.changing.lock();
        let mut clients = self.clients.lock().clone();
        let Some(server) = clients.get_mut(slug) else { return false };
        let old = &server.clients.client;
        let enabled = to != Switch::Disconnect;
        let is_kept = match to {
            Switch::Connect => matches!(
                old.status().state,
                UpstreamState::Connected | UpstreamState::Unresponsive | UpstreamState::Pending
            ),
            Switch::Disconnect => !old.config().enabled,
            Switch::Reconnect => false,
        };
        if is_kept {
            return true;
        }
        let wanted = Config { enabled, ..Config::clone(&old.config()) };
        let settings = self.accounts.config(slug);
        let own = self.accounts.own(slug, "");
        let Ok(new) = self.make_clients(wanted, own, settings.as_ref()) else { return false };
        server.clients = new;
        self.replace(&clients);
        true
    }

    fn can_switch(&self, slug: &str) -> bool {
        self.clients.lock().contains_key(slug)
    }

    fn has_keys_file(&self) -> bool {
        self.api.lock().keys_file.is_some()
    }

    fn change_keys(&self, key: &Key, dry_run: bool) -> Result<(), FileChangeError> {
        let file = self.api.lock().keys_file.clone();
        let file = file.ok_or(FileChangeError::NoFile)?;
        if dry_run {
            return keys_file::rehearse(&file, key);
        }
        keys_file::apply(&file, key)?;
        self.reload_wanted.notify_one();
        Ok(())
    }

    fn decide_pins(&self, decided: &[PinChange], is_approved: bool) -> Result<(), FileChangeError> {
        let file = self.api.lock().pins_file.clone();
        pins_file::decide(&file.ok_or(FileChangeError::NoFile)?, decided, is_approved)
    }

    fn audit_file(&self) -> Option<PathBuf> {
        self.audit_file.clone()
    }

    fn verify_audit(&self) -> Result<AuditReport, String> {
        let Some(file) = &self.audit_file else {
            return Err("the trail is not written to a file".to_owned());
        };
        let key = self.api.lock().audit_key.clone();
        let verified = verify::verify_trail(file, key);
        let report = verified.map_err(|error| format!("{error:#}"))?;
        let why = report.broken.map(|broken| broken.why);
        Ok(AuditReport { intact: report.intact, records: report.records, first: why })
    }
}

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
            shares_rates: self.shares_rates(),
        }
    }

    fn metrics(&self, is_operator: bool) -> String {
        self.gateway.observe();
        self.observe_certificate();
        let is_away = self.shares_rates() == Some(false);
        self.metrics.gauges().shared_rates_away.set(u64::from(is_away));
        if is_operator { self.metrics.render() } else { self.metrics.render_shared() }
    }
}

impl App {
    /// Counts the servers of the configuration, without built-in ones.
    fn count_servers(&self) -> (Connected, BTreeMap<&'static str, usize>) {
        let mut connected = Connected { now: 0, of: 0 };
        let mut counts = BTreeMap::new();
        for ConfiguredServer { clients: ServerClients { client, users }, .. } in
            self.clients.lock().values()
        {
            let state = client.status().state;
            // A server that lists nothing without an account delays no start.
            let is_idle = users.as_ref().is_some_and(|users| users.lists_as_users());
            connected.of += usize::from(state != UpstreamState::Disabled && !is_idle);
            connected.now += usize::from(state == UpstreamState::Connected);
            *counts.entry(state.as_str()).or_default() += 1;
        }
        (connected, counts)
    }
}
