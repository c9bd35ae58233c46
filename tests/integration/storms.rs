//! High load: 5,000 listens, 100 list changes a second, endless progress. Memory is bounded, no
//! final response is lost, and other callers' calls continue.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;

use crate::rig::client::Request;
use crate::rig::upstream::modern;
use crate::rig::{Gate, HeardMessage, Say, Stream, Upstream, Value, json, until};

/// Limit on a small call of another caller, in a debug build on two busy cores.
const CALL_TIMEOUT: Duration = Duration::from_secs(6);

fn resident(gate: &Gate) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", gate.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
}

/// Returns a server that changes its list, and announces this, on each call of `change`.
fn changing(changes: &Arc<AtomicUsize>) -> impl Fn(&HeardMessage) -> Say + Send + Sync + use<> {
    let changes = Arc::clone(changes);
    let plain = modern(&["change", "t"]);
    move |heard| match (heard.method(), heard.body["params"]["name"].as_str()) {
        ("tools/list", _) => {
            let turn = format!("turn-{}", changes.load(Ordering::SeqCst));
            modern(&["change", "t", &turn])(heard)
        }
        ("tools/call", Some("change")) => {
            changes.fetch_add(1, Ordering::SeqCst);
            let note = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
            let result = json!({"resultType": "complete", "content": []});
            Say::Text("", format!("{note}\n{}", heard.result(result)).into_bytes())
        }
        _ => plain(heard),
    }
}

fn listen() -> Request {
    let wanted = json!({"notifications": {"toolsListChanged": true}});
    Request::modern("/mcp", "subscriptions/listen", wanted)
}

