//! Logs on stderr, as text or JSON lines, with a level that can be changed at run time. Control
//! characters are escaped, so that a field cannot end its line or move a terminal's cursor.

use std::fmt::{self, Write as _};
use std::io::{self, IsTerminal, Write};

use lockgate_text::unseen::{Unseen, unseen};
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::fmt::format::{Writer, debug_fn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt as lines, reload};

use crate::batches::{ExportError, Way};
use crate::log_records::{LogExport, write_lists};
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
    S: tracing::Subscriber + for<'a> tracing_subscriber::registry::LookupSpan<'a>,
    W: Fn() -> O + Send + Sync + 'static,
    O: Write + 'static,
{
    match format {
        Format::Text => {
            let fields = debug_fn(|writer: &mut Writer<'_>, field, value| match field.name() {
                "message" => write!(Escaped(writer), "{value:?}"),
                name => write!(Escaped(writer), "{name}={value:?}"),
            });
            let text = lines::layer()
                .fmt_fields(fields.delimited(" "))
                .with_writer(move || Lines { output: output(), format });
            // On a terminal the default applies, which respects NO_COLOR.
            if terminal { text.boxed() } else { text.with_ansi(false).boxed() }
        }
        Format::Json => lines::layer()
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .with_span_list(false)
            .with_writer(move || Lines { output: output(), format })
            .boxed(),
    }
}

/// Escapes control characters as `\u{…}`, so that a value stays within its line.
struct Escaped<'a, W>(&'a mut W);

impl<W: fmt::Write> fmt::Write for Escaped<'_, W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text;
        while let Some((at, dangerous)) = rest.char_indices().find(|(_, c)| is_dangerous(*c)) {
            write!(self.0, "{}{}", &rest[..at], dangerous.escape_unicode())?;
            rest = &rest[at + dangerous.len_utf8()..];
        }
        self.0.write_str(rest)
    }
}

/// Returns whether a character is a control, a line separator, or reverses text direction.
pub(crate) fn is_dangerous(c: char) -> bool {
    matches!(unseen(c), Some(Unseen::Control | Unseen::LineBreak | Unseen::Direction))
}

/// A writer of lines that adds the ids of the current request. In JSON lines it also escapes
/// characters that JSON allows in a string but a terminal interprets: DEL, the C1 controls (`c2 80`
/// to `c2 9f`) and others. They occur only inside strings, and the formatter writes whole lines.
struct Lines<W> {
    output: W,
    format: Format,
}

impl<W: Write> Write for Lines<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.write_all(line)?;
        Ok(line.len())
    }

    fn write_all(&mut self, line: &[u8]) -> io::Result<()> {
        let is_json = self.format == Format::Json;
        let tagged = request::tagged(line, is_json);
        let line = tagged.as_deref().unwrap_or(line);
        if !is_json {
            return self.output.write_all(line);
        }
        let listed = write_lists(line);
        let line = listed.as_deref().unwrap_or(line);
        let text = std::str::from_utf8(line).unwrap_or_default();
        if !text.contains(|c| is_dangerous(c) && c != '\n') {
            return self.output.write_all(line);
        }
        let mut clean = String::with_capacity(line.len() + 16);
        for c in text.chars() {
            if is_dangerous(c) && c != '\n' {
                let _ = write!(clean, "\\u{:04x}", u32::from(c));
            } else {
                clean.push(c);
            }
        }
        self.output.write_all(clean.as_bytes())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

#[cfg(test)]
pub(crate) mod tests;
