//! Counters as OpenTelemetry instruments, rendered as Prometheus text. Values are read only when
//! rendered.
//!
//! Observable instruments read the atomics in callbacks; their names begin with `lockgate_`. Other
//! metrics are read by `readings`.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{AsyncInstrument, Meter, MeterProvider};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::{Instrument, SdkMeterProvider, Stream};
use prometheus::{Registry, TextEncoder};

use crate::audit::AuditCounters;
use crate::counters::{Bounds, Gauge, ServerMetrics};
use crate::labels::{Notification, Outcome, Rejection, ServerState};
use crate::numbers::{Numbers, ServerLabel};
use crate::readings::register_all;

/// Name and help of an instrument, and the function that reads its value.
type Reading<T> = (&'static str, &'static str, fn(&T) -> u64);

/// A Prometheus registry with OpenTelemetry instruments.
pub(crate) struct Exporter {
    registry: Registry,
    /// Keeps the instruments alive. `render` reports a failed setup.
    provider: Result<SdkMeterProvider, String>,
}

impl Exporter {
    pub(crate) fn new(numbers: &Arc<Numbers>) -> Self {
        let registry = Registry::new();
        let provider = provider(&registry, numbers).map_err(|error| error.to_string());
        Self { registry, provider }
    }

    pub(crate) fn render(&self) -> String {
        if let Err(error) = &self.provider {
            return say_unavailable(error);
        }
        match TextEncoder::new().encode_to_string(&self.registry.gather()) {
            Ok(text) => text,
            Err(error) => say_unavailable(&error),
        }
    }
}

fn say_unavailable(error: &dyn fmt::Display) -> String {
    format!("# metrics are not available: {error}\n")
}

fn provider(
    registry: &Registry,
    numbers: &Arc<Numbers>,
) -> Result<SdkMeterProvider, Box<dyn std::error::Error + Send + Sync>> {
    register_all(registry, numbers)?;
    let exporter = opentelemetry_prometheus::exporter()
        .with_registry(registry.clone())
        .with_namespace("lockgate")
        .without_target_info()
        .scope_info_enabled(false)
        .build()?;
    // Names are bounded at their lookup; the SDK's own limit (2000 sets) would merge named tools.
    let sets =
        numbers.tools.saturating_mul(2).saturating_add(8192).saturating_mul(Outcome::ALL.len());
    let provider = SdkMeterProvider::builder()
        .with_resource(Resource::builder_empty().build())
        .with_reader(exporter)
        .with_view(move |_: &Instrument| {
            Stream::builder().with_cardinality_limit(sets).build().ok()
        })
        .build();
    let meter = provider.meter("lockgate");
    gauges(&meter, numbers);
    calls(&meter, numbers);
    bounds(&meter, numbers);
    rejections(&meter, numbers);
    notifications(&meter, numbers);
    audit(&meter, numbers);
    servers(&meter, numbers);
    Ok(provider)
}

fn gauges(meter: &Meter, numbers: &Numbers) {
    for (name, help, gauge) in [
        ("sessions", "Open legacy sessions", &numbers.sessions),
        ("parked_calls", "Calls waiting for an answer from their client", &numbers.parked),
        (
            "approvals_waiting",
            "Calls waiting for an approval or an answer from a person",
            &numbers.approvals,
        ),
        ("streams", "Open event streams to clients", &numbers.streams),
        ("requests_in_flight", "Requests in progress", &numbers.in_flight),
        ("requests_queued", "Requests waiting for a free slot", &numbers.queued),
        ("bytes_in_flight", "Bytes of messages in memory", &numbers.bytes_in_flight),
        ("bytes_in_flight_limit", "Limit on bytes of messages in memory", &numbers.bytes_limit),
        (
            "shared_rates_away",
            "1 while the store of shared rates cannot be reached",
            &numbers.shared_rates_away,
        ),
    ] {
        let gauge: Gauge = gauge.clone();
        let builder = meter.i64_observable_gauge(name).with_description(help);
        let _ = builder.with_callback(move |observer| observer.observe(gauge.get(), &[])).build();
    }
    let refused = Arc::clone(&numbers.refused_for_memory);
    let builder = meter.u64_observable_counter("messages_refused_for_memory");
    let _ = builder
        .with_description("Messages refused or dropped for lack of memory")
        .with_callback(move |observer| observer.observe(refused.load(Relaxed), &[]))
        .build();
}

fn calls(meter: &Meter, numbers: &Arc<Numbers>) {
    let numbers = Arc::downgrade(numbers);
    let builder = meter
        .u64_observable_counter("calls")
        .with_description("Completed calls, by server, tool and outcome");
    let _ = builder
        .with_callback(move |observer| {
            let Some(numbers) = numbers.upgrade() else {
                return;
            };
            numbers.servers.lock().each_tool(|server, tool, metrics| {
                for &outcome in Outcome::ALL {
                    let count = metrics.count(outcome);
                    // `ok` is always present, for rates and absence alerts; other outcomes appear
                    // with their first count.
                    if count > 0 || outcome == Outcome::Ok {
                        let further = [
                            KeyValue::new("tool", tool.to_owned()),
                            KeyValue::new("outcome", outcome.as_str()),
                        ];
                        observer.observe(count, &attributes(server, further));
                    }
                }
            });
        })
        .build();
}

