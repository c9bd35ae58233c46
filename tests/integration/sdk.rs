//! The official Rust SDK as a client, in each of its lifecycles, over HTTP and over stdio.

use std::process::Stdio;

use rmcp::ServiceExt as _;
use rmcp::model::{CallToolRequestParams, ProtocolVersion, ReadResourceRequestParams};
use rmcp::service::{ClientLifecycleMode, ClientServiceExt as _, RoleClient, RunningService};
use rmcp::transport::StreamableHttpClientTransport;

use crate::rig::gate::{command, config};
use crate::rig::{Gate, fixture, json};

type Client = RunningService<RoleClient, ()>;

fn lifecycles() -> [ClientLifecycleMode; 3] {
    let preferred = || vec![ProtocolVersion::V_2026_07_28];
    [
        ClientLifecycleMode::Initialize,
        ClientLifecycleMode::Discover { preferred_versions: preferred() },
        ClientLifecycleMode::Auto { preferred_versions: preferred(), legacy_version: None },
    ]
}

/// Checks the usual requests of a client.
async fn works(client: Client) {
    let tools = client.list_all_tools().await.unwrap();
    assert!(tools.len() > 20, "{}", tools.len());
    assert!(tools.iter().all(|tool| tool.name.starts_with("f__")));
    let call = client.call_tool(CallToolRequestParams::new("f__test_simple_text")).await.unwrap();
    assert!(serde_json::to_string(&call).unwrap().contains("simple text"));
    let failed =
        client.call_tool(CallToolRequestParams::new("f__test_error_handling")).await.unwrap();
    assert!(serde_json::to_string(&failed).unwrap().contains("\"isError\":true"));
    assert!(client.call_tool(CallToolRequestParams::new("f__none")).await.is_err());
    assert!(client.list_all_prompts().await.unwrap().len() >= 4);
    assert!(!client.list_all_resources().await.unwrap().is_empty());
    assert!(!client.list_all_resource_templates().await.unwrap().is_empty());
    let read =
        client.read_resource(ReadResourceRequestParams::new("f+test://static-text")).await.unwrap();
    assert!(serde_json::to_string(&read).unwrap().contains("f+test://static-text"));
    client.cancel().await.unwrap();
}

/// the SDK works in every lifecycle over HTTP, with paged lists, for servers of both eras.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sdk_works_over_http() {
    // The SDK's HTTP client uses the process-wide crypto provider.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    for era in ["modern", "legacy"] {
        let servers = json!({"f": fixture(&["--era", era])});
        let gate = Gate::start(json!({"servers": servers})).await;
        for lifecycle in lifecycles() {
            let transport =
                StreamableHttpClientTransport::from_uri(format!("http://{}/mcp", gate.address));
            works(().serve_with_lifecycle(transport, lifecycle).await.unwrap()).await;
        }
    }
}

/// Also with the SDK's own choice of lifecycle.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sdk_works_over_stdio() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lockgate.json");
    std::fs::write(&file, config(json!({"servers": {"f": fixture(&[])}})).to_string()).unwrap();
    for lifecycle in lifecycles().into_iter().map(Some).chain([None]) {
        let mut command = tokio::process::Command::from(command());
        command.args(["stdio", "--config"]).arg(&file).kill_on_drop(true);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let transport = (child.stdout.take().unwrap(), child.stdin.take().unwrap());
        let client = match lifecycle {
            Some(lifecycle) => ().serve_with_lifecycle(transport, lifecycle).await.unwrap(),
            None => ().serve(transport).await.unwrap(),
        };
        works(client).await;
        let exit = tokio::time::timeout(crate::rig::EVENT_TIMEOUT, child.wait())
            .await
            .expect("it ends")
            .unwrap();
        assert_eq!(exit.code(), Some(0));
    }
}
