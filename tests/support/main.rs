//! The `fixture-server` program. On stdio it ends with its input; over HTTP it prints its address
//! and ends on SIGTERM or Ctrl-C. It binds only the given address.

use std::{io::Write as _, net::SocketAddr};

use anyhow::Context as _;
use clap::Parser;
use lockgate_tests_support::{Era, Fixture, serve_http, serve_sse};
use rmcp::{
    ServiceExt as _, model::ProtocolVersion, service::ServerInitializeError, transport::stdio,
};
use tokio::signal::unix::{SignalKind, signal};

/// An MCP server that offers what the official conformance suite calls by name.
#[derive(Parser)]
#[command(name = "fixture-server")]
struct Arguments {
    /// The revisions to serve.
    #[arg(long, value_enum, default_value_t = Era::Both)]
    era: Era,
    /// One revision alone to serve, such as 2025-06-18, instead of an era.
    #[arg(long, value_name = "REVISION", conflicts_with = "era", value_parser = revision)]
    revision: Option<ProtocolVersion>,
    /// Serve one client on standard input and output.
    #[arg(long, conflicts_with_all = ["http", "sse"], required_unless_present_any = ["http", "sse"])]
    stdio: bool,
    /// Serve Streamable HTTP at `http://ADDR/mcp`; port 0 takes a free one.
    #[arg(long, value_name = "ADDR")]
    http: Option<SocketAddr>,
    /// Serve HTTP+SSE at `http://ADDR/sse`; port 0 takes a free one.
    #[arg(long, value_name = "ADDR", conflicts_with = "http")]
    sse: Option<SocketAddr>,
    /// Entries in one page of a list; 0 means one page.
    #[arg(long, default_value_t = 0, value_name = "N")]
    page_size: usize,
    /// List tools that ask the client only to clients that declared that they can be asked.
    #[arg(long)]
    shy: bool,
    /// Be as the examples of the SDK are, which ask in one way whoever calls.
    #[arg(long)]
    like_examples: bool,
    /// Offer tools that change what one session lists.
    #[arg(long)]
    stateful: bool,
    /// Serve skills.
    #[arg(long)]
    skills: bool,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let era = arguments.revision.as_ref().map_or(arguments.era, Era::of);
    let fixture = Fixture::new(era, arguments.page_size)?
        .only(arguments.revision)
        .shy(arguments.shy)
        .like_examples(arguments.like_examples)
        .stateful(arguments.stateful)
        .skills(arguments.skills);
    let mut terminate = signal(SignalKind::terminate()).context("cannot watch for SIGTERM")?;
    if let Some(address) = arguments.sse {
        let address = serve_sse(fixture, address).await?;
        writeln!(std::io::stdout(), "listening http://{address}/sse")?;
        let _ = terminate.recv().await;
        return Ok(());
    }
    match arguments.http {
        Some(address) => {
            let served = serve_http(fixture, address).await?;
            writeln!(std::io::stdout(), "listening {}", served.url())?;
            tokio::select! {
                _ = terminate.recv() => {}
                _ = tokio::signal::ctrl_c() => {}
            }
            served.stop().await;
        }
        None => {
            tokio::select! {
                _ = terminate.recv() => {}
                ended = serve_stdio(fixture) => ended?,
            }
        }
    }
    // The runtime would wait for its thread that reads standard input.
    std::process::exit(0);
}

fn revision(text: &str) -> Result<ProtocolVersion, String> {
    let known = ProtocolVersion::KNOWN_VERSIONS.iter().find(|known| known.as_str() == text);
    known.cloned().ok_or_else(|| "there is no such revision".to_owned())
}

async fn serve_stdio(fixture: Fixture) -> anyhow::Result<()> {
    match fixture.serve(stdio()).await {
        Ok(running) => {
            running.waiting().await?;
            Ok(())
        }
        // The client disconnected before `initialize`.
        Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
