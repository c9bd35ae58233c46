//! The audit trail of this process: which output it may use, what is taken out of arguments, and
//! its end; and the way of spans and log lines to their collector.

use std::path::PathBuf;
use std::sync::Arc;

use lockgate_policy::response::{Response, Spec};
use lockgate_protocol::strings::{self, Place};
use lockgate_telemetry::audit::{Forward, Output, Redact, Trail};
use lockgate_telemetry::{Config, ExportError, Guard, Metrics, Tracer, Way};

/// Members whose values are never written, however they look.
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

/// Starts the export of spans, if there is a collector, as `egress` says that others are reached.
pub(crate) fn start_tracer(
    config: &lockgate_config::Config,
    metrics: &Metrics,
) -> Result<Option<Tracer>, ExportError> {
    Tracer::start(&config.telemetry, metrics, &find_way(config))
}

/// The same for the lines of the log, those too that were written before.
pub(crate) fn start_log_export(
    config: &lockgate_config::Config,
    metrics: &Metrics,
    log: &Guard,
) -> Result<(), ExportError> {
    log.export(&config.telemetry, metrics, &find_way(config))
}

fn find_way(config: &lockgate_config::Config) -> Way {
    let egress = &config.egress;
    let route = egress.route.as_ref();
    let proxy = route.map(|route| (route.proxy().secret_url().clone(), route.no_proxy()));
    Way { proxy, ca_file: egress.ca_file.clone() }
}

/// Opens the trail, if there is one.
pub(crate) fn start(config: &Config, metrics: &Metrics) -> anyhow::Result<Option<Trail>> {
    let Some(audit) = &config.audit else { return Ok(None) };
    Ok(Some(Trail::start(audit, Arc::clone(metrics.audit()), redact()?)?))
}

/// Where the trail is, if it is in a file.
pub(crate) fn find_file(config: &Config) -> Option<PathBuf> {
    match &config.audit.as_ref()?.output {
        Output::File(path) => Some(path.clone()),
        Output::Stdout | Output::Stderr => None,
    }
}

/// What looks like a secret, and whatever the value of a member is that is called one.
fn redact() -> anyhow::Result<Redact> {
    let rule = match Response::compile(&Spec { secrets: true, ..Spec::default() }) {
        Ok(rule) => rule,
        Err(wrong) => anyhow::bail!("{wrong:?}"),
    };
    Ok(Box::new(move |text| {
        let redacted = strings::rewrite(text, &mut |place, text| match place {
            Place::Key => rule.redact_key(text),
            Place::Value(name) if is_secret(name) => Some("[redacted]".to_owned()),
            Place::Value(_) => rule.redact(text),
        });
        redacted.unwrap_or_else(|| text.to_vec())
    }))
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('-', "_");
    NAMES.iter().any(|secret| name.contains(secret))
}

/// For a process whose stdout belongs to somebody else.
pub(crate) fn leave_stdout(config: &mut Config) {
    if let Some(audit) = &mut config.audit
        && audit.output == Output::Stdout
    {
        audit.output = Output::Stderr;
    }
}

/// For a process that runs beside the gateway to which the file belongs.
pub(crate) fn step_aside(config: &mut Config) {
    leave_stdout(config);
    let Some(audit) = &mut config.audit else { return };
    if let Output::File(path) = &mut audit.output {
        let mut name = std::mem::take(path).into_os_string();
        name.push(".call");
        *path = PathBuf::from(name);
    }
    // Its last record would hold up the command, if nobody takes it.
    audit.forward = Forward::default();
}
