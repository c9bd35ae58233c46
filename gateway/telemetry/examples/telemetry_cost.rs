//! What one forwarded call pays for telemetry: `cargo run --release -p lockgate-telemetry --example telemetry_cost` prints nanoseconds,
//! the best of seven rounds, at default settings (level `info`, no OTLP) unless the line says otherwise.

use std::error::Error;
use std::hint::black_box;
use std::io::Write;
use std::time::{Duration, Instant};

use lockgate_telemetry::audit::Record;
use lockgate_telemetry::{Config, Format, Metrics, Outcome, TraceContext, init};

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn main() -> Result<(), Box<dyn Error>> {
    let config = Config { level: "info".into(), format: Format::Json, otlp: None, tools: 1000, audit: None };
    let _guard = init(&config)?;
    let metrics = Metrics::new(&config);
    let tool = metrics.tool("files", "read");
    let audit = |allowed| Record {
        who: "key:ci",
        method: "tools/call",
        name: Some("files__read"),
        allowed,
        rule: "tools.allow",
        outcome: Outcome::Ok,
        duration: Duration::from_micros(80),
        trace: None,
    };
    let parent = TraceContext::parse(PARENT, Some("a=1")).ok_or("parent")?;
    measure("record a call", || black_box(&tool).record(Outcome::Ok, black_box(Duration::from_micros(800))))?;
    measure("gauge up and down", || drop(black_box(metrics.in_flight()).enter()))?;
    measure("audit, allowed (off)", || black_box(audit(black_box(true))).log())?;
    measure("read the clock twice", || _ = black_box(Instant::now().elapsed()))?;
    measure("parse a traceparent", || drop(black_box(TraceContext::parse(black_box(PARENT), Some("a=1")))))?;
    measure("child and its text", || _ = black_box(black_box(&parent).child().traceparent()))?;
    for number in 0..1000 {
        metrics.tool("files", &number.to_string()).record(Outcome::Ok, Duration::ZERO);
    }
    let started = Instant::now();
    let bytes = black_box(metrics.render()).len();
    writeln!(
        std::io::stdout(),
        "{:24} {:>8.1} ms for {bytes} bytes",
        "render 1000 tools",
        started.elapsed().as_secs_f64() * 1e3
    )?;
    Ok(())
}

fn measure(what: &str, mut act: impl FnMut()) -> std::io::Result<()> {
    const TIMES: u32 = 200_000;
    let mut best = Duration::MAX;
    for _ in 0..7 {
        let started = Instant::now();
        (0..TIMES).for_each(|_| act());
        best = best.min(started.elapsed());
    }
    writeln!(std::io::stdout(), "{what:24} {:>8.1} ns", best.as_secs_f64() * 1e9 / f64::from(TIMES))
}