/// Registers the load, limits, timeout and breaker of each server.
fn bounds(meter: &Meter, numbers: &Arc<Numbers>) {
    const GAUGES: [Reading<Bounds>; 6] = [
        ("server_calls_running", "Calls in progress at a server", |b| b.running as u64),
        ("server_calls_limit", "Limit on concurrent calls at a server (concurrency)", |b| {
            b.concurrency as u64
        }),
        ("server_calls_waiting", "Calls waiting for a free slot at a server", |b| b.waiting as u64),
        ("server_calls_queue", "Limit on calls waiting at a server (queue)", |b| b.queue as u64),
        ("server_timeout_seconds", "Timeout of a call to a server", |b| b.timeout.as_secs()),
        (
            "server_breaker_open",
            "1 while calls to a server are paused because it keeps failing",
            |b| b.open.into(),
        ),
    ];
    for (name, help, read) in GAUGES {
        let numbers = Arc::downgrade(numbers);
        let builder = meter.u64_observable_gauge(name).with_description(help);
        let _ = builder
            .with_callback(move |observer| {
                let Some(numbers) = numbers.upgrade() else { return };
                numbers.servers.lock().each_server(|server, metrics| {
                    if let Some(bounds) = metrics.bounds() {
                        observer.observe(read(&bounds), &attributes(server, []));
                    }
                });
            })
            .build();
    }
}

fn notifications(meter: &Meter, numbers: &Arc<Numbers>) {
    let weak = Arc::downgrade(numbers);
    let builder = meter
        .u64_observable_counter("approval_notifications")
        .with_description("Approval notifications to the webhook, by outcome");
    let _ = builder
        .with_callback(move |observer| {
            let Some(numbers) = weak.upgrade() else {
                return;
            };
            for &outcome in Notification::ALL {
                let count = numbers.notifications[outcome as usize].load(Relaxed);
                observer.observe(count, &[KeyValue::new("outcome", outcome.as_str())]);
            }
        })
        .build();
}

fn rejections(meter: &Meter, numbers: &Arc<Numbers>) {
    let weak = Arc::downgrade(numbers);
    let builder = meter
        .u64_observable_counter("requests_rejected")
        .with_description("Requests refused before they became calls, by reason");
    let _ = builder
        .with_callback(move |observer| {
            let Some(numbers) = weak.upgrade() else {
                return;
            };
            for &why in Rejection::ALL {
                let count = numbers.rejections[why as usize].load(Relaxed);
                observer.observe(count, &[KeyValue::new("reason", why.as_str())]);
            }
        })
        .build();
    let lost = numbers.lost_spans.clone();
    let builder =
        meter.u64_observable_counter("spans_lost").with_description("Spans that were not exported");
    let _ =
        builder.with_callback(move |observer| observer.observe(lost.load(Relaxed), &[])).build();
}

fn audit(meter: &Meter, numbers: &Numbers) {
    const COUNTERS: [Reading<AuditCounters>; 2] = [
        ("audit_records", "Records written to the audit trail", AuditCounters::written),
        ("audit_lost", "Records missing in the audit trail", AuditCounters::dropped),
    ];
    for (name, help, read) in COUNTERS {
        let audit = Arc::clone(&numbers.audit);
        let builder = meter.u64_observable_counter(name).with_description(help);
        let _ = builder.with_callback(move |observer| observer.observe(read(&audit), &[])).build();
    }
    let audit = Arc::clone(&numbers.audit);
    let builder = meter
        .u64_observable_gauge("audit_failing")
        .with_description("1 while the audit trail cannot be written");
    let _ = builder
        .with_callback(move |observer| observer.observe(audit.is_failing().into(), &[]))
        .build();
}

fn attributes<const N: usize>(server: &ServerLabel, further: [KeyValue; N]) -> Vec<KeyValue> {
    let mut all = Vec::with_capacity(N + 2);
    for (name, value) in server.pairs() {
        all.push(KeyValue::new(name, value.to_owned()));
    }
    all.extend(further);
    all
}

fn each_server(
    numbers: &Arc<Numbers>,
    read: fn(&ServerMetrics) -> u64,
) -> impl Fn(&dyn AsyncInstrument<u64>) + Send + Sync + use<> {
    let numbers = Arc::downgrade(numbers);
    move |observer| {
        let Some(numbers) = numbers.upgrade() else { return };
        numbers.servers.lock().each_server(|server, metrics| {
            observer.observe(read(metrics), &attributes(server, []));
        });
    }
}

fn servers(meter: &Meter, numbers: &Arc<Numbers>) {
    let quarantined = meter.u64_observable_gauge("server_tools_quarantined");
    let quarantined =
        quarantined.with_description("Tools hidden until they are approved (`lockgate pins`)");
    let _ = quarantined.with_callback(each_server(numbers, ServerMetrics::quarantined)).build();
    const COUNTERS: [Reading<ServerMetrics>; 2] = [
        ("server_restarts", "Restarts and reconnections of a server", ServerMetrics::restarts),
        (
            "server_list_changes",
            "Changes of a server's lists, found when they were read again",
            ServerMetrics::list_changes,
        ),
    ];
    for (name, help, read) in COUNTERS {
        let builder = meter.u64_observable_counter(name).with_description(help);
        let _ = builder.with_callback(each_server(numbers, read)).build();
    }
    let numbers = Arc::downgrade(numbers);
    let builder = meter
        .u64_observable_gauge("server_state")
        .with_description("1 for the current state of a server");
    let _ = builder
        .with_callback(move |observer| {
            let Some(numbers) = numbers.upgrade() else {
                return;
            };
            numbers.servers.lock().each_server(|server, metrics| {
                for &state in ServerState::ALL {
                    let further = [KeyValue::new("state", state.as_str())];
                    observer.observe(u64::from(metrics.is(state)), &attributes(server, further));
                }
            });
        })
        .build();
}
