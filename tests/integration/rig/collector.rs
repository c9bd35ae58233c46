//! An OTLP/HTTP collector that stores and decodes the exported protobuf data.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use prost::Message as _;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::{Value, json};

/// A request to the collector.
#[derive(Clone)]
pub struct Export {
    /// The request line and headers.
    pub head: String,
    pub body: Vec<u8>,
}

pub struct Collector {
    pub address: std::net::SocketAddr,
    exports: Arc<Mutex<Vec<Export>>>,
    mood: Arc<AtomicU8>,
    task: JoinHandle<()>,
}

/// The collector's behaviour.
#[derive(Clone, Copy)]
pub enum Mood {
    Answers,
    /// Closes the connection without a response.
    HangsUp,
    /// Never responds.
    IsSilent,
}

/// An exported log record.
#[derive(Clone, Debug)]
pub struct Line {
    pub severity: (i32, String),
    pub body: String,
    pub trace: Vec<u8>,
    pub span: Vec<u8>,
    pub attributes: BTreeMap<String, Value>,
    pub scope: String,
    /// Resource attributes of the exporting process.
    pub resource: BTreeMap<String, Value>,
}

impl Line {
    pub fn text(&self, attribute: &str) -> &str {
        self.attributes.get(attribute).and_then(Value::as_str).unwrap_or_default()
    }
}

/// An exported span.
#[derive(Clone, Debug)]
pub struct Span {
    /// `server` or `client`.
    pub kind: &'static str,
    pub name: String,
    pub trace: Vec<u8>,
    pub id: Vec<u8>,
    pub parent: Vec<u8>,
    pub attributes: BTreeMap<String, Value>,
    pub is_error: bool,
    pub message: String,
    /// Resource attributes of the exporting process.
    pub resource: BTreeMap<String, Value>,
}

impl Span {
    pub fn text(&self, attribute: &str) -> &str {
        self.attributes.get(attribute).and_then(Value::as_str).unwrap_or_default()
    }
}

impl Collector {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let exports = Arc::<Mutex<Vec<Export>>>::default();
        let mood = Arc::new(AtomicU8::new(Mood::Answers as u8));
        let (kept, moods) = (Arc::clone(&exports), Arc::clone(&mood));
        let task = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let (kept, moods) = (Arc::clone(&kept), Arc::clone(&moods));
                tokio::spawn(async move { serve(socket, &kept, &moods).await });
            }
        });
        Self { address, exports, mood, task }
    }

    /// Sets the behaviour from the next request on.
    pub fn set_mood(&self, mood: Mood) {
        self.mood.store(mood as u8, Relaxed);
    }

    /// Returns the URL for logs.
    pub fn logs(&self) -> String {
        format!("http://{}/v1/logs", self.address)
    }

    pub fn lines(&self) -> Vec<Line> {
        let mut lines = Vec::new();
        for export in self.exports() {
            if !export.head.starts_with("POST /v1/logs ") {
                continue;
            }
            let request = ExportLogsServiceRequest::decode(&*export.body).unwrap();
            for of_resource in request.resource_logs {
                let resource = of_resource.resource.unwrap_or_default();
                let resource = read_attributes(&resource.attributes);
                for of_scope in of_resource.scope_logs {
                    let scope = of_scope.scope.unwrap_or_default().name;
                    for record in of_scope.log_records {
                        assert!(record.time_unix_nano > 1_700_000_000_000_000_000);
                        lines.push(Line {
                            severity: (record.severity_number, record.severity_text),
                            body: read_value(record.body.as_ref()).as_str().unwrap().to_owned(),
                            trace: record.trace_id,
                            span: record.span_id,
                            attributes: read_attributes(&record.attributes),
                            scope: scope.clone(),
                            resource: resource.clone(),
                        });
                    }
                }
            }
        }
        lines
    }

    /// Returns the URL for traces.
    pub fn traces(&self) -> String {
        format!("http://{}/v1/traces", self.address)
    }

    pub fn exports(&self) -> Vec<Export> {
        self.exports.lock().unwrap().clone()
    }

    pub fn spans(&self) -> Vec<Span> {
        let mut spans = Vec::new();
        for export in self.exports() {
            if !export.head.starts_with("POST /v1/traces ") {
                continue;
            }
            let request = ExportTraceServiceRequest::decode(&*export.body).unwrap();
            for of_resource in request.resource_spans {
                let resource = of_resource.resource.unwrap_or_default();
                let resource = read_attributes(&resource.attributes);
                for of_scope in of_resource.scope_spans {
                    for span in of_scope.spans {
                        let status = span.status.clone().unwrap_or_default();
                        spans.push(Span {
                            kind: match span.kind {
                                2 => "server",
                                3 => "client",
                                _ => "other",
                            },
                            name: span.name,
                            trace: span.trace_id,
                            id: span.span_id,
                            parent: span.parent_span_id,
                            attributes: read_attributes(&span.attributes),
                            is_error: status.code == 2,
                            message: status.message,
                            resource: resource.clone(),
                        });
                    }
                }
            }
        }
        spans
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub fn read_attributes(all: &[KeyValue]) -> BTreeMap<String, Value> {
    let mut read = BTreeMap::new();
    for attribute in all {
        let twice = read.insert(attribute.key.clone(), read_value(attribute.value.as_ref()));
        assert_eq!(twice, None, "{} is there twice", attribute.key);
    }
    read
}

fn read_value(value: Option<&AnyValue>) -> Value {
    match value.and_then(|value| value.value.as_ref()) {
        Some(Any::StringValue(text)) => json!(text),
        Some(Any::IntValue(number)) => json!(number),
        Some(Any::BoolValue(flag)) => json!(flag),
        Some(other) => panic!("an attribute of another type: {other:?}"),
        None => Value::Null,
    }
}

/// Serves the requests of a connection; bodies need a content length.
async fn serve(mut socket: TcpStream, exports: &Mutex<Vec<Export>>, mood: &AtomicU8) {
    let mut bytes = Vec::new();
    loop {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n");
        if let Some(end) = end {
            let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(": ")?;
                name.eq_ignore_ascii_case("content-length").then(|| value.parse::<usize>())?.ok()
            });
            let length = length.unwrap_or(0);
            if bytes.len() >= end + 4 + length {
                let body = bytes[end + 4..end + 4 + length].to_vec();
                bytes.drain(..end + 4 + length);
                match mood.load(Relaxed) {
                    mood if mood == Mood::HangsUp as u8 => return,
                    mood if mood == Mood::IsSilent as u8 => std::future::pending().await,
                    _ => {}
                }
                exports.lock().unwrap().push(Export { head, body });
                if socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.is_err()
                {
                    return;
                }
                continue;
            }
        }
        match socket.read_buf(&mut bytes).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    }
}
