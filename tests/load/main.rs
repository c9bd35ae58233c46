//! `lockgate-load`: the cost of a forwarded call compared with a direct call and with a plain
//! reverse proxy. `echo` serves a fast MCP server; `run` starts and measures everything and prints
//! a table; `guarded`, `tools` and `scale` measure guarded calls, built-in tools and thousands of
//! integrations; `order` finds the order of the gateway's functions, and `train` makes calls for the
//! compiler's profile. Connects only to loopback, and ends only its own processes.

mod allocations;
mod body;
mod echo;
mod faces;
mod figures;
mod generate;
mod guard;
mod guarded;
mod idle;
mod latency;
mod measure;
mod order;
mod peer;
mod process;
mod proxy;
mod report;
mod run;
mod scale;
mod scan;
mod table;
mod tools;
mod train;
mod wire;

use std::io::Write;
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};

#[derive(Parser)]
#[command(name = "lockgate-load", about = "Load bench of the gateway", version)]
enum Command {
    /// Serve the echo server that the bench calls
    Echo(echo::Options),
    /// Measure direct calls, nginx and the gateway, and print the table
    Run(run::Options),
    /// Measure the gateway with everything that judges a call beside the same without
    Guarded(guarded::Options),
    /// Measure the built-in tools beside the bare operations
    Tools(tools::Options),
    /// Write the order of functions for the linker, from counts of calls
    Order(order::Options),
    /// Make calls for a program that records a profile
    Train(train::Options),
    /// Measure a gateway with thousands of integrations beside one with few
    Scale(scale::Options),
}

fn main() -> ExitCode {
    bench(Command::parse()).unwrap_or_else(|error| {
        // A failed write to stderr cannot be reported.
        drop(writeln!(std::io::stderr().lock(), "lockgate-load: {error:#}"));
        ExitCode::FAILURE
    })
}

fn bench(command: Command) -> anyhow::Result<ExitCode> {
    // A single thread leaves cores to the measured process.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("start the runtime")?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate()).context("listen for SIGTERM")?;
        // Dropping the future on a signal stops the processes that it started.
        tokio::select! {
            done = work(command) => done,
            _ = terminate.recv() => Ok(ExitCode::from(143)),
            _ = tokio::signal::ctrl_c() => Ok(ExitCode::from(130)),
        }
    })
}

async fn work(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Echo(options) => echo::serve(options).await.map(|()| ExitCode::SUCCESS),
        Command::Run(options) => run::run(&options).await,
        Command::Guarded(options) => guarded::run(&options).await,
        Command::Order(options) => order::run(&options).await,
        Command::Tools(options) => tools::run(&options).await,
        Command::Train(options) => train::run(&options).await,
        Command::Scale(options) => scale::run(&options).await,
    }
}
