//! The `sdk-client` program: the official Rust SDK as a client of the gateway, over HTTP or over the
//! standard streams of a program that it starts. Ends with 0 if the usual requests work.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use clap::{Parser, ValueEnum};
use rmcp::ServiceExt as _;
use rmcp::model::{CallToolRequestParams, ProtocolVersion, ReadResourceRequestParams};
use rmcp::service::{ClientLifecycleMode, ClientServiceExt as _, RoleClient, RunningService};
use rmcp::transport::StreamableHttpClientTransport;

/// Time for a program to end after its client.
const EXIT_TIMEOUT: Duration = Duration::from_secs(30);

type Client = RunningService<RoleClient, ()>;

#[derive(Parser)]
struct Arguments {
    lifecycle: Lifecycle,
    /// A URL, or a program with its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    server: Vec<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Lifecycle {
    Initialize,
    Discover,
    Auto,
    /// The SDK's own choice.
    Default,
}

impl Lifecycle {
    fn mode(self) -> Option<ClientLifecycleMode> {
        let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
        match self {
            Self::Initialize => Some(ClientLifecycleMode::Initialize),
            Self::Discover => Some(ClientLifecycleMode::Discover { preferred_versions }),
            Self::Auto => {
                Some(ClientLifecycleMode::Auto { preferred_versions, legacy_version: None })
            }
            Self::Default => None,
        }
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let Arguments { lifecycle, server } = Arguments::parse();
    match server.as_slice() {
        [url] => {
            let transport = StreamableHttpClientTransport::from_uri(url.as_str());
            match lifecycle.mode() {
                Some(mode) => use_server(().serve_with_lifecycle(transport, mode).await?).await,
                None => use_server(().serve(transport).await?).await,
            }
        }
        [program, arguments @ ..] => use_program(lifecycle, program, arguments).await,
        [] => Ok(()),
    }
}

async fn use_program(
    lifecycle: Lifecycle,
    program: &str,
    arguments: &[String],
) -> anyhow::Result<()> {
    let mut child = tokio::process::Command::new(program)
        .args(arguments)
        .kill_on_drop(true)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let output = child.stdout.take().context("its output")?;
    let transport = (output, child.stdin.take().context("its input")?);
    match lifecycle.mode() {
        Some(mode) => use_server(().serve_with_lifecycle(transport, mode).await?).await?,
        None => use_server(().serve(transport).await?).await?,
    }
    let exit = tokio::time::timeout(EXIT_TIMEOUT, child.wait()).await.context("it goes on")??;
    ensure!(exit.code() == Some(0), "it ended with {exit}");
    Ok(())
}

/// Checks the usual requests of a client.
async fn use_server(client: Client) -> anyhow::Result<()> {
    let tools = client.list_all_tools().await?;
    ensure!(tools.len() > 20, "{} tools", tools.len());
    ensure!(tools.iter().all(|tool| tool.name.starts_with("f__")), "a name without its server");
    let call = client.call_tool(CallToolRequestParams::new("f__test_simple_text")).await?;
    ensure!(serde_json::to_string(&call)?.contains("simple text"), "{call:?}");
    let failed = client.call_tool(CallToolRequestParams::new("f__test_error_handling")).await?;
    ensure!(serde_json::to_string(&failed)?.contains("\"isError\":true"), "{failed:?}");
    let missing = client.call_tool(CallToolRequestParams::new("f__none")).await;
    ensure!(missing.is_err(), "{missing:?}");
    ensure!(client.list_all_prompts().await?.len() >= 4, "too few prompts");
    ensure!(!client.list_all_resources().await?.is_empty(), "no resources");
    ensure!(!client.list_all_resource_templates().await?.is_empty(), "no templates");
    let uri = "f+test://static-text";
    let read = client.read_resource(ReadResourceRequestParams::new(uri)).await?;
    ensure!(serde_json::to_string(&read)?.contains(uri), "{read:?}");
    client.cancel().await?;
    Ok(())
}
