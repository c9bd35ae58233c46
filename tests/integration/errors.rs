//! The rows of protocol page 3.11: a server's error as seen by clients of each era, for servers of
//! each era. Codes with another meaning for the client and HTTP statuses are not relayed, and a
//! tool is never called twice.

use crate::rig::client::Request;
use crate::rig::upstream::{legacy, modern_with, tool};
use crate::rig::{Answer, Gate, HeardMessage, Say, Upstream, Value, json};

/// A server error, and its form for clients of 2026-07-28, 2025-11-25 and 2025-06-18.
struct Row {
    name: &'static str,
    does: fn(&HeardMessage) -> Say,
    /// The eras of the servers with this behaviour.
    eras: &'static [&'static str],
    clients: [i64; 3],
    /// Part of the message.
    words: &'static str,
    /// Members of `data`.
    data: fn() -> Value,
}

const BOTH: &[&str] = &["modern", "legacy"];

fn nothing() -> Value {
    json!({})
}

fn refuse(heard: &HeardMessage, code: i64, data: Value) -> Say {
    let mut error = heard.error(code, "own words");
    if !data.is_null() {
        error["error"]["data"] = data;
    }
    Say::Json(error)
}

fn status(heard: &HeardMessage, status: u16) -> Say {
    let retry = vec![("Retry-After", "7".to_owned())];
    Say::Status(status, retry, heard.error(-32603, "own words"))
}

const ROWS: &[Row] = &[
    Row {
        name: "header-mismatch",
        does: |heard| refuse(heard, -32020, Value::Null),
        eras: &["modern"],
        clients: [-32603; 3],
        words: "rejects the headers that its own tool definition requires",
        data: || json!({"reason": "bad_response"}),
    },
    Row {
        name: "unknown-version",
        does: |heard| refuse(heard, -32022, json!({"supported": ["2026-07-28"]})),
        eras: &["modern"],
        clients: [-32603; 3],
        words: "own words",
        data: || json!({"upstreamCode": -32022}),
    },
    Row {
        name: "missing-capability",
        does: |heard| refuse(heard, -32021, json!({"requiredCapabilities": {"sampling": {}}})),
        eras: &["modern"],
        clients: [-32021, -32603, -32603],
        words: "own words",
        data: nothing,
    },
    Row {
        name: "open-this-first",
        does: |heard| {
            let page = json!({"mode": "url", "url": "https://example.com/secret-page",
                "message": "Agree?", "elicitationId": "own-1"});
            refuse(heard, -32042, json!({"elicitations": [page]}))
        },
        eras: &["legacy"],
        // A client without URL elicitation does not get a code that its revision lacks.
        clients: [-32603, -32042, -32603],
        words: "own words",
        data: nothing,
    },
    Row {
        name: "no-such-method",
        does: |heard| refuse(heard, -32601, Value::Null),
        eras: BOTH,
        clients: [-32602; 3],
        words: "unknown tool",
        data: nothing,
    },
    Row {
        name: "wrong-parameters",
        does: |heard| refuse(heard, -32602, Value::Null),
        eras: BOTH,
        clients: [-32602; 3],
        words: "own words",
        data: nothing,
    },
    Row {
        name: "first-of-servers",
        does: |heard| refuse(heard, -32000, Value::Null),
        eras: BOTH,
        clients: [-32603; 3],
        words: "own words",
        data: || json!({"upstreamCode": -32000}),
    },
    Row {
        name: "last-of-servers",
        does: |heard| refuse(heard, -32099, Value::Null),
        eras: BOTH,
        clients: [-32603; 3],
        words: "own words",
        data: || json!({"upstreamCode": -32099}),
    },
    Row {
        name: "unauthorized",
        does: |heard| status(heard, 401),
        eras: BOTH,
        clients: [-32603; 3],
        words: "requires credentials that the gateway does not have",
        data: || json!({"reason": "needs_auth"}),
    },
    Row {
        name: "too-many",
        does: |_| Say::Status(429, vec![("Retry-After", "7".to_owned())], Value::Null),
        eras: BOTH,
        clients: [-32603; 3],
        words: "",
        data: || json!({"retryAfterMs": 7000}),
    },
    Row {
        name: "unavailable",
        does: |_| Say::Status(503, vec![("Retry-After", "7".to_owned())], Value::Null),
        eras: BOTH,
        clients: [-32603; 3],
        words: "",
        data: || json!({"retryAfterMs": 7000}),
    },
    Row {
        name: "lost",
        does: |_| Say::Close,
        eras: BOTH,
        clients: [-32603; 3],
        words: "the outcome is unknown",
        data: || json!({"reason": "connection_lost"}),
    },
];

fn of_name(heard: &HeardMessage) -> Option<&'static Row> {
    let name = heard.body["params"]["name"].as_str().unwrap_or_default();
    ROWS.iter().find(|row| heard.method() == "tools/call" && row.name == name)
}

fn server(era: &'static str) -> impl Fn(&HeardMessage) -> Say + Send + Sync {
    let names: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
    let modern = modern_with(names.iter().map(|name| tool(name)).collect());
    let legacy = legacy("2025-11-25", &names);
    move |heard| match (of_name(heard), era) {
        (Some(row), _) => (row.does)(heard),
        (None, "modern") => modern(heard),
        (None, _) => legacy(heard),
    }
}

fn is_as_wanted(row: &Row, code: i64, answer: &Answer) -> Result<(), String> {
    let whole = answer.json();
    let error = &whole["error"];
    let message = error["message"].as_str().unwrap_or_default();
    let data = (row.data)();
    let mut members = data.as_object().into_iter().flatten();
    let is_good = error["code"] == code
        && message.contains(row.words)
        && members.all(|(name, value)| error["data"][name] == *value)
        && ![401, 403, 404, 429].contains(&answer.status)
        && (code == -32042 || !whole.to_string().contains("secret-page"));
    if is_good { Ok(()) } else { Err(format!("wanted {code}, got {} {whole}", answer.status)) }
}

#[tokio::test]
async fn a_servers_errors_are_what_each_client_understands() {
    let mut wrong = Vec::new();
    for era in BOTH {
        let upstream = Upstream::http(server(era)).await;
        // The default breaker would open after these failures.
        let config = upstream.with(json!({"breaker": {"failures": 1000}}));
        let gate = Gate::start(json!({"servers": {"a": config}})).await;
        let new = gate.session("/mcp", "2025-11-25").await;
        let old = gate.session("/mcp", "2025-06-18").await;
        for row in ROWS.iter().filter(|row| row.eras.contains(era)) {
            let params = json!({"name": format!("a__{}", row.name), "arguments": {}});
            let requests = [
                Request::modern("/mcp", "tools/call", params.clone()),
                Request::legacy("/mcp", &new.id, 5, "tools/call", &params),
                Request::legacy("/mcp", &old.id, 5, "tools/call", &params),
            ];
            for (at, request) in requests.iter().enumerate() {
                let before = upstream.count("tools/call");
                let answer = request.send(gate.address).await;
                if let Err(why) = is_as_wanted(row, row.clients[at], &answer) {
                    wrong.push(format!("{era} {} client {at}: {why}", row.name));
                }
                // Only calls that the server has certainly not executed may be retried once.
                let made = upstream.count("tools/call") - before;
                let most = if row.name == "header-mismatch" { 2 } else { 1 };
                if made > most {
                    wrong.push(format!("{era} {} client {at}: {made} calls", row.name));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
