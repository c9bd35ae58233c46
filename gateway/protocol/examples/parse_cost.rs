//! Measures message parsing: `cargo run --release -p lockgate-protocol --example parse_cost`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use bytes::Bytes;
use lockgate_protocol::jsonrpc::{self, Message, SentBy};

const DEPTH: usize = 64;
/// The start of a call within `call_tool`.
const WRAPPER: &str = r#""name":"call_tool","arguments":{"name":"echo__echo","arguments":"#;

/// Prints the time per message, as the best of several windows.
fn measure(what: &str, text: &Bytes, from: SentBy) {
    let is_wrapped = memchr::memmem::find(text, b"call_tool").is_some();
    let mut best = Duration::MAX;
    for _ in 0..9 {
        let began = Instant::now();
        let mut rounds = 0;
        while began.elapsed() < Duration::from_millis(100) {
            for _ in 0..100 {
                let mut read = jsonrpc::parse(black_box(text.clone()), DEPTH, from);
                if is_wrapped && let Ok(Message::Request(request)) = &mut read {
                    assert!(request.unwrap_call().is_ok());
                }
                assert!(black_box(read).is_ok());
            }
            rounds += 100;
        }
        best = best.min(began.elapsed() / rounds);
    }
    #[allow(clippy::print_stdout)]
    {
        println!("{what:60} {:6} bytes {:8.0} ns", text.len(), best.as_secs_f64() * 1e9);
    }
}

fn main() {
    let call = |text: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"name":"echo__echo","arguments":{{"text":"{text}"}},"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{{"name":"load","version":"1"}},"io.modelcontextprotocol/clientCapabilities":{{}}}}}}}}"#
        )
    };
    let result = |text: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":7,"result":{{"resultType":"complete","content":[{{"type":"text","text":"{text}"}}],"isError":false}}}}"#
        )
    };
    let short = "x".repeat(100);
    let long = "x".repeat(64 * 1024);
    measure("a modern call with a text of 100 bytes", &call(&short).into(), SentBy::Client);
    let wrapped = call(&short).replace(r#""name":"echo__echo","arguments":"#, WRAPPER);
    let wrapped = wrapped.replace(r#""},"_meta""#, r#""}},"_meta""#);
    measure("the same in call_tool, unwrapped", &wrapped.into(), SentBy::Client);
    measure("its result", &result(&short).into(), SentBy::Server);
    measure("a modern call with a text of 64 KiB", &call(&long).into(), SentBy::Client);
    measure("its result", &result(&long).into(), SentBy::Server);
    let words = "\\u00e9t\\u00e9 \\n \\\"quoted\\\" ".repeat(2000);
    measure("a call full of escapes", &call(&words).into(), SentBy::Client);
    let many: Vec<String> = (0..5000).map(|n| format!(r#"{{"key{n}":[{n},true,"v"]}}"#)).collect();
    let many = format!(
        r#"{{"jsonrpc":"2.0","id":7,"result":{{"content":[],"structuredContent":{{"all":[{}]}}}}}}"#,
        many.join(",")
    );
    measure("a result of 5,000 small objects", &many.into(), SentBy::Server);
}
