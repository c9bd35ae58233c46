//! Servers of organisations: connected on first use, only at permitted addresses, and with lists
//! that survive a restart of the gateway.

use std::path::Path;
use std::time::Duration;

use tokio::net::TcpListener;

use crate::principals::{By, key};
use crate::rig::client::Request;
use crate::rig::upstream::{modern, modern_with, tool};
use crate::rig::{Answer, Gate, Say, Upstream, Value, json, until};

const DEGRADED: &str = "lockgate/degraded";

async fn start(store: &Path) -> Gate {
    Gate::start(json!({"store": {"file": store.join("lockgate.db")}})).await
}

async fn create(gate: &Gate, name: &str, url: &str, by: Option<&str>) -> Answer {
    let body = json!({"name": name, "serverUrl": url, "authMethod": "none"}).to_string();
    let request = Request::bare("POST", "/api/mcp-integrations/custom", body);
    let request = match by {
        Some(key) => request.by(key),
        None => request,
    };
    request.send(gate.address).await
}

#[tokio::test]
async fn lists_outlive_the_gateway_and_say_their_age_until_they_are_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Upstream::http(modern(&["t"])).await;
    let url = format!("http://{}/mcp", server.address);
    let mut first = start(folder.path()).await;
    assert_eq!(create(&first, "Time", &url, None).await.status, 201);
    until("its tools are listed", async || {
        let result = first.modern("/mcp", "tools/list", json!({})).await.json()["result"].clone();
        (result["tools"][0]["name"] == "time__t").then_some(())
    })
    .await;
    first.terminate();
    first.ended().await;
    server.stop().await;

    let second = start(folder.path()).await;
    let (tools, result) = second.tools("/mcp").await;
    assert_eq!(tools, ["time__t"], "{result}");
    let marked = &result["_meta"][DEGRADED][0];
    assert_eq!(marked["server"], "time", "{result}");
    let reason = marked["reason"].as_str().unwrap();
    assert!(reason.contains("its lists are from 2"), "{reason}");
    server.restart().await;
    until("its lists are read again", async || {
        let (tools, result) = second.tools("/mcp").await;
        assert_eq!(tools, ["time__t"], "{result}");
        result["_meta"][DEGRADED].is_null().then_some(())
    })
    .await;
    let answer = second.call("time__t").await;
    assert!(answer.json()["result"]["content"].is_array(), "{}", answer.text());
}

#[tokio::test]
async fn no_spelling_leads_to_an_inner_network_that_the_operator_has_not_opened() {
    let canary = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = canary.local_addr().unwrap().port();
    for (opened, is_private) in [("public", false), ("private", true)] {
        // A configured host name means that remote clients reach the gateway.
        let gate = Gate::start(json!({
            "auth": {"keys_file": "keys.yaml"},
            "http": {"hosts": ["mcp.example.com"]},
            "egress": {"organisations": opened},
        }))
        .await;
        let admin = key(&gate, "admin", &["--role", "admin", "--organisation", "acme"]).await;
        let hosts = [
            "localhost",
            "a.localhost.",
            "127.0.0.1",
            "127.1",
            "2130706433",
            "0x7f.0.0.1",
            "0177.0.0.01",
            "[::1]",
            "[::ffff:127.0.0.1]",
            "[::ffff:7f00:1]",
            "[64:ff9b::7f00:1]",
            "0.0.0.0",
            "[::]",
            "169.254.169.254",
            "2852039166",
            "[::ffff:a9fe:a9fe]",
            "[fd00:ec2::254]",
            "[fe80::1]",
            "100.100.100.200",
        ];
        for (at, host) in hosts.into_iter().enumerate() {
            let url = format!("http://{host}:{port}/mcp");
            let refused = create(&gate, &format!("n{at}"), &url, Some(&admin)).await;
            let said = refused.json();
            assert_eq!(said["code"], "INVALID_FIELD", "{host}: {}", refused.text());
            assert_eq!(said["errors"][0]["pointer"], "#/serverUrl", "{host}: {said}");
        }
        for (at, host) in ["10.0.0.1", "192.168.7.7", "[fd12::1]"].into_iter().enumerate() {
            let name = format!("p{at}");
            let url = format!("http://{host}/");
            let made = create(&gate, &name, &url, Some(&admin)).await;
            assert_eq!(made.status == 201, is_private, "{host}");
        }
        // The address of a name is checked at connection time.
        let hostname = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        let url = format!("http://{}:{port}/mcp", hostname.trim());
        let made = create(&gate, "host", &url, Some(&admin)).await;
        assert_eq!(made.status, 201, "{}", made.text());
        let path = format!("/api/mcp-integrations/{}", made.json()["id"].as_str().unwrap());
        let state = until("it has failed", async || {
            let seen = Request::bare("GET", &path, "").by(&admin).send(gate.address).await.json();
            (seen["state"] == "failed").then_some(seen)
        })
        .await;
        let reason = state["reason"].as_str().unwrap();
        let is_judged = reason.contains("address is not allowed");
        assert!(is_judged || reason.contains("could not be resolved") || is_private, "{state}");
    }
    let came = tokio::time::timeout(Duration::ZERO, canary.accept()).await;
    assert!(came.is_err(), "somebody came");
}

