//! Log lines as OpenTelemetry records for a collector. Only the gateway's own lines are exported,
//! so that the export does not create further lines. Logging never waits for the export. A record
//! contains the same data as the JSON line.
//! <https://opentelemetry.io/docs/specs/otel/logs/data-model/>

use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use lockgate_text::json;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{
    AnyValue, ArrayValue, InstrumentationScope, KeyValue,
};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs, SeverityNumber};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use parking_lot::Mutex;
use prost::Message as _;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use crate::Config;
use crate::batches::{self, Collector, ExportError, Item, Queue, Waiting, Way};
use crate::metrics::Metrics;
use crate::request;

/// Maximum bytes of a text in a record; longer texts are truncated.
const MAX_TEXT: usize = 4096;
/// Target prefixes of the gateway's own lines.
const OWN: [&str; 3] = ["lockgate", "audit", "upstream."];
/// The target of the export's own lines.
const EXPORT: &str = "lockgate_telemetry::batches";

/// The layer that makes records of log events. Records before [`LogExport::start`] are queued.
#[derive(Clone, Debug)]
pub(crate) struct LogExport {
    queue: Queue<LogRecord>,
    waiting: Arc<Mutex<Option<Waiting<LogRecord>>>>,
}

impl LogExport {
    pub(crate) fn new() -> Self {
        let (queue, waiting) = batches::queue(Arc::default());
        Self { queue, waiting: Arc::new(Mutex::new(Some(waiting))) }
    }

    /// Starts the exporter on the current runtime, unless already started.
    pub(crate) fn start(
        &self,
        config: &Config,
        metrics: &Metrics,
        way: &Way,
    ) -> Result<(), ExportError> {
        let Some(endpoint) = &config.export.otlp_logs else { return Ok(()) };
        let collector = Collector::new(endpoint, &config.export, way)?;
        let _ = metrics.0.lost_logs.set(Arc::clone(&self.queue.lost));
        if let Some(waiting) = self.waiting.lock().take() {
            tokio::spawn(waiting.export(collector));
        }
        Ok(())
    }

    /// Exports the queued records, if started, and ends the export. Waits at most three seconds.
    pub(crate) async fn flush(&self) {
        let has_started = self.waiting.lock().is_none();
        if has_started {
            self.queue.end().await;
        }
    }
}

impl Item for LogRecord {
    const FAILED: &'static str = "log lines were not exported (telemetry.otlp_logs)";
    const RESUMED: &'static str = "log lines are exported again (telemetry.otlp_logs)";

    fn encode(log_records: Vec<Self>, resource: &ResourceAttributesWithSchema) -> Vec<u8> {
        let scope = InstrumentationScope { name: "lockgate".to_owned(), ..Default::default() };
        let of_scope = ScopeLogs { scope: Some(scope), log_records, ..Default::default() };
        let attributes = resource.attributes.0.clone();
        let of_resource = ResourceLogs {
            resource: Some(Resource { attributes, ..Default::default() }),
            scope_logs: vec![of_scope],
            ..Default::default()
        };
        ExportLogsServiceRequest { resource_logs: vec![of_resource] }.encode_to_vec()
    }
}

impl<S: Subscriber> Layer<S> for LogExport {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if is_exported(event.metadata().target()) {
            self.queue.put(|| make_record(event));
        }
    }
}

/// Returns whether to export lines of this target. The collector's client logs lines too.
fn is_exported(target: &str) -> bool {
    target != EXPORT && OWN.iter().any(|own| target.starts_with(own))
}

fn make_record(event: &Event<'_>) -> LogRecord {
    let now = nanoseconds(SystemTime::now());
    let level = *event.metadata().level();
    let mut fields = Fields::default();
    event.record(&mut fields);
    let body = fields.message.take().unwrap_or_else(|| join(&fields.attributes));
    fields.put("target", text(event.metadata().target()));
    let mut record = LogRecord {
        time_unix_nano: now,
        observed_time_unix_nano: now,
        severity_number: severity(level).into(),
        severity_text: level.as_str().to_owned(),
        body: Some(AnyValue { value: Some(Value::StringValue(body)) }),
        ..Default::default()
    };
    request::see_current(|tag| {
        for (name, value) in tag.describe() {
            if !value.is_empty() {
                fields.put(name, text(&value));
            }
        }
        if let Some(trace) = tag.trace() {
            record.trace_id = trace.trace_id().to_be_bytes().to_vec();
            record.span_id = trace.span_id().to_be_bytes().to_vec();
            record.flags = trace.flags().into();
        }
    });
    record.attributes = fields.attributes;
    record
}

