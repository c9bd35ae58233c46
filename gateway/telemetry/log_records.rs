//! The fields of a log line, written as a JSON line to stderr, and as an OpenTelemetry record for a
//! collector. Only the gateway's own lines are exported, so that the export does not create further
//! lines. Logging never waits for the export.
//! <https://opentelemetry.io/docs/specs/otel/logs/data-model/>

use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use lockgate_text::json;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value;
use opentelemetry_proto::tonic::common::v1::{
    AnyValue, ArrayValue, InstrumentationScope, KeyValue,
};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs, SeverityNumber};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use parking_lot::Mutex;
use prost::Message as _;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{self, FormatTime};
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
    let mut fields = read_fields(event);
    let body = match fields.shift_remove("message") {
        Some(message) => message,
        None => join(&fields).into(),
    };
    write_origin(&mut fields, event);
    let attributes = fields.into_iter().map(|(key, value)| KeyValue {
        key,
        value: Some(AnyValue { value: convert(value) }),
        ..Default::default()
    });
    let mut record = LogRecord {
        time_unix_nano: now,
        observed_time_unix_nano: now,
        severity_number: severity(level).into(),
        severity_text: level.as_str().to_owned(),
        body: Some(AnyValue { value: convert(body) }),
        attributes: attributes.collect(),
        ..Default::default()
    };
    request::see_current(|tag| {
        if let Some(trace) = tag.trace() {
            record.trace_id = trace.trace_id().to_be_bytes().to_vec();
            record.span_id = trace.span_id().to_be_bytes().to_vec();
            record.flags = trace.flags().into();
        }
    });
    record
}

/// Joins the fields of a line without a message.
fn join(fields: &Map<String, Value>) -> String {
    let fields = fields.iter().map(|(key, value)| match value {
        Value::String(text) => format!("{key}={text}"),
        value => format!("{key}={value}"),
    });
    fields.collect::<Vec<_>>().join(" ")
}

/// Converts a field for a collector. Long texts are truncated.
fn convert(value: Value) -> Option<any_value::Value> {
    Some(match value {
        Value::String(mut text) => {
            text.truncate(text.floor_char_boundary(MAX_TEXT));
            any_value::Value::StringValue(text)
        }
        Value::Bool(flag) => any_value::Value::BoolValue(flag),
        Value::Number(number) => match number.as_i64() {
            Some(number) => any_value::Value::IntValue(number),
            None => any_value::Value::DoubleValue(number.as_f64()?),
        },
        Value::Array(list) => {
            let values = list.into_iter().map(|item| AnyValue { value: convert(item) });
            any_value::Value::ArrayValue(ArrayValue { values: values.collect() })
        }
        Value::Null | Value::Object(_) => return None,
    })
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

// Fields of events. A list is logged as the text that `JsonList` writes, because a field can only
// be a text, a number or a flag. Other texts that look like lists stay texts.

/// Fields that contain lists.
const LISTS: [&str; 2] = ["stderr", "programs"];

/// Writes an event as a JSON object: its time and level, its fields, and its origin.
pub(crate) fn write_json(event: &Event<'_>) -> Value {
    let mut time = String::new();
    // Writing to memory cannot fail.
    let _ = time::SystemTime.format_time(&mut Writer::new(&mut time));
    let mut line = Map::new();
    line.insert("timestamp".to_owned(), time.into());
    line.insert("level".to_owned(), event.metadata().level().as_str().into());
    for (name, value) in read_fields(event) {
        line.entry(name).or_insert(value);
    }
    write_origin(&mut line, event);
    line.into()
}

fn read_fields(event: &Event<'_>) -> Map<String, Value> {
    let mut fields = Fields::default();
    event.record(&mut fields);
    fields.0
}

/// Adds the target of an event, and the ids of the current request.
fn write_origin(fields: &mut Map<String, Value>, event: &Event<'_>) {
    let target = fields.shift_remove("log.target");
    let target = target.unwrap_or_else(|| event.metadata().target().into());
    fields.insert("target".to_owned(), target);
    request::see_current(|tag| {
        fields.extend(tag.describe().map(|(name, value)| (name.to_owned(), value.into())));
    });
}

#[derive(Default)]
struct Fields(Map<String, Value>);

impl Fields {
    fn set(&mut self, field: &Field, value: impl Into<Value>) {
        let name = field.name();
        // Of the lines of the crate `log`, only the target is wanted.
        if !name.starts_with("log.") || name == "log.target" {
            self.0.insert(name.to_owned(), value.into());
        }
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = format!("{value:?}");
        if LISTS.contains(&field.name())
            && let Ok(list) = json::from_str::<Vec<String>>(&text)
        {
            return self.set(field, list);
        }
        self.set(field, text);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.set(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field, value);
    }
}

#[cfg(test)]
mod tests;