/// Makes small calls in sequence until `over`; returns the longest time and the number of calls.
async fn polite(gate: &Gate, tool: &str, over: &AtomicBool) -> (Duration, usize) {
    let mut longest = Duration::ZERO;
    let mut count = 0;
    while !over.load(Ordering::SeqCst) {
        let began = Instant::now();
        assert_eq!(gate.call(tool).await.result()["resultType"], "complete");
        longest = longest.max(began.elapsed());
        count += 1;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    (longest, count)
}

/// Reads up to the next message of this method.
async fn hear(stream: &mut Stream, method: &str) {
    while stream.next().await.expect("a message")["method"] != method {}
}

#[tokio::test]
async fn five_thousand_listens_hear_of_a_change_and_hold_up_nobody() {
    const STREAMS: usize = 5000;
    const EACH: usize = 24 << 10;
    let changes = Arc::default();
    let server = Upstream::lines(changing(&changes)).await;
    let gate = Gate::start(json!({
        "servers": {"a": server.config()}, "limits": {"streams_per_principal": STREAMS + 10},
        "http": {"connections": STREAMS + 100, "connections_per_address": STREAMS + 100},
    }))
    .await;
    drop(listen().open(gate.address).await);
    let before = resident(&gate);
    let request = listen();
    let mut streams = Vec::with_capacity(STREAMS);
    while streams.len() < STREAMS {
        let batch = (0..50).map(|_| request.open(gate.address));
        streams.extend(join_all(batch).await);
    }
    let refused = streams.iter().filter(|stream| stream.head.status != 200).count();
    assert_eq!(refused, 0);
    let each = resident(&gate).saturating_sub(before) / STREAMS;
    eprintln!("{each} bytes of resident memory for each of {STREAMS} listens");
    assert!(each <= EACH, "{each} bytes");
    let over = AtomicBool::new(false);
    let told = async {
        let began = Instant::now();
        gate.call("a__change").await.result();
        let heard = streams.iter_mut().map(|one| hear(one, "notifications/tools/list_changed"));
        join_all(heard).await;
        over.store(true, Ordering::SeqCst);
        began.elapsed()
    };
    let (took, (longest, count)) = tokio::join!(told, polite(&gate, "a__t", &over));
    eprintln!("all told in {took:?}; the longest of {count} other calls took {longest:?}");
    assert!(longest < CALL_TIMEOUT, "{longest:?}");
    let after = resident(&gate).saturating_sub(before) / STREAMS;
    assert!(after <= 2 * EACH, "{after} bytes");
}

#[tokio::test]
async fn a_hundred_changes_of_a_list_a_second_are_told_in_steps() {
    const CHANGES: usize = 300;
    let changes = Arc::new(AtomicUsize::new(0));
    let server = Upstream::lines(changing(&changes)).await;
    let gate = Gate::start(json!({"servers": {"a": server.config()}})).await;
    let mut stream = listen().open(gate.address).await;
    hear(&mut stream, "notifications/subscriptions/acknowledged").await;
    let before = resident(&gate);
    let reads = server.count("tools/list");
    let over = AtomicBool::new(false);
    let began = Instant::now();
    let storm = async {
        let mut pace = tokio::time::interval(Duration::from_millis(10));
        let mut calls = Vec::with_capacity(CHANGES);
        for _ in 0..CHANGES {
            pace.tick().await;
            let call = json!({"name": "a__change", "arguments": {}});
            let request = Request::modern("/mcp", "tools/call", call);
            let address = gate.address;
            calls.push(tokio::spawn(async move { request.send(address).await.code() }));
        }
        let codes: Vec<i64> = join_all(calls).await.into_iter().map(Result::unwrap).collect();
        over.store(true, Ordering::SeqCst);
        codes
    };
    let (codes, (longest, count)) = tokio::join!(storm, polite(&gate, "a__t", &over));
    assert!(codes.iter().all(|code| *code == 0), "no answer is lost: {codes:?}");
    let newest = format!("a__turn-{CHANGES}");
    until("the newest list is seen", async || {
        gate.tools("/mcp").await.0.contains(&newest).then_some(())
    })
    .await;
    let seconds = usize::try_from(began.elapsed().as_secs()).unwrap() + 1;
    let read = server.count("tools/list") - reads;
    eprintln!("{CHANGES} changes in {seconds} s: {read} readings; of {count} others {longest:?}");
    assert!(read <= seconds + 2, "{read} readings in {seconds} s");
    assert!(longest < CALL_TIMEOUT, "{longest:?}");
    // Immediately, then at most every two seconds.
    let mut told = 0;
    while let Ok(message) = tokio::time::timeout(Duration::from_millis(2500), stream.next()).await {
        told += usize::from(message.unwrap()["method"] == "notifications/tools/list_changed");
    }
    assert!((1..=seconds / 2 + 3).contains(&told), "told {told} times in {seconds} s");
    let more = resident(&gate).saturating_sub(before) >> 20;
    assert!(more < 32, "{more} MiB more");
}

/// Returns a server that sends this many progress and log messages before its response.
fn storming(messages: usize) -> impl Fn(&HeardMessage) -> Say + Send + Sync {
    let plain = modern(&["storm", "t"]);
    move |heard| {
        if heard.body["params"]["name"] != "storm" {
            return plain(heard);
        }
        let token = &heard.body["params"]["_meta"]["progressToken"];
        let mut text = String::new();
        for at in 1..=messages {
            let (method, params) = match at % 4 {
                0 => ("notifications/message", json!({"level": "info", "data": "d".repeat(200)})),
                _ => ("notifications/progress", json!({"progressToken": token, "progress": at})),
            };
            let note = json!({"jsonrpc": "2.0", "method": method, "params": params});
            text.push_str(&format!("data: {note}\n\n"));
        }
        let result =
            json!({"resultType": "complete", "content": [{"type": "text", "text": "done"}]});
        Say::Sse(format!("{text}data: {}\n\n", heard.result(result)))
    }
}

#[tokio::test]
async fn a_storm_of_progress_loses_no_answer_and_holds_up_nobody() {
    const CALLS: usize = 12;
    const MESSAGES: usize = 8000;
    let server = Upstream::http(storming(MESSAGES)).await;
    let gate = Gate::start(json!({"servers": {"a": server.config()}})).await;
    gate.call("a__t").await.result();
    let before = resident(&gate);
    let over = AtomicBool::new(false);
    let legacy = gate.session("/mcp", "2025-11-25").await;
    let calls = (0..CALLS).map(|at| {
        let meta = json!({"progressToken": at, "io.modelcontextprotocol/logLevel": "info"});
        let params = json!({"name": "a__storm", "arguments": {}, "_meta": meta});
        let id = i64::try_from(at).unwrap() + 20;
        let request = match at % 2 {
            0 => Request::modern("/mcp", "tools/call", params),
            _ => Request::legacy("/mcp", &legacy.id, id, "tools/call", &params),
        };
        let gate = &gate;
        async move {
            let mut stream = request.open(gate.address).await;
            // Half of the clients read nothing for a while.
            if at % 4 < 2 {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            let mut count = 0;
            loop {
                let message: Value = stream.next().await.expect("an answer");
                if message.get("method").is_none() {
                    return (count, message);
                }
                count += 1;
            }
        }
    });
    let storm = async {
        let answers = join_all(calls).await;
        over.store(true, Ordering::SeqCst);
        answers
    };
    let (answers, (longest, count)) = tokio::join!(storm, polite(&gate, "a__t", &over));
    for (told, last) in &answers {
        assert_eq!(last["result"]["content"][0]["text"], "done", "{last}");
        assert!(*told <= MESSAGES / 4 + 100, "{told} messages of {MESSAGES}");
    }
    let more = resident(&gate).saturating_sub(before) >> 20;
    eprintln!("{more} MiB more; the longest of {count} other calls took {longest:?}");
    assert!(longest < CALL_TIMEOUT, "{longest:?}");
    assert!(more < 64, "{more} MiB more");
}
