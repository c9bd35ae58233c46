//! Logs on stderr, as text or JSON lines, with a level that can be changed at run time. Control
//! characters are escaped, so that a field cannot end its line or move a terminal's cursor.

use std::fmt::{self, Write as _};
use std::io::{self, IsTerminal, Write};

use lockgate_text::unseen::{Unseen, unseen};
use tracing::{Event, Subscriber};
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::fmt::format::{Writer, debug_fn};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt as lines, reload};

use crate::batches::{ExportError, Way};
use crate::log_records::{LogExport, write_json};
use crate::metrics::Metrics;
use crate::request;
use crate::{Config, Format};

/// A handle to the log level, and to the exported lines.
#[derive(Clone, Debug)]
pub struct Guard {
    level: reload::Handle<EnvFilter, Registry>,
    exported: Option<LogExport>,
}

/// The error of setting up or changing the log.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    #[error("log level: {0}")]
    Level(#[from] tracing_subscriber::filter::ParseError),
    #[error("logging is set up already")]
    Twice,
}

/// Sends the events of the whole process to stderr, and queues them for [`Guard::export`] if a
/// collector is configured. Fails if called twice.
pub fn init(config: &Config) -> Result<Guard, LogError> {
    let (filter, level) = reload::Layer::new(EnvFilter::try_new(&config.level)?);
    let output = layer(config.format, io::stderr().is_terminal(), io::stderr);
    let exported = if config.export.otlp_logs.is_some() { Some(LogExport::new()) } else { None };
    let subscriber =
        tracing_subscriber::registry().with(filter).with(output).with(exported.clone());
    if subscriber.try_init().is_err() {
        return Err(LogError::Twice);
    }
    if exported.is_some() {
        request::keep_traces();
    }
    Ok(Guard { level, exported })
}

impl Guard {
    /// Replaces the filter. An invalid filter changes nothing.
    pub fn set_level(&self, level: &str) -> Result<(), LogError> {
        let filter = EnvFilter::try_new(level)?;
        self.level.reload(filter).map_err(|_| LogError::Twice)
    }

    /// Starts to export lines on the current runtime, including earlier lines, if a collector is
    /// configured.
    pub fn export(&self, config: &Config, metrics: &Metrics, way: &Way) -> Result<(), ExportError> {
        self.exported.as_ref().map_or(Ok(()), |exported| exported.start(config, metrics, way))
    }

    /// Exports the remaining lines. Waits at most three seconds.
    pub async fn flush(&self) {
        if let Some(exported) = &self.exported {
            exported.flush().await;
        }
    }
}

type Output<S> = Box<dyn Layer<S> + Send + Sync>;

fn layer<S, W, O>(format: Format, terminal: bool, output: W) -> Output<S>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: Fn() -> O + Send + Sync + 'static,
    O: Write + 'static,
{
    match format {
        Format::Text => {
            let fields =
                debug_fn(move |writer: &mut Writer<'_>, field, value| match field.name() {
                    "message" => write!(Escaped(writer, format), "{value:?}"),
                    name => write!(Escaped(writer, format), "{name}={value:?}"),
                });
            let text = lines::layer()
                .fmt_fields(fields.delimited(" "))
                .event_format(TextFormat)
                .with_writer(output);
            // On a terminal the default applies, which respects NO_COLOR.
            if terminal { text.boxed() } else { text.with_ansi(false).boxed() }
        }
        Format::Json => JsonLines(output).boxed(),
    }
}

/// Escapes control characters, so that a value stays within its line, and characters that JSON
/// allows in a string but a terminal interprets: DEL, the C1 controls and others.
struct Escaped<'a, W>(&'a mut W, Format);

impl<W: fmt::Write> fmt::Write for Escaped<'_, W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text;
        while let Some((at, dangerous)) = rest.char_indices().find(|(_, c)| is_dangerous(*c)) {
            self.0.write_str(&rest[..at])?;
            match self.1 {
                Format::Text => write!(self.0, "{}", dangerous.escape_unicode())?,
                Format::Json => write!(self.0, "\\u{:04x}", u32::from(dangerous))?,
            }
            rest = &rest[at + dangerous.len_utf8()..];
        }
        self.0.write_str(rest)
    }
}

/// Returns whether a character is a control, a line separator, or reverses text direction.
pub(crate) fn is_dangerous(c: char) -> bool {
    matches!(unseen(c), Some(Unseen::Control | Unseen::LineBreak | Unseen::Direction))
}

/// The default format of text lines, with the ids of the current request.
struct TextFormat;

impl<S, N> FormatEvent<S, N> for TextFormat
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut line = String::new();
        let format = lines::format().with_ansi(writer.has_ansi_escapes());
        format.format_event(context, Writer::new(&mut line), event)?;
        line.truncate(line.trim_end_matches('\n').len());
        request::see_current(|tag| {
            for (name, value) in tag.describe() {
                let _ = write!(line, " {name}={value}");
            }
        });
        writeln!(writer, "{line}")
    }
}

/// A layer that writes events as JSON lines.
struct JsonLines<W>(W);

impl<S: Subscriber, O: Write, W: Fn() -> O + 'static> Layer<S> for JsonLines<W> {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut line = String::new();
        // Writing to memory cannot fail; a line that stderr does not take is lost.
        let _ = write!(Escaped(&mut line, Format::Json), "{}", write_json(event));
        line.push('\n');
        let _ = (self.0)().write_all(line.as_bytes());
    }
}

#[cfg(test)]
pub(crate) mod tests;
