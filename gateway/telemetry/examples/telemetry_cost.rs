//! Measures the cost of telemetry per forwarded call: `cargo run --release -p lockgate-telemetry
//! --example telemetry_cost` prints nanoseconds, the best of seven rounds, at default settings
//! (level `info`, no OTLP) unless the line states otherwise.

use std::error::Error;
use std::hint::black_box;
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockgate_telemetry::audit::{self, OnFull, Record};
use lockgate_telemetry::{Config, Export, Format, Metrics, Outcome, TraceContext, init};

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn main() -> Result<(), Box<dyn Error>> {
    let config = Config {
        level: "info".into(),
        format: Format::Json,
        otlp: None,
        otlp_logs: None,
        export: Export::default(),
        tools: 1000,
        audit: None,
    };
    let _guard = init(&config)?;
    let metrics = Metrics::new(&config);
    let tool = metrics.tool(None, "files", "read");
    let audit = |allowed| Record {
        who: "key:ci",
        key: None,
        method: "tools/call",
        name: Some("files__read"),
        allowed,
        rule: Some("tools.allow"),
        reason: None,
        outcome: Outcome::Ok,
        duration: Duration::from_micros(80),
        trace: None,
    };
    let parent = TraceContext::parse(PARENT, Some("a=1")).ok_or("parent")?;
    measure("record a call", || {
        black_box(&tool).record(Outcome::Ok, black_box(Duration::from_micros(800)))
    })?;
    let ended = Instant::now();
    measure("note when it ended", || black_box(&tool).ended(black_box(ended)))?;
    measure("audit, allowed (off)", || black_box(audit(black_box(true))).log())?;
    for on_full in [OnFull::Deny, OnFull::Drop] {
        trail(on_full)?;
    }
    measure("read the clock twice", || _ = black_box(Instant::now().elapsed()))?;
    measure("parse a traceparent", || {
        drop(black_box(TraceContext::parse(black_box(PARENT), Some("a=1"))))
    })?;
    measure("child and its text", || _ = black_box(black_box(&parent).child().traceparent()))?;
    for number in 0..1000 {
        metrics.tool(None, "files", &number.to_string()).record(Outcome::Ok, Duration::ZERO);
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

/// Measures the cost of queueing a decision and an outcome for the audit trail, while the writer
/// runs on another core.
fn trail(on_full: OnFull) -> Result<(), Box<dyn Error>> {
    const BURST: usize = 4000;
    let folder = tempfile::tempdir()?;
    let config = audit::Config {
        output: audit::Output::File(folder.path().join("audit.jsonl")),
        key: None,
        on_full,
        queue: 2 * BURST,
        rotate_bytes: 1 << 30,
        rotate_age: Duration::from_secs(3600),
        keep: 1,
        anchor: Duration::from_secs(3600),
        arguments: audit::Arguments::Digest,
        forward: audit::Forward::default(),
    };
    let counters = Arc::<audit::AuditCounters>::default();
    let trail = audit::Trail::start(&config, Arc::clone(&counters), Box::new(<[u8]>::to_vec))?;
    let mut best = Duration::MAX;
    for round in 1..=20_u64 {
        let started = Instant::now();
        for _ in 0..BURST {
            let asked = audit::Asked {
                issuer: "key",
                subject: "ci",
                organisation: None,
                key: None,
                agent: None,
                method: "tools/call",
                endpoint: "".into(),
                server: Some("files"),
                name: Some("files__read".into()),
                trace: None,
                transport: None,
            };
            let arguments = Some(br#"{"path":"/srv/data/report.txt","limit":100}"#.as_slice());
            let ticket = trail.decide(
                &asked,
                arguments,
                audit::Decision::Allow(Some("developers"), None),
            )?;
            ticket.finish(Outcome::Ok, Duration::from_micros(80));
        }
        best = best.min(started.elapsed());
        while counters.written() < 1 + round * 2 * BURST as u64 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    trail.close();
    let each = best.as_secs_f64() * 1e9 / BURST as f64;
    Ok(writeln!(std::io::stdout(), "{:24} {each:>8.1} ns", format!("trail, {on_full:?}"))?)
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
