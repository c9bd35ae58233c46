//! The audit trail of this process: its permitted output, the redaction of arguments, and its end;
//! and the connections of spans and log lines to their collector.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use lockgate_policy::response::{Response, Spec};
use lockgate_protocol::strings::{self, StringRole};
use lockgate_telemetry::audit::{Output, Redact, Trail};
use lockgate_telemetry::{Config, Metrics, Way};

/// Members whose values are always redacted.
const NAMES: [&str; 12] = [
    "password",
    "passwd",
    "pwd",
    "secret",
    "token",
    "api_key",
    "apikey",
    "authorization",
    "credential",
    "private_key",
    "cookie",
    "passphrase",
];

/// Returns the route to the collector of spans and log lines, which `egress` sets.
pub(crate) fn find_way(config: &lockgate_config::Config) -> Way {
    let egress = &config.egress;
    let route = egress.route.as_ref();
    let proxy = route.map(|route| (route.proxy().secret_url().clone(), route.no_proxy()));
    Way { proxy, ca_file: egress.ca_file.clone() }
}

/// Opens the trail, if configured.
pub(crate) fn start(config: &Config, metrics: &Metrics) -> anyhow::Result<Option<Trail>> {
    let Some(audit) = &config.audit else { return Ok(None) };
    let trail = Trail::start(audit, Arc::clone(metrics.audit()), redact()?);
    Ok(Some(trail.with_context(|| format!("the audit trail {}", audit.output))?))
}

/// Returns the trail's file, if the output is a file.
pub(crate) fn find_file(config: &Config) -> Option<PathBuf> {
    match &config.audit.as_ref()?.output {
        Output::File(path) => Some(path.clone()),
        Output::Stdout | Output::Stderr => None,
    }
}

/// Returns the key of the trail's hashes, if configured.
pub(crate) fn find_key(config: &Config) -> Option<String> {
    config.audit.as_ref()?.key.clone()
}

/// Redacts text that resembles a secret, and the values of members named as in `NAMES`.
fn redact() -> anyhow::Result<Redact> {
    let rule = Response::compile(&Spec { secrets: true, ..Spec::default() });
    let rule = rule.map_err(|wrong| anyhow::anyhow!("{wrong:?}"))?;
    Ok(Box::new(move |text| {
        let redacted = strings::rewrite(text, &mut |place, text| match place {
            StringRole::Key => rule.redact_key(text),
            StringRole::Value(name) if is_secret(name) => Some("[redacted]".to_owned()),
            StringRole::Value(_) => rule.redact(text),
        });
        redacted.unwrap_or_else(|| text.to_vec())
    }))
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('-', "_");
    NAMES.iter().any(|secret| name.contains(secret))
}

/// Redirects the trail from stdout to stderr, for processes that use stdout otherwise.
pub(crate) fn leave_stdout(config: &mut Config) {
    if let Some(audit) = &mut config.audit
        && audit.output == Output::Stdout
    {
        audit.output = Output::Stderr;
    }
}

/// Redirects the trail to a separate file, for a process beside the gateway that owns the file.
pub(crate) fn step_aside(config: &mut Config) {
    leave_stdout(config);
    let Some(audit) = &mut config.audit else { return };
    if let Output::File(path) = &mut audit.output {
        let mut name = std::mem::take(path).into_os_string();
        name.push(".call");
        *path = PathBuf::from(name);
    }
    // Delivering the last record to an unavailable receiver would delay the command.
    (audit.syslog, audit.webhook) = (None, None);
}
