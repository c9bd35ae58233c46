//! Tests of `log`.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;

use super::*;

/// Returns the lines that `act` logs at `level`, captured by a separate subscriber.
pub(crate) fn logged(format: Format, level: &str, act: impl FnOnce()) -> String {
    let lines = Buffer::default();
    let output = lines.clone();
    let filter = EnvFilter::try_new(level).unwrap();
    let subscriber =
        tracing_subscriber::registry()
            .with(filter)
            .with(layer(format, false, move || output.clone()));
    tracing::subscriber::with_default(subscriber, act);
    String::from_utf8(lines.0.lock().clone()).unwrap()
}

#[derive(Clone, Default)]
struct Buffer(Arc<Mutex<Vec<u8>>>);

impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

const EVIL: &str = "a\nINFO forged\r\u{1b}[31m\u{7f}\u{9b}2J\u{2028}\u{202e}b";

fn log_evil() {
    tracing::info!(shown = %EVIL, quoted = EVIL, "said: {EVIL}");
}

#[test]
fn a_text_field_stays_in_its_line_whatever_it_holds() {
    let text = logged(Format::Text, "info", log_evil);
    assert_eq!(text.lines().count(), 1, "{text:?}");
    assert!(!text.trim_end().contains(is_dangerous), "{text:?}");
    assert!(text.contains("shown=a\\u{a}INFO forged"), "{text}");
    assert!(text.contains("INFO") && text.contains("said: a"), "{text}");
}

#[test]
fn a_json_line_is_one_object_whatever_its_fields_hold() {
    let text = logged(Format::Json, "info", log_evil);
    assert!(text.ends_with('\n') && !text.trim_end().contains(is_dangerous), "{text:?}");
    let line: Value = serde_json::from_str(text.trim_end()).unwrap();
    assert_eq!((line["shown"].as_str(), line["quoted"].as_str()), (Some(EVIL), Some(EVIL)));
    assert_eq!(line["level"], "INFO");
    assert_eq!(line["message"], format!("said: {EVIL}"));
}

/// Numbers and lists keep their types; texts that look like lists stay texts.
#[test]
fn a_json_line_has_lists_and_numbers() {
    let said = ["one\"\n".to_owned(), "zwei".to_owned()];
    let act = || {
        let list = lockgate_text::list::JsonList(&said);
        tracing::warn!(stderr = %list, pid = 7_u32, other = "[\"x\"]", "gone");
    };
    let text = logged(Format::Json, "info", act);
    assert_eq!(text.lines().count(), 1, "{text:?}");
    let line: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(line["stderr"], serde_json::json!(["one\"\n", "zwei"]));
    assert_eq!((&line["pid"], &line["other"]), (&7.into(), &"[\"x\"]".into()));
    assert!(logged(Format::Text, "info", act).contains("stderr=[\"one"));
}

#[test]
fn text_without_a_terminal_has_no_colour() {
    let text = logged(Format::Text, "info", || tracing::error!(answer = 42, "plain"));
    assert!(
        text.trim_end().ends_with("ERROR lockgate_telemetry::log::tests: plain answer=42"),
        "{text:?}"
    );
}

#[test]
fn the_filter_decides_by_target() {
    let act = || {
        tracing::debug!(target: "audit", "one");
        tracing::debug!(target: "other", "two");
    };
    let text = logged(Format::Text, "info,audit=debug", act);
    assert!(text.contains("one") && !text.contains("two"), "{text}");
}

#[test]
fn the_level_changes_while_running_and_a_wrong_one_is_refused() {
    let lines = Buffer::default();
    let output = lines.clone();
    let (filter, level) = reload::Layer::new(EnvFilter::try_new("warn").unwrap());
    let guard = Guard { level, exported: None };
    let subscriber =
        tracing_subscriber::registry()
            .with(filter)
            .with(layer(Format::Text, false, move || output.clone()));
    tracing::subscriber::with_default(subscriber, || {
        tracing::info!("hidden");
        assert!(matches!(guard.set_level("lockgate=loudest"), Err(LogError::Level(_))));
        guard.set_level("debug").unwrap();
        tracing::debug!("shown");
    });
    let text = String::from_utf8(lines.0.lock().clone()).unwrap();
    assert!(text.contains("shown") && !text.contains("hidden"), "{text}");
}

#[test]
fn logging_is_set_up_once() {
    let config = Config {
        level: "off".into(),
        format: Format::Text,
        export: crate::Export { tools: 1, ..crate::Export::default() },
        audit: None,
    };
    assert!(matches!(
        init(&Config { level: "a=b=c".into(), ..config.clone() }),
        Err(LogError::Level(_))
    ));
    assert!(init(&config).is_ok());
    assert!(matches!(init(&config), Err(LogError::Twice)));
}
