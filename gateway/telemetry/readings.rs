//! Reading of the counters, for each family that is not an observable instrument.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::UNIX_EPOCH;

use prometheus::{Error, Registry};

use crate::durations::Pairs;
use crate::families::{Family, ReadFamilies, register};
use crate::labels::Unknown;
use crate::numbers::Numbers;
use crate::process::ProcessUsage;

/// The first family of each group, and its reader.
const READINGS: [(&str, ReadFamilies); 13] = [
    ("lockgate_call_duration_seconds", read_calls),
    ("lockgate_tool_duration_seconds", read_tools),
    ("mcp_server_operation_duration_seconds", read_served),
    ("mcp_client_operation_duration_seconds", read_asked),
    ("lockgate_denials_total", read_denials),
    ("lockgate_unknown_names_total", read_unknown),
    ("lockgate_http_responses_total", read_statuses),
    ("lockgate_config_reloads_total", read_reloads),
    ("lockgate_key_set_keys", read_key_sets),
    ("lockgate_certificate_expiry_timestamp_seconds", read_certificates),
    ("lockgate_audit_forwarded_total", read_forwards),
    ("lockgate_logs_lost_total", read_lost_logs),
    ("process_cpu_seconds_total", read_process),
];

pub(crate) fn register_all(registry: &Registry, numbers: &Arc<Numbers>) -> Result<(), Error> {
    for (name, read) in READINGS {
        register(registry, numbers, name, read)?;
    }
    Ok(())
}

fn read_calls(numbers: &Numbers) -> Vec<Family> {
    let help = "Duration of calls from arrival to completion, by server";
    let mut family = Family::histogram("lockgate_call_duration_seconds", help);
    numbers.servers.lock().each_server(|label, server| {
        family.add_histogram(label.pairs(), server.durations.snapshot());
    });
    vec![family]
}

/// Reads the durations of tools that were called; there may be thousands without a call.
fn read_tools(numbers: &Numbers) -> Vec<Family> {
    let help = "Duration of calls from arrival to completion, by server and tool";
    let mut family = Family::histogram("lockgate_tool_duration_seconds", help);
    numbers.servers.lock().each_tool(|label, tool, metrics| {
        let snapshot = metrics.durations();
        if snapshot.count > 0 {
            family.add_histogram(label.pairs().chain([("tool", tool)]), snapshot);
        }
    });
    vec![family]
}

/// Reads clients' requests to the gateway, and their sessions.
fn read_served(numbers: &Numbers) -> Vec<Family> {
    let name = "mcp_server_operation_duration_seconds";
    let mut operations = Family::histogram(name, "Duration of client requests, as seen by clients");
    numbers.served.each(|labels, snapshot| {
        operations.add_histogram(Pairs::of_operation(labels).iter(), snapshot);
    });
    numbers.servers.lock().each_tool(|label, tool, metrics| {
        metrics.served.each(|labels, snapshot| {
            let pairs = Pairs::of_tool(labels, tool);
            operations.add_histogram(label.pairs().chain(pairs.iter()), snapshot);
        });
    });
    let name = "mcp_server_session_duration_seconds";
    let mut sessions = Family::histogram(name, "Duration of ended client sessions");
    numbers.sessions_ended.each(|labels, snapshot| {
        sessions.add_histogram(Pairs::of_session(labels).iter(), snapshot);
    });
    vec![operations, sessions]
}

/// Reads the gateway's requests to servers, and its sessions there.
fn read_asked(numbers: &Numbers) -> Vec<Family> {
    let name = "mcp_client_operation_duration_seconds";
    let mut operations = Family::histogram(name, "Duration of requests to servers");
    let name = "mcp_client_session_duration_seconds";
    let mut sessions = Family::histogram(name, "Duration of ended sessions at servers");
    let servers = numbers.servers.lock();
    servers.each_server(|label, server| {
        server.asked.each(|labels, snapshot| {
            let pairs = Pairs::of_operation(labels);
            operations.add_histogram(label.pairs().chain(pairs.iter()), snapshot);
        });
        server.sessions.each(|labels, snapshot| {
            let pairs = Pairs::of_session(labels);
            sessions.add_histogram(label.pairs().chain(pairs.iter()), snapshot);
        });
    });
    servers.each_tool(|label, tool, metrics| {
        metrics.asked.each(|labels, snapshot| {
            let pairs = Pairs::of_tool(labels, tool);
            operations.add_histogram(label.pairs().chain(pairs.iter()), snapshot);
        });
    });
    vec![operations, sessions]
}

fn read_denials(numbers: &Numbers) -> Vec<Family> {
    let help = "Requests denied by policy, by rule and reason; the reason dry_run counts requests \
        that a rule with dry_run would have denied";
    let mut family = Family::counter("lockgate_denials_total", help);
    numbers.denials.each(|rule, why, count| {
        family.add(&[("rule", rule), ("reason", why.as_str())], count as f64);
    });
    vec![family]
}

fn read_unknown(numbers: &Numbers) -> Vec<Family> {
    let help = "Requests for an unknown name, or for an item that is hidden without a rule";
    let mut family = Family::counter("lockgate_unknown_names_total", help);
    for &what in Unknown::ALL {
        family.add(&[("kind", what.as_str())], numbers.denials.unknown(what) as f64);
    }
    vec![family]
}

