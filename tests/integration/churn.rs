//! Servers with continuously changing lists: notifications, refresh rate and memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::principals::{By, gate, key, session};
use crate::rig::client::{Request, Stream};
use crate::rig::upstream::modern;
use crate::rig::{Gate, HeardMessage, Say, Upstream, json, until};

/// The number of reads of a server's list, and whether the changes have ended.
#[derive(Default)]
struct Turns {
    count: AtomicUsize,
    over: AtomicBool,
}

impl Turns {
    fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }
}

/// Returns a server of `count` tools. Every read of its list returns another list and triggers a
/// change notification.
fn restless(
    count: usize,
    turns: &Arc<Turns>,
) -> impl Fn(&HeardMessage) -> Say + Send + Sync + use<> {
    let turns = Arc::clone(turns);
    let tool = |at: usize| {
        let text = "what it does, in a sentence that is as long as such sentences are";
        let schema = json!({"type": "object", "properties": {"value": {"type": "string"}}});
        json!({"name": format!("tool-{at}"), "description": text, "inputSchema": schema})
            .to_string()
    };
    let rest: Vec<String> = (1..count).map(tool).collect();
    let rest = rest.join(",");
    move |heard| {
        if heard.method() != "tools/list" {
            return modern(&[])(heard);
        }
        let (turn, id) = (turns.count.fetch_add(1, Ordering::SeqCst) + 1, &heard.body["id"]);
        let first = format!(r#"{{"name":"turn-{turn}","inputSchema":{{"type":"object"}}}}"#);
        let result = format!(
            r#"{{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[{first},{rest}]}}"#
        );
        let mut text = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#);
        if !turns.over.load(Ordering::SeqCst) {
            let changed = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
            text = format!("{text}\n{changed}\n{changed}");
        }
        Say::Text("", text.into_bytes())
    }
}

fn resident_mib(pid: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() / 1024
}

fn listen(key: &str) -> Request {
    Request::modern(
        "/mcp",
        "subscriptions/listen",
        json!({"notifications": {"toolsListChanged": true}}),
    )
    .by(key)
}

async fn sessions_stream(gate: &Gate, id: &str, key: &str) -> Stream {
    Request::bare("GET", "/mcp", "").with("Mcp-Session-Id", id).by(key).open(gate.address).await
}

async fn read_again(turns: &Turns, count: usize) {
    let began = Instant::now();
    while turns.count() < count {
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "the list is read {} times of {count}",
            turns.count()
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Idle sessions and streams of two principals, in both eras, hold no outdated lists; requests get
/// the newest list; continuous change notifications do not cause continuous refreshes.
#[tokio::test]
async fn nothing_stays_of_lists_that_were() {
    let turns = Arc::default();
    let server = Upstream::lines(restless(5000, &turns)).await;
    let gate = gate(&server, json!({})).await;
    let keys = [key(&gate, "one", &[]).await, key(&gate, "two", &[]).await];
    let (mut streams, mut idle) = (Vec::new(), Vec::new());
    for key in &keys {
        streams.push(listen(key).open(gate.address).await);
        let reads = session(&gate, key, "2025-11-25").await;
        streams.push(sessions_stream(&gate, &reads, key).await);
        let waits = session(&gate, key, "2025-06-18").await;
        // On a busy machine the first list is read only after the discovery deadline.
        until("the first list is complete", async || {
            let list = Request::legacy("/mcp", &waits, 1, "tools/list", &json!({})).by(key);
            let listed = list.send(gate.address).await;
            (listed.result()["tools"].as_array()?.len() == 1000).then_some(())
        })
        .await;
        idle.push((key, waits));
    }
    read_again(&turns, 4).await;
    let (before, began, first) = (resident_mib(gate.pid()), Instant::now(), turns.count());
    tokio::time::sleep(Duration::from_secs(6)).await;
    // On a busy machine a list takes seconds.
    read_again(&turns, first + 2).await;
    let (after, read) = (resident_mib(gate.pid()), turns.count() - first);
    let paced = usize::try_from(began.elapsed().as_secs()).unwrap() + 2;
    assert!((2..=paced).contains(&read), "{read} times read in {paced} s");
    // Each list takes at least 4 MiB while it is held for two principals.
    assert!(after < before + 20, "{before} MiB before, {after} MiB after {read} lists");
    turns.over.store(true, Ordering::SeqCst);
    until("the newest list is what everybody sees", async || {
        let newest = format!("a__turn-{}", turns.count());
        for (key, id) in &idle {
            let modern = Request::modern("/mcp", "tools/list", json!({}));
            let legacy = Request::legacy("/mcp", id, 2, "tools/list", &json!({}));
            for list in [modern, legacy] {
                let listed = list.by(key).send(gate.address).await.result();
                listed["tools"].as_array()?.iter().find(|tool| tool["name"] == newest)?;
            }
        }
        Some(())
    })
    .await;
    for mut stream in streams {
        let told = stream.next().await.unwrap();
        let method = told["method"].as_str().unwrap();
        assert!(
            ["notifications/subscriptions/acknowledged", "notifications/tools/list_changed"]
                .contains(&method)
        );
    }
}
