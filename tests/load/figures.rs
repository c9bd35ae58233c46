//! Figures other than the cost of a call: `initialize`, long lists, idle sessions, allocations.
//! Each starts fresh processes. Unavailable figures are reported, never omitted.

use std::net::SocketAddr;
use std::path::Path;

use crate::allocations::{self, PerCall, Program};
use crate::echo::Eras;
use crate::faces::{MERGED, faces, is_gateway};
use crate::idle::{self, Idle};
use crate::latency;
use crate::proxy::{self, Gateway, Server};
use crate::report::{DIRECT, FigureKind, Line, MAX_ALLOCATIONS};
use crate::run::progress;
use crate::wire::{Era, Face};

/// Tools in the long list.
const TOOLS: usize = 1000;
/// Calls over which allocations are counted.
const COUNTED: u64 = 1_000;

pub struct Figures<'a> {
    /// The gateway in front of the echo server with one tool, if it is measured.
    pub gateway: Option<Gateway>,
    /// The eras of the gateway's upstream.
    pub eras: Eras,
    pub quick: bool,
    pub folder: &'a Path,
    pub lines: Vec<Line>,
}

impl Figures<'_> {
    pub async fn initialize(&mut self, faces: &[Face]) {
        progress("initialize");
        let repeats = if self.quick { 100 } else { 500 };
        for face in faces {
            let value = latency::initialize(face, repeats).await;
            self.latency(face, "initialize, median".into(), value, 1.0);
        }
    }

    /// Measures a warm list of many tools, through a separate gateway.
    pub async fn lists(&mut self) -> anyhow::Result<()> {
        progress("tools/list");
        let echo = proxy::start_echo("echo-tools", TOOLS, Eras::Both, self.folder).await?;
        let upstream = proxy::start_echo("upstream-tools", TOOLS, self.eras, self.folder).await?;
        let gateway: Option<Server> = match &self.gateway {
            Some(gateway) => {
                let before = gateway.before(upstream.address);
                Some(before.start("gateway-tools", self.folder).await?)
            }
            None => None,
        };
        let repeats = if self.quick { 20 } else { 200 };
        let gateway = gateway.as_ref().map(|gateway| gateway.address);
        for face in faces(echo.address, None, gateway) {
            for era in Era::BOTH {
                let value = latency::list(&face, era, TOOLS, repeats).await;
                let what = format!("tools/list of {TOOLS}, warm, median, {}", era.word());
                self.latency(&face, what, value, 5.0);
            }
        }
        Ok(())
    }

    fn latency(&mut self, face: &Face, what: String, value: anyhow::Result<f64>, limit: f64) {
        self.lines.push(Line {
            target: face.name,
            what,
            unit: "ms",
            value: value.map_err(|error| format!("{error:#}")),
            limit: is_gateway(face).then_some(limit),
            required: true,
            kind: FigureKind::Noisy,
        });
    }

    pub async fn sessions(&mut self) {
        let Some(gateway) = &self.gateway else {
            return;
        };
        progress("idle sessions");
        let sessions = if self.quick { 2000 } else { 5000 };
        let found = idle::idle(gateway, MERGED.path, sessions, self.folder).await;
        let found = found.map_err(|error| format!("{error:#}"));
        let mut add = |what: String, figure: fn(&Idle) -> f64, limit| {
            self.lines.push(Line {
                target: MERGED.name,
                what,
                unit: "KiB",
                value: found.as_ref().map(figure).map_err(Clone::clone),
                limit,
                required: true,
                kind: FigureKind::Noisy,
            });
        };
        let of = format!("of {sessions} idle legacy sessions, proportional size");
        add(format!("each {of}"), |idle| idle.pss_kib, Some(10.0));
        add(format!("1,000 {of}"), |idle| idle.pss_kib * 1000.0, None);
        let of = format!("of {sessions} idle legacy sessions, resident size");
        add(format!("each {of}"), |idle| idle.rss_kib, None);
    }

    /// Counts the allocations per call of the echo server and of the gateway in front of it.
    pub async fn heap(&mut self) {
        if !allocations::possible() {
            progress("valgrind is not installed: no allocations per call");
            return;
        }
        let direct = |address| proxy::echo_command(1, Eras::Both, address);
        self.count(&Program {
            name: DIRECT,
            path: "/mcp",
            tool: "echo",
            ready: None,
            command: &direct,
        })
        .await;
        if let Some(gateway) = self.gateway.clone() {
            let folder = self.folder;
            let forwarded =
                move |address: SocketAddr| gateway.command("gateway-heap", address, folder);
            self.count(&Program {
                name: MERGED.name,
                path: MERGED.path,
                tool: MERGED.tool,
                ready: Some("/readyz"),
                command: &forwarded,
            })
            .await;
        }
    }

    async fn count(&mut self, program: &Program<'_>) {
        progress(&format!("allocations per call of {}", program.name));
        // With fewer calls, work that occurs once in a run, such as a second read of the lists,
        // would distort the figure.
        let counted = allocations::count(program, COUNTED, self.folder).await;
        let counted = counted.map_err(|error| format!("{error:#}"));
        for (at, era) in Era::BOTH.into_iter().enumerate() {
            let mut add = |what: &str, unit, limit: Option<f64>, figure: fn(&PerCall) -> f64| {
                let of_era = |eras: &[PerCall; 2]| figure(&eras[at]);
                self.lines.push(Line {
                    target: program.name,
                    what: format!("{what}, {}", era.word()),
                    unit,
                    value: counted.as_ref().map(of_era).map_err(Clone::clone),
                    limit: limit.filter(|_| program.name == MERGED.name),
                    required: true,
                    kind: FigureKind::Exact,
                });
            };
            add("allocations per call", "", Some(MAX_ALLOCATIONS), |call| call.allocations);
            add("bytes allocated per call", "B", None, |call| call.bytes);
        }
    }
}