#[tokio::test]
async fn the_user_of_this_machine_adds_a_server_of_this_machine() {
    let server = Upstream::http(modern(&["t"])).await;
    let folder = tempfile::tempdir().unwrap();
    let gate = start(folder.path()).await;
    let url = format!("http://localhost:{}/mcp", server.address.port());
    let made = create(&gate, "Own", &url, None).await;
    assert_eq!(made.status, 201, "{}", made.text());
    until("its tool is called", async || {
        let answer: Value = gate.call("own__t").await.json();
        answer["result"]["content"].is_array().then_some(())
    })
    .await;
    assert_eq!(server.count("tools/call"), 1);
}

#[tokio::test]
async fn another_name_leaves_the_connection_its_calls_and_its_lists_alone() {
    let script = modern(&["t"]);
    let mut server = Upstream::http(move |heard| match (heard.method(), script(heard)) {
        ("tools/call", Say::Json(answer)) => Say::Late(Duration::from_millis(700), answer),
        (_, say) => say,
    })
    .await;
    let url = format!("http://{}/mcp", server.address);
    let folder = tempfile::tempdir().unwrap();
    let mut gate = start(folder.path()).await;
    let made = create(&gate, "Time", &url, None).await.json();
    until("its tools are listed", async || {
        (gate.tools("/mcp").await.0 == ["time__t"]).then_some(())
    })
    .await;
    let lists = server.count("tools/list");
    let address = gate.address;
    let params = json!({"name": "time__t", "arguments": {}});
    let call = Request::modern("/mcp", "tools/call", params);
    let running = tokio::spawn(async move { call.send(address).await.json() });
    until("it is called", async || (server.count("tools/call") == 1).then_some(())).await;
    let path = format!("/api/mcp-integrations/{}", made["id"].as_str().unwrap());
    for patch in [json!({"name": "Clock"}), json!({"enabled": true})] {
        let patched = Request::bare("PATCH", &path, patch.to_string()).send(address).await;
        assert_eq!(patched.status, 200, "{}", patched.text());
        let (tools, result) = gate.tools("/mcp").await;
        assert_eq!(tools, ["time__t"], "{result}");
        assert!(result["_meta"][DEGRADED].is_null(), "{result}");
    }
    let answer = running.await.unwrap();
    assert!(answer["result"]["content"].is_array(), "{answer}");
    assert!(gate.call("time__t").await.json()["result"]["content"].is_array());
    assert_eq!(server.count("tools/list"), lists, "it was read again");
    gate.terminate();
    gate.ended().await;
    server.stop().await;
    let second = start(folder.path()).await;
    let (tools, result) = second.tools("/mcp").await;
    assert_eq!(tools, ["time__t"], "{result}");
}

#[tokio::test]
async fn a_server_of_an_organisation_has_so_much_memory_for_its_lists() {
    let tools = (0..4500).map(|n| {
        let mut tool = tool(&format!("t{n}"));
        tool["description"] = "d".repeat(1200).into();
        tool
    });
    let server = Upstream::http(modern_with(tools.collect())).await;
    let folder = tempfile::tempdir().unwrap();
    let gate = start(folder.path()).await;
    create(&gate, "Many", &format!("http://{}/mcp", server.address), None).await;
    until("its tools are listed", async || (!gate.tools("/mcp").await.0.is_empty()).then_some(()))
        .await;
    let mut cursor = Value::Null;
    let (mut count, mut bytes) = (0, 0);
    loop {
        let params = if cursor.is_null() { json!({}) } else { json!({"cursor": cursor}) };
        let result = gate.modern("/mcp", "tools/list", params).await.json()["result"].clone();
        for tool in result["tools"].as_array().unwrap() {
            count += 1;
            bytes += tool.to_string().len();
        }
        cursor = result["nextCursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert!(count > 2000 && bytes <= 4 << 20, "{count} tools of {bytes} bytes");
    until("the log says so", async || gate.log().contains("beyond 4 MiB").then_some(())).await;
}