fn read_statuses(numbers: &Numbers) -> Vec<Family> {
    let help = "HTTP responses by status, for all paths";
    let mut family = Family::counter("lockgate_http_responses_total", help);
    numbers.statuses.each(|status, count| {
        family.add(&[("status", &status.to_string())], count as f64);
    });
    vec![family]
}

fn read_reloads(numbers: &Numbers) -> Vec<Family> {
    let reloads = &numbers.reloads;
    let total = Family::counter(
        "lockgate_config_reloads_total",
        "Changed configurations that were applied while running (success), or rejected (failure)",
    );
    let is_current = Family::gauge(
        "lockgate_config_last_reload_successful",
        "1 while the files match the configuration in force, 0 while they have errors",
    );
    let last = Family::gauge(
        "lockgate_config_last_reload_success_timestamp_seconds",
        "Time at which the configuration in force was read, in Unix seconds",
    );
    let build = Family::gauge("lockgate_build_info", "1, labelled with the version of the program");
    vec![
        total
            .with(&[("outcome", "success")], reloads.of(true) as f64)
            .with(&[("outcome", "failure")], reloads.of(false) as f64),
        is_current.with(&[], f64::from(u8::from(reloads.is_current()))),
        last.with(&[], reloads.last_success() as f64),
        build.with(&[("version", env!("CARGO_PKG_VERSION"))], 1.0),
    ]
}

/// Reads the receivers of the audit trail besides its file.
fn read_forwards(numbers: &Numbers) -> Vec<Family> {
    let help = "Audit records accepted by a receiver";
    let mut taken = Family::counter("lockgate_audit_forwarded_total", help);
    let help = "Audit records waiting to be sent to a receiver";
    let mut behind = Family::gauge("lockgate_audit_forward_behind", help);
    let help = "Audit records removed by rotation before a receiver accepted them";
    let mut lost = Family::counter("lockgate_audit_forward_lost_total", help);
    let help = "1 while a receiver of the audit trail does not accept records";
    let mut failing = Family::gauge("lockgate_audit_forward_failing", help);
    let last = numbers.audit.last();
    numbers.audit.each_forward(|to, counters| {
        let labels = [("to", to)];
        taken.add(&labels, counters.taken() as f64);
        behind.add(&labels, counters.behind(last) as f64);
        lost.add(&labels, counters.lost_ever() as f64);
        failing.add(&labels, f64::from(u8::from(counters.is_failing())));
    });
    vec![taken, behind, lost, failing]
}

fn read_lost_logs(numbers: &Numbers) -> Vec<Family> {
    let lost = match numbers.lost_logs.get() {
        Some(lost) => lost.load(Relaxed),
        None => 0,
    };
    let help = "Log lines that were not exported";
    vec![Family::counter("lockgate_logs_lost_total", help).with(&[], lost as f64)]
}

fn read_key_sets(numbers: &Numbers) -> Vec<Family> {
    let mut keys = Family::gauge(
        "lockgate_key_set_keys",
        "Usable keys of a token issuer; 0 means that its tokens are refused",
    );
    let mut ages = Family::gauge(
        "lockgate_key_set_age_seconds",
        "Time since the keys of a token issuer were fetched; absent before the first fetch",
    );
    for set in &*numbers.key_sets.lock() {
        let labels = [("issuer", set.issuer.as_str())];
        keys.add(&labels, set.keys as f64);
        if let Some(age) = set.age {
            ages.add(&labels, age.as_secs_f64());
        }
    }
    vec![keys, ages]
}

fn read_certificates(numbers: &Numbers) -> Vec<Family> {
    let help = "Earliest expiry of the certificates of a file in use, in Unix seconds";
    let mut family = Family::gauge("lockgate_certificate_expiry_timestamp_seconds", help);
    for (name, expiry) in &*numbers.certificates.lock() {
        family.add(&[("certificate", name)], *expiry as f64);
    }
    vec![family]
}

/// Reads the process metrics under their conventional Prometheus names.
fn read_process(numbers: &Numbers) -> Vec<Family> {
    let started = numbers.started.duration_since(UNIX_EPOCH).unwrap_or_default();
    let start =
        Family::gauge("process_start_time_seconds", "Start time of the process, in Unix seconds")
            .with(&[], started.as_secs_f64());
    let Some(usage) = ProcessUsage::read() else { return vec![start] };
    let gauges = [
        ("process_resident_memory_bytes", "Resident memory", usage.resident_bytes),
        ("process_virtual_memory_bytes", "Virtual memory", usage.virtual_bytes),
        ("process_open_fds", "Open file descriptors", usage.open_files),
        ("process_threads", "Threads", usage.threads),
    ];
    let cpu = Family::counter("process_cpu_seconds_total", "CPU time of the process");
    let mut families = vec![start, cpu.with(&[], usage.cpu_seconds)];
    for (name, help, value) in gauges {
        families.push(Family::gauge(name, help).with(&[], value as f64));
    }
    if let Some(most) = usage.max_files {
        let family = Family::gauge("process_max_fds", "Maximum number of open file descriptors");
        families.push(family.with(&[], most as f64));
    }
    families
}