/// Joins the fields of a line without a message.
fn join(attributes: &[KeyValue]) -> String {
    let fields = attributes.iter().map(|KeyValue { key, value, .. }| {
        match value.as_ref().and_then(|value| value.value.as_ref()) {
            Some(Value::StringValue(text)) => format!("{key}={text}"),
            Some(Value::IntValue(number)) => format!("{key}={number}"),
            Some(Value::BoolValue(flag)) => format!("{key}={flag}"),
            Some(Value::DoubleValue(number)) => format!("{key}={number}"),
            _ => format!("{key}="),
        }
    });
    cut(fields.collect::<Vec<_>>().join(" "))
}

fn nanoseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

fn severity(level: Level) -> SeverityNumber {
    match level {
        Level::ERROR => SeverityNumber::Error,
        Level::WARN => SeverityNumber::Warn,
        Level::INFO => SeverityNumber::Info,
        Level::DEBUG => SeverityNumber::Debug,
        Level::TRACE => SeverityNumber::Trace,
    }
}

#[derive(Default)]
struct Fields {
    message: Option<String>,
    attributes: Vec<KeyValue>,
}

impl Fields {
    fn set(&mut self, field: &Field, value: Value) {
        match (field.name(), value) {
            ("message", Value::StringValue(message)) => self.message = Some(message),
            (name, Value::StringValue(list)) if LISTS.contains(&name) => {
                self.put(name, read_value(list));
            }
            (name, value) => self.put(name, value),
        }
    }

    /// Sets an attribute. Keys are unique, and the last value wins.
    fn put(&mut self, name: &str, value: Value) {
        self.attributes.retain(|known| known.key != name);
        let value = Some(AnyValue { value: Some(value) });
        self.attributes.push(KeyValue { key: name.to_owned(), value, ..Default::default() });
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.set(field, Value::StringValue(cut(format!("{value:?}"))));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field, text(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field, Value::BoolValue(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.set(field, Value::DoubleValue(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field, Value::IntValue(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field, Value::IntValue(i64::try_from(value).unwrap_or(i64::MAX)));
    }
}

/// Parses a field that contains a list. A text that was cut stays a text.
fn read_value(list: String) -> Value {
    let Some(list) = read_list(&list) else { return Value::StringValue(list) };
    let values: Vec<_> = list.iter().map(|item| AnyValue { value: Some(text(item)) }).collect();
    Value::ArrayValue(ArrayValue { values })
}

fn text(text: &str) -> Value {
    let end = text.floor_char_boundary(MAX_TEXT);
    Value::StringValue(text.get(..end).unwrap_or("").to_owned())
}

fn cut(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(MAX_TEXT));
    text
}

// Lists in JSON log lines. The formatter supports only texts, numbers and flags, so a list is
// logged as the text that `JsonList` writes. Other texts that look like lists stay texts.

/// Fields that contain lists.
const LISTS: [&str; 2] = ["stderr", "programs"];
/// Start of a list in a JSON line.
const LIST_START: &[u8] = b"\":\"[";

/// Converts the fields that contain lists to JSON arrays; returns `None` if there are none.
pub(crate) fn write_lists(line: &[u8]) -> Option<Vec<u8>> {
    // A cheap check, because most lines have no list.
    if !line.windows(LIST_START.len()).any(|part| part == LIST_START) {
        return None;
    }
    let mut fields: serde_json::Map<String, serde_json::Value> = json::from_slice(line).ok()?;
    for name in LISTS {
        if let Some(value) = fields.get_mut(name)
            && let Some(list) = value.as_str().and_then(read_list)
        {
            *value = list.into();
        }
    }
    let mut text = serde_json::to_vec(&fields).ok()?;
    text.push(b'\n');
    Some(text)
}

/// Parses the text of a field that contains a list.
fn read_list(text: &str) -> Option<Vec<String>> {
    json::from_str(text).ok()
}

#[cfg(test)]
mod tests;
