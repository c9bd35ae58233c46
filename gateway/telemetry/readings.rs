//! Reading of all counters, whenever the metrics are rendered.

use std::sync::atomic::Ordering::Relaxed;
use std::time::UNIX_EPOCH;

use crate::counters::{Bounds, ServerMetrics};
use crate::durations::Pairs;
use crate::families::Family;
use crate::labels::{Notification, Outcome, Rejection, ServerState, Unknown};
use crate::numbers::Numbers;
use crate::process::ProcessUsage;

/// Name and help of a family, and the function that reads its value.
type Reading<T> = (&'static str, &'static str, fn(&T) -> u64);

pub(crate) const READINGS: [fn(&Numbers) -> Vec<Family>; 19] = [
    read_gauges,
    read_counts,
    read_outcomes,
    read_servers,
    read_bounds,
    read_audit,
    read_calls,
    read_tools,
    read_served,
    read_asked,
    read_denials,
    read_unknown,
    read_statuses,
    read_reloads,
    read_key_sets,
    read_certificates,
    read_forwards,
    read_lost_logs,
    read_process,
];

fn read_gauges(numbers: &Numbers) -> Vec<Family> {
    let gauges = &numbers.gauges;
    let mut families = Vec::new();
    for (name, help, gauge) in [
        ("lockgate_sessions", "Open legacy sessions", &gauges.sessions),
        ("lockgate_parked_calls", "Calls waiting for an answer from their client", &gauges.parked),
        (
            "lockgate_approvals_waiting",
            "Calls waiting for an approval or an answer from a person",
            &gauges.approvals,
        ),
        ("lockgate_streams", "Open event streams to clients", &gauges.streams),
        ("lockgate_requests_in_flight", "Requests in progress", &gauges.in_flight),
        ("lockgate_requests_queued", "Requests waiting for a free slot", &gauges.queued),
        ("lockgate_bytes_in_flight", "Bytes of messages in memory", &gauges.bytes_in_flight),
        (
            "lockgate_bytes_in_flight_limit",
            "Limit on bytes of messages in memory",
            &gauges.bytes_limit,
        ),
        (
            "lockgate_shared_rates_away",
            "1 while the store of shared rates cannot be reached",
            &gauges.shared_rates_away,
        ),
    ] {
        families.push(Family::gauge(name, help).with([], gauge.get() as f64));
    }
    families
}

/// Reads the counters without a server.
fn read_counts(numbers: &Numbers) -> Vec<Family> {
    let memory = Family::counter(
        "lockgate_messages_refused_for_memory_total",
        "Messages refused or dropped for lack of memory",
    );
    let help = "Requests refused before they became calls, by reason";
    let mut rejected = Family::counter("lockgate_requests_rejected_total", help);
    for why in Rejection::ALL {
        let count = numbers.rejections[why as usize].load(Relaxed);
        rejected.add([("reason", why.as_str())], count as f64);
    }
    let help = "Approval notifications to the webhook, by outcome";
    let mut notified = Family::counter("lockgate_approval_notifications_total", help);
    for outcome in Notification::ALL {
        let count = numbers.notifications[outcome as usize].load(Relaxed);
        notified.add([("outcome", outcome.as_str())], count as f64);
    }
    let help = "Requests to the server of embeddings, by outcome";
    let embedded = Family::counter("lockgate_embedding_requests_total", help);
    let [failed, returned] = numbers.embeddings.each_ref().map(|count| count.load(Relaxed) as f64);
    let lost = Family::counter("lockgate_spans_lost_total", "Spans that were not exported");
    vec![
        memory.with([], numbers.refused_for_memory.load(Relaxed) as f64),
        rejected,
        notified,
        embedded.with([("outcome", "success")], returned).with([("outcome", "failure")], failed),
        lost.with([], numbers.lost_spans.load(Relaxed) as f64),
    ]
}

fn read_outcomes(numbers: &Numbers) -> Vec<Family> {
    let help = "Completed calls, by server, tool and outcome";
    let mut family = Family::counter("lockgate_calls_total", help);
    numbers.servers.lock().each_tool(|server, tool, metrics| {
        for outcome in Outcome::ALL {
            let count = metrics.count(outcome);
            // `ok` is always present, for rates and absence alerts; other outcomes appear with
            // their first count.
            if count > 0 || outcome == Outcome::Ok {
                let further = [("tool", tool), ("outcome", outcome.as_str())];
                family.add(server.pairs().chain(further), count as f64);
            }
        }
    });
    vec![family]
}

fn read_servers(numbers: &Numbers) -> Vec<Family> {
    const COUNTERS: [Reading<ServerMetrics>; 2] = [
        ("lockgate_server_restarts_total", "Restarts and reconnections of a server", |server| {
            server.restarts.load(Relaxed)
        }),
        (
            "lockgate_server_list_changes_total",
            "Changes of a server's lists, found when they were read again",
            |server| server.list_changes.load(Relaxed),
        ),
    ];
    let help = "Tools hidden until they are approved (`lockgate pins`)";
    let mut quarantined = Family::gauge("lockgate_server_tools_quarantined", help);
    let help = "1 for the current state of a server";
    let mut states = Family::gauge("lockgate_server_state", help);
    let mut counts = COUNTERS.map(|(name, help, _)| Family::counter(name, help));
    numbers.servers.lock().each_server(|label, server| {
        quarantined.add(label.pairs(), server.quarantined.load(Relaxed) as f64);
        for state in ServerState::ALL {
            let word = state.as_str().replace('-', "_");
            let further = [("state", word.as_str())];
            states.add(label.pairs().chain(further), f64::from(u8::from(server.is(state))));
        }
        for ((_, _, read), family) in COUNTERS.iter().zip(&mut counts) {
            family.add(label.pairs(), read(server) as f64);
        }
    });
    let mut families = vec![quarantined, states];
    families.extend(counts);
    families
}

