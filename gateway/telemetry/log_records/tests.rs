//! Tests of `log_records`.

#![allow(clippy::unwrap_used)]

use std::net::Ipv4Addr;

use tracing_subscriber::layer::SubscriberExt;

use super::*;
use crate::request::{Arrival, Tag, has_rpc_id, has_trace, keep_traces, within};
use crate::trace::TraceContext;

/// Runs `act` and returns the log records it emits.
fn records(act: impl FnOnce()) -> Vec<LogRecord> {
    let export = LogExport::new();
    let subscriber = tracing_subscriber::registry().with(export.clone());
    tracing::subscriber::with_default(subscriber, act);
    let waiting = export.waiting.lock().take().unwrap();
    waiting.into_items()
}

fn find<'a>(record: &'a LogRecord, key: &str) -> Option<&'a any_value::Value> {
    let mut found = record.attributes.iter().filter(|attribute| attribute.key == key);
    let value = found.next()?.value.as_ref()?.value.as_ref();
    assert!(found.next().is_none(), "{key} is there twice");
    value
}

fn body(record: &LogRecord) -> &str {
    match record.body.as_ref().and_then(|body| body.value.as_ref()) {
        Some(any_value::Value::StringValue(text)) => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_record_has_what_its_line_has() {
    let before = nanoseconds(SystemTime::now());
    let all = records(|| {
        tracing::warn!(tool = "a__t", count = 3_u64, less = -1, share = 0.5, late = true, %before,
            "said: {}", "a\nb");
    });
    let [record] = &*all else { panic!("{all:?}") };
    assert_eq!(body(record), "said: a\nb");
    assert_eq!(record.severity_number, i32::from(SeverityNumber::Warn));
    assert_eq!(record.severity_text, "WARN");
    assert!(record.time_unix_nano >= before);
    assert_eq!(record.time_unix_nano, record.observed_time_unix_nano);
    let wanted = [
        ("tool", any_value::Value::StringValue("a__t".into())),
        ("count", any_value::Value::IntValue(3)),
        ("less", any_value::Value::IntValue(-1)),
        ("share", any_value::Value::DoubleValue(0.5)),
        ("late", any_value::Value::BoolValue(true)),
        ("before", any_value::Value::StringValue(before.to_string())),
        ("target", any_value::Value::StringValue("lockgate_telemetry::log_records::tests".into())),
    ];
    assert_eq!(record.attributes.len(), wanted.len());
    for (key, value) in wanted {
        assert_eq!(find(record, key), Some(&value), "{key}");
    }
    assert!(record.trace_id.is_empty() && record.span_id.is_empty() && record.flags == 0);
}

#[test]
fn a_line_without_words_is_known_by_its_fields() {
    let all = records(|| tracing::info!(target: "audit", decision = "deny", n = 1, last = true));
    assert_eq!(body(&all[0]), "decision=deny n=1 last=true");
}

#[test]
fn lines_of_libraries_and_of_the_export_itself_make_no_record() {
    let all = records(|| {
        tracing::error!(target: "hyper::client", "no");
        tracing::error!(target: "reqwest", "no");
        tracing::error!(target: "h2", "no");
        tracing::error!(target: "lockgate_telemetry::batches", "no");
        tracing::error!(target: "upstream.stderr", "yes");
        tracing::error!(target: "lockgate", "yes");
    });
    assert_eq!(all.len(), 2, "{all:?}");
}

#[test]
fn long_texts_are_cut_between_characters() {
    let long = "ä".repeat(MAX_TEXT);
    let all = records(|| tracing::info!(target: "audit", long = &*long, shown = %long, "{long}"));
    let Some(any_value::Value::StringValue(text)) = find(&all[0], "long") else { panic!() };
    assert_eq!(text.len(), MAX_TEXT);
    assert_eq!(find(&all[0], "shown"), find(&all[0], "long"));
    assert_eq!(body(&all[0]).len(), MAX_TEXT);
    let odd = "ä".repeat(MAX_TEXT)[..].replacen('ä', "a", 1);
    let all = records(|| tracing::info!(target: "audit", "{odd}"));
    assert_eq!(body(&all[0]).len(), MAX_TEXT - 1);
}

#[tokio::test]
async fn a_record_names_the_request_and_its_span() {
    keep_traces();
    let context = TraceContext::root(true);
    let arrival =
        Arrival { address: Ipv4Addr::new(192, 0, 2, 7).into(), port: None, version: None };
    let export = LogExport::new();
    let subscriber = tracing_subscriber::registry().with(export.clone());
    let guard = tracing::subscriber::set_default(subscriber);
    let tag = Tag::new(Some(b"abc-1"), Some(arrival));
    within(tag, async {
        has_rpc_id(b"7");
        has_trace(|| Some(context.clone()));
        tracing::info!(client = "of the event", "one");
    })
    .await;
    tracing::info!("outside");
    drop(guard);
    let all = export.waiting.lock().take().unwrap().into_items();
    let [of_request, outside] = &*all else { panic!("{all:?}") };
    for (key, value) in [("request_id", "abc-1"), ("rpc_id", "7"), ("client", "192.0.2.7")] {
        assert_eq!(find(of_request, key), Some(&any_value::Value::StringValue(value.into())));
        assert_eq!(find(outside, key), None);
    }
    assert_eq!(of_request.trace_id, context.trace_id().to_be_bytes());
    assert_eq!(of_request.span_id, context.span_id().to_be_bytes());
    assert_eq!(of_request.flags & 1, 1);
    assert!(outside.trace_id.is_empty());
}
