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
        ("sessions", "Legacy sessions alive", &numbers.sessions),
        ("parked_calls", "Calls that wait for their clients' answers", &numbers.parked),
        ("approvals_waiting", "Calls that wait for a person", &numbers.approvals),
        ("streams", "Event streams open towards clients", &numbers.streams),
        ("requests_in_flight", "Requests that run now", &numbers.in_flight),
        ("requests_queued", "Requests that wait for a place", &numbers.queued),
        ("bytes_in_flight", "Bytes of messages that are held now", &numbers.bytes_in_flight),
        ("bytes_in_flight_limit", "Bytes of messages that may be held", &numbers.bytes_limit),
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
        .with_description("Messages that were refused because there was no memory for them")
        .with_callback(move |observer| observer.observe(refused.load(Relaxed), &[]))
        .build();
}

fn calls(meter: &Meter, numbers: &Arc<Numbers>) {
    let numbers = Arc::downgrade(numbers);
    let builder = meter
        .u64_observable_counter("calls")
        .with_description("Calls that have ended, by server, tool and outcome");
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
        ("server_calls_running", "Calls that run at a server now", |b| b.running as u64),
        ("server_calls_limit", "Calls that may run at a server at once (concurrency)", |b| {
            b.concurrency as u64
        }),
        ("server_calls_waiting", "Calls that wait for a place at a server", |b| b.waiting as u64),
        ("server_calls_queue", "Calls that may wait for a place at a server (queue)", |b| {
            b.queue as u64
        }),
        ("server_timeout_seconds", "Time that one call to a server may take", |b| {
            b.timeout.as_secs()
        }),
        (
            "server_breaker_open",
            "1 while calls to a server are held back because it kept failing",
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
        .with_description("Messages to the webhook that a call waits for approvers, by outcome");
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
    let builder = meter
        .u64_observable_counter("spans_lost")
        .with_description("Spans that were made and not exported");
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
        .with_description("1 while the trail cannot be written");
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
        quarantined.with_description("Tools hidden until somebody approves them (`lockgate pins`)");
    let _ = quarantined.with_callback(each_server(numbers, ServerMetrics::quarantined)).build();
    const COUNTERS: [Reading<ServerMetrics>; 2] = [
        (
            "server_restarts",
            "Times that a server was started or connected again",
            ServerMetrics::restarts,
        ),
        (
            "server_list_changes",
            "Times that a server's lists were read again and differed",
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
        .with_description("1 for the state that a server is in");
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