/// Reads the load, limits, timeout and breaker of each server.
fn read_bounds(numbers: &Numbers) -> Vec<Family> {
    const GAUGES: [Reading<Bounds>; 6] = [
        ("lockgate_server_calls_running", "Calls in progress at a server", |b| b.running as u64),
        (
            "lockgate_server_calls_limit",
            "Limit on concurrent calls at a server (concurrency)",
            |b| b.concurrency as u64,
        ),
        ("lockgate_server_calls_waiting", "Calls waiting for a free slot at a server", |b| {
            b.waiting as u64
        }),
        ("lockgate_server_calls_queue", "Limit on calls waiting at a server (queue)", |b| {
            b.queue as u64
        }),
        ("lockgate_server_timeout_seconds", "Timeout of a call to a server", |b| {
            b.timeout.as_secs()
        }),
        (
            "lockgate_server_breaker_open",
            "1 while calls to a server are paused because it keeps failing",
            |b| b.open.into(),
        ),
    ];
    let mut families = GAUGES.map(|(name, help, _)| Family::gauge(name, help));
    numbers.servers.lock().each_server(|label, server| {
        let Some(bounds) = server.bounds() else { return };
        for ((_, _, read), family) in GAUGES.iter().zip(&mut families) {
            family.add(label.pairs(), read(&bounds) as f64);
        }
    });
    families.into()
}

fn read_audit(numbers: &Numbers) -> Vec<Family> {
    let audit = &numbers.audit;
    let written =
        Family::counter("lockgate_audit_records_total", "Records written to the audit trail");
    let lost = Family::counter("lockgate_audit_lost_total", "Records missing in the audit trail");
    let failing =
        Family::gauge("lockgate_audit_failing", "1 while the audit trail cannot be written");
    vec![
        written.with([], audit.written.get() as f64),
        lost.with([], audit.dropped.get() as f64),
        failing.with([], f64::from(u8::from(audit.failing.load(Relaxed)))),
    ]
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
        family.add([("rule", rule), ("reason", why.as_str())], count as f64);
    });
    vec![family]
}

fn read_unknown(numbers: &Numbers) -> Vec<Family> {
    let help = "Requests for an unknown name, or for an item that is hidden without a rule";
    let mut family = Family::counter("lockgate_unknown_names_total", help);
    for what in Unknown::ALL {
        family.add([("kind", what.as_str())], numbers.denials.unknown(what) as f64);
    }
    vec![family]
}

fn read_statuses(numbers: &Numbers) -> Vec<Family> {
    let help = "HTTP responses by status, for all paths";
    let mut family = Family::counter("lockgate_http_responses_total", help);
    numbers.statuses.each(|status, count| {
        let status = status.to_string();
        family.add([("status", status.as_str())], count as f64);
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
            .with([("outcome", "success")], reloads.of(true) as f64)
            .with([("outcome", "failure")], reloads.of(false) as f64),
        is_current.with([], f64::from(u8::from(reloads.is_current()))),
        last.with([], reloads.last_success() as f64),
        build.with([("version", env!("CARGO_PKG_VERSION"))], 1.0),
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
    for (to, counters) in &*numbers.audit.forwards.lock() {
        let labels = [("to", *to)];
        taken.add(labels, counters.taken.get() as f64);
        behind.add(labels, counters.behind(last) as f64);
        lost.add(labels, counters.lost.get() as f64);
        failing.add(labels, f64::from(u8::from(counters.failing.load(Relaxed))));
    }
    vec![taken, behind, lost, failing]
}

fn read_lost_logs(numbers: &Numbers) -> Vec<Family> {
    let lost = numbers.lost_logs.get().map_or(0, |lost| lost.load(Relaxed));
    let help = "Log lines that were not exported";
    vec![Family::counter("lockgate_logs_lost_total", help).with([], lost as f64)]
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
        keys.add(labels, set.keys as f64);
        if let Some(age) = set.age {
            ages.add(labels, age.as_secs_f64());
        }
    }
    vec![keys, ages]
}

fn read_certificates(numbers: &Numbers) -> Vec<Family> {
    let help = "Earliest expiry of the certificates of a file in use, in Unix seconds";
    let mut family = Family::gauge("lockgate_certificate_expiry_timestamp_seconds", help);
    for (name, expiry) in &*numbers.certificates.lock() {
        family.add([("certificate", *name)], *expiry as f64);
    }
    vec![family]
}

/// Reads the process metrics under their conventional Prometheus names.
fn read_process(numbers: &Numbers) -> Vec<Family> {
    let started = numbers.made.time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let start =
        Family::gauge("process_start_time_seconds", "Start time of the process, in Unix seconds")
            .with([], started.as_secs_f64());
    let Some(usage) = ProcessUsage::read() else { return vec![start] };
    let gauges = [
        ("process_resident_memory_bytes", "Resident memory", usage.resident_bytes),
        ("process_virtual_memory_bytes", "Virtual memory", usage.virtual_bytes),
        ("process_open_fds", "Open file descriptors", usage.open_files),
        ("process_threads", "Threads", usage.threads),
    ];
    let cpu = Family::counter("process_cpu_seconds_total", "CPU time of the process");
    let mut families = vec![start, cpu.with([], usage.cpu_seconds)];
    for (name, help, value) in gauges {
        families.push(Family::gauge(name, help).with([], value as f64));
    }
    if let Some(most) = usage.max_files {
        let family = Family::gauge("process_max_fds", "Maximum number of open file descriptors");
        families.push(family.with([], most as f64));
    }
    families
}
