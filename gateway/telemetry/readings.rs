//! Reading of all counters, whenever the metrics are rendered, into families as Prometheus reads
//! them.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::UNIX_EPOCH;

use prometheus::TextEncoder;
use prometheus::proto::{Counter, Gauge, Histogram, LabelPair, Metric, MetricFamily, MetricType};
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

use crate::counters::{Named, ServerLoad, ServerMetrics, ToolMetrics};
use crate::labels::{Denial, Notification, OTHER, Outcome, Rejection, ServerState, Unknown, pair};
use crate::metrics::{FIRST_STATUS, Metrics, Numbers};

const SERVED: Named =
    ("mcp_server_operation_duration_seconds", "Duration of client requests, as seen by clients");
const ASKED: Named = ("mcp_client_operation_duration_seconds", "Duration of requests to servers");

/// Beginnings of labels with values that only operators may read.
const PRIVATE: [&str; 5] = ["organisation=\"", "server=\"", "tool=\"", "rule=\"", "issuer=\""];

impl Metrics {
    /// Renders all metrics in the Prometheus text format (version 0.0.4), families in the order of
    /// their names. Serve them as `text/plain; version=0.0.4`.
    pub fn render(&self) -> String {
        let numbers = &*self.0;
        let mut families = Families::default();
        families.read_all(numbers.gauges.read(), &[]);
        families.read_events(numbers);
        families.read_exports(numbers);
        families.read_lists(numbers);
        families.read_process(numbers);
        for (label, entry) in &numbers.servers.lock().by_label {
            let labels = label.pairs();
            families.read_server(&entry.server, &labels);
            for (tool, metrics) in &entry.tools {
                families.read_tool(metrics, tool, &labels);
            }
            if let Some(other) = &entry.other {
                families.read_tool(other, OTHER, &labels);
            }
        }
        numbers.served.each(|operation, snapshot| {
            families.add_histogram(SERVED, operation.pairs(None), snapshot);
        });
        let sessions = ("mcp_server_session_duration_seconds", "Duration of ended client sessions");
        numbers.sessions_ended.each(|session, snapshot| {
            families.add_histogram(sessions, session.session_pairs(), snapshot);
        });
        let all: Vec<_> = families.0.into_values().collect();
        let text = TextEncoder::new().encode_to_string(&all);
        text.unwrap_or_else(|error| format!("# metrics are not available: {error}\n"))
    }

    /// Renders the metrics without private labels: counts of a server reveal the activity of
    /// others, its name may be hidden, and rules and issuers are for operators.
    pub fn render_shared(&self) -> String {
        let all = self.render();
        all.split_inclusive('\n').filter(is_shared).collect()
    }
}

fn is_shared(line: &&str) -> bool {
    // Quotes within values are escaped, so only a label can match.
    !PRIVATE.iter().any(|mark| line.contains(mark))
}

/// Families with values, by name.
#[derive(Default)]
struct Families(BTreeMap<&'static str, MetricFamily>);

impl Families {
    /// Adds a value of a counter, whose name ends with `_total`, or of a gauge.
    fn add(&mut self, family: Named, labels: Vec<LabelPair>, value: f64) {
        let mut metric = Metric::from_label(labels);
        if family.0.ends_with("_total") {
            let mut counter = Counter::default();
            counter.set_value(value);
            metric.set_counter(counter);
            self.push(family, MetricType::COUNTER, metric);
        } else {
            let mut gauge = Gauge::default();
            gauge.set_value(value);
            metric.set_gauge(gauge);
            self.push(family, MetricType::GAUGE, metric);
        }
    }

    fn add_histogram(&mut self, family: Named, labels: Vec<LabelPair>, durations: Histogram) {
        let mut metric = Metric::from_label(labels);
        metric.set_histogram(durations);
        self.push(family, MetricType::HISTOGRAM, metric);
    }

    fn push(&mut self, (name, help): Named, kind: MetricType, mut metric: Metric) {
        metric.mut_label().sort_by(|one, other| one.name().cmp(other.name()));
        let family = self.0.entry(name).or_insert_with(|| {
            let mut family = MetricFamily::default();
            family.set_name(name.to_owned());
            family.set_help(help.to_owned());
            family.set_field_type(kind);
            family
        });
        family.mut_metric().push(metric);
    }

    fn read_all(&mut self, numbers: impl IntoIterator<Item = (Named, u64)>, labels: &[LabelPair]) {
        for (family, value) in numbers {
            self.add(family, labels.to_vec(), value as f64);
        }
    }

    /// Reads counters that are told apart by a word.
    fn read_words(
        &mut self,
        family: Named,
        label: &'static str,
        words: &[&str],
        counts: &[AtomicU64],
    ) {
        for (word, count) in words.iter().zip(counts) {
            self.add(family, vec![pair(label, word)], count.load(Relaxed) as f64);
        }
    }

    fn read_events(&mut self, numbers: &Numbers) {
        let outcomes = ["failure", "success"];
        let help = "Requests refused before they became calls, by reason";
        let family = ("lockgate_requests_rejected_total", help);
        let reasons = Rejection::ALL.map(Rejection::as_str);
        self.read_words(family, "reason", &reasons, &numbers.rejections);
        let help = "Approval notifications to the webhook, by outcome";
        let family = ("lockgate_approval_notifications_total", help);
        let notified = Notification::ALL.map(Notification::as_str);
        self.read_words(family, "outcome", &notified, &numbers.notifications);
        let help = "Requests to the server of embeddings, by outcome";
        let family = ("lockgate_embedding_requests_total", help);
        self.read_words(family, "outcome", &outcomes, &numbers.embeddings);
        let help = "Requests for an unknown name, or for an item that is hidden without a rule";
        let kinds = Unknown::ALL.map(Unknown::as_str);
        self.read_words(("lockgate_unknown_names_total", help), "kind", &kinds, &numbers.unknown);
        let help = "Changed configurations that were applied while running (success), or rejected \
            (failure)";
        let family = ("lockgate_config_reloads_total", help);
        self.read_words(family, "outcome", &outcomes, &numbers.reloads);
        let help = "Requests denied by policy, by rule and reason; the reason dry_run counts \
            requests that a rule with dry_run would have denied";
        for (rule, counts) in &*numbers.denials.read() {
            for why in Denial::ALL {
                let count = counts[why as usize].load(Relaxed);
                if count > 0 {
                    let labels = vec![pair("rule", rule), pair("reason", why.as_str())];
                    self.add(("lockgate_denials_total", help), labels, count as f64);
                }
            }
        }
        let responses =
            ("lockgate_http_responses_total", "HTTP responses by status, for all paths");
        for (at, count) in numbers.statuses.iter().enumerate() {
            let count = count.load(Relaxed);
            if count > 0 {
                let status = (FIRST_STATUS + at).to_string();
                self.add(responses, vec![pair("status", &status)], count as f64);
            }
        }
    }

    /// Reads the audit trail, with its receivers besides its file, and other exports.
    fn read_exports(&mut self, numbers: &Numbers) {
        let spans = ("lockgate_spans_lost_total", "Spans that were not exported");
        let logs = ("lockgate_logs_lost_total", "Log lines that were not exported");
        let lost_logs = numbers.lost_logs.get().map_or(0, |lost| lost.get());
        self.read_all([(spans, numbers.lost_spans.get()), (logs, lost_logs)], &[]);
        self.read_all(numbers.audit.read(), &[]);
        let last = numbers.audit.last();
        let help = "Audit records waiting to be sent to a receiver";
        for (to, counters) in &*numbers.audit.forwards.lock() {
            let labels = [pair("to", to)];
            self.read_all(counters.read(), &labels);
            let behind = last.saturating_sub(counters.sent.get());
            self.read_all([(("lockgate_audit_forward_behind", help), behind)], &labels);
        }
    }

    /// Reads the key sets and certificates.
    fn read_lists(&mut self, numbers: &Numbers) {
        for set in &*numbers.key_sets.lock() {
            let labels = vec![pair("issuer", &set.issuer)];
            let help = "Usable keys of a token issuer; 0 means that its tokens are refused";
            self.add(("lockgate_key_set_keys", help), labels.clone(), set.keys as f64);
            if let Some(age) = set.age {
                let help = "Time since the keys of a token issuer were fetched; absent before the \
                    first fetch";
                self.add(("lockgate_key_set_age_seconds", help), labels, age.as_secs_f64());
            }
        }
        let help = "Earliest expiry of the certificates of a file in use, in Unix seconds";
        let family = ("lockgate_certificate_expiry_timestamp_seconds", help);
        for (name, expiry) in &*numbers.certificates.lock() {
            self.add(family, vec![pair("certificate", name)], *expiry as f64);
        }
    }

    fn read_process(&mut self, numbers: &Numbers) {
        let help = "1, labelled with the version of the program";
        let version = vec![pair("version", env!("CARGO_PKG_VERSION"))];
        self.add(("lockgate_build_info", help), version, 1.0);
        let start = ("process_start_time_seconds", "Start time of the process, in Unix seconds");
        let started = numbers.made.time.duration_since(UNIX_EPOCH).unwrap_or_default();
        self.add(start, Vec::new(), started.as_secs_f64());
        for (family, value) in read_usage().into_iter().flatten() {
            self.add(family, Vec::new(), value);
        }
    }

    fn read_server(&mut self, server: &ServerMetrics, labels: &[LabelPair]) {
        self.read_all(server.numbers.read(), labels);
        self.read_all(server.load.get().into_iter().flat_map(ServerLoad::read), labels);
        let states = ("lockgate_server_state", "1 for the current state of a server");
        for state in ServerState::ALL {
            let word = state.as_str().replace('-', "_");
            let labels = [labels, &[pair("state", &word)]].concat();
            self.add(states, labels, f64::from(u8::from(server.is(state))));
        }
        let help = "Duration of calls from arrival to completion, by server";
        let calls = ("lockgate_call_duration_seconds", help);
        self.add_histogram(calls, labels.to_vec(), server.durations.snapshot());
        server.asked.each(|operation, snapshot| {
            self.add_histogram(ASKED, [labels, &operation.pairs(None)].concat(), snapshot);
        });
        let help = "Duration of ended sessions at servers";
        let sessions = ("mcp_client_session_duration_seconds", help);
        server.sessions.each(|session, snapshot| {
            self.add_histogram(sessions, [labels, &session.session_pairs()].concat(), snapshot);
        });
    }

    fn read_tool(&mut self, metrics: &ToolMetrics, tool: &str, labels: &[LabelPair]) {
        let own = [labels, &[pair("tool", tool)]].concat();
        let calls = ("lockgate_calls_total", "Completed calls, by server, tool and outcome");
        for outcome in Outcome::ALL {
            let count = metrics.count(outcome);
            // `ok` is always present, for rates and absence alerts; other outcomes appear with
            // their first count.
            if count > 0 || outcome == Outcome::Ok {
                let labels = [&own[..], &[pair("outcome", outcome.as_str())]].concat();
                self.add(calls, labels, count as f64);
            }
        }
        // There may be thousands of tools without a call.
        let durations = metrics.durations.snapshot();
        if durations.get_sample_count() > 0 {
            let help = "Duration of calls from arrival to completion, by server and tool";
            self.add_histogram(("lockgate_tool_duration_seconds", help), own, durations);
        }
        for (family, operations) in [(SERVED, &metrics.served), (ASKED, &metrics.asked)] {
            operations.each(|operation, snapshot| {
                let labels = [labels, &operation.pairs(Some(tool))].concat();
                self.add_histogram(family, labels, snapshot);
            });
        }
    }
}

// Resource usage of this process according to the kernel, read on demand if available.

/// Returns the process metrics under their conventional Prometheus names.
#[allow(clippy::disallowed_methods, reason = "what the kernel says of this process alone")]
fn read_usage() -> Option<Vec<(Named, f64)>> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let resident = find_number(&status, "VmRSS:")? * 1024;
    let virtual_bytes = find_number(&status, "VmSize:")? * 1024;
    let threads = find_number(&status, "Threads:")?;
    // The listing includes the folder's own handle.
    let open_files = std::fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1);
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let cpu_seconds = time.tv_sec as f64 + time.tv_nsec as f64 / 1e9;
    let mut usage = vec![
        (("process_cpu_seconds_total", "CPU time of the process"), cpu_seconds),
        (("process_resident_memory_bytes", "Resident memory"), resident as f64),
        (("process_virtual_memory_bytes", "Virtual memory"), virtual_bytes as f64),
        (("process_threads", "Threads"), threads as f64),
        (("process_open_fds", "Open file descriptors"), open_files as f64),
    ];
    // `None` without a limit.
    if let Some(limit) = getrlimit(Resource::Nofile).current {
        usage.push((("process_max_fds", "Maximum number of open file descriptors"), limit as f64));
    }
    Some(usage)
}

fn find_number(lines: &str, name: &str) -> Option<u64> {
    let rest = lines.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests;
