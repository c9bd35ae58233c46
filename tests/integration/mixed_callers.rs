//! Calls of two users, of an administrator without an account, and at a server with a header for
//! all, interleaved and in both eras (row A-17): each request carries the credential of its caller.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::accounts::{User, World};
use crate::principals::{By, key};
use crate::rig::authority::Authority;
use crate::rig::client::Request;
use crate::rig::{HeardMessage, Say, Upstream, Value, json};

/// Returns the number of calls per era of the server: 5,000 before a release.
fn count_calls() -> usize {
    std::env::var("LOCKGATE_MIXED_CALLS").map_or(1_500, |calls| calls.parse().unwrap())
}

/// Calls in flight.
const RUNNING: usize = 16;
const STATIC: &str = "canary-secret-static";
const METHODS: [&str; 4] = ["tools/call", "prompts/get", "resources/read", "completion/complete"];

/// Returns the parameters of a call that names its caller.
fn params(method: &str, who: &str) -> Value {
    match method {
        "tools/call" => json!({"name": "t", "arguments": {"who": who}}),
        "prompts/get" => json!({"name": "p", "arguments": {"who": who}}),
        "resources/read" => json!({"uri": format!("test://{who}")}),
        _ => {
            json!({"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "who", "value": who}})
        }
    }
}

/// Returns the caller that a call names.
fn named(heard: &HeardMessage) -> Option<String> {
    let params = &heard.body["params"];
    let who = match heard.method() {
        "tools/call" | "prompts/get" => params["arguments"]["who"].as_str(),
        "resources/read" => params["uri"].as_str()?.strip_prefix("test://"),
        "completion/complete" => params["argument"]["value"].as_str(),
        _ => None,
    };
    who.map(str::to_owned)
}

/// Returns a result with a text, in the form of the method.
fn write_result(method: &str, text: &str) -> Value {
    let content = json!({"type": "text", "text": text});
    match method {
        "tools/call" => json!({"content": [content]}),
        "prompts/get" => json!({"messages": [{"role": "user", "content": content}]}),
        "resources/read" => json!({"contents": [{"uri": "test://r", "text": text}]}),
        _ => json!({"completion": {"values": [text]}}),
    }
}

fn read_result(method: &str, result: &Value) -> String {
    let place = match method {
        "tools/call" => "/content/0/text",
        "prompts/get" => "/messages/0/content/text",
        "resources/read" => "/contents/0/text",
        _ => "/completion/values/0",
    };
    result.pointer(place).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Returns a server with lists of each kind. `check` answers calls: the text of the result, or the
/// refusal.
fn script(
    is_modern: bool,
    check: impl Fn(&HeardMessage) -> Result<String, Say> + Send + Sync + 'static,
) -> impl Fn(&HeardMessage) -> Say + Send + Sync {
    let features = json!({"tools": {}, "prompts": {}, "resources": {}, "completions": {}});
    move |heard| {
        let mut result = match heard.method() {
            "server/discover" if is_modern => {
                json!({"supportedVersions": ["2026-07-28"], "capabilities": features})
            }
            "initialize" if !is_modern => json!({
                "protocolVersion": "2025-11-25", "capabilities": features,
                "serverInfo": {"name": "s", "version": "1"},
            }),
            "tools/list" => json!({"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}),
            "prompts/list" => json!({"prompts": [{"name": "p", "arguments": [{"name": "who"}]}]}),
            "resources/list" => json!({"resources": []}),
            "resources/templates/list" => {
                json!({"resourceTemplates": [{"name": "r", "uriTemplate": "test://{who}"}]})
            }
            method if METHODS.contains(&method) => match check(heard) {
                Ok(text) => write_result(method, &text),
                Err(refusal) => return refusal,
            },
            "" => return Say::Json(Value::Null),
            method if method.starts_with("notifications/") => return Say::Json(Value::Null),
            _ => return Say::Status(404, Vec::new(), heard.error(-32601, "no such method")),
        };
        if is_modern {
            result["resultType"] = "complete".into();
            result["ttlMs"] = 60_000.into();
            result["cacheScope"] = "private".into();
        }
        Say::Json(heard.result(result))
    }
}

/// Starts a server with accounts of users, which records requests with another credential.
async fn start_server(
    authority: &Authority,
    is_modern: bool,
    wrong: &Arc<Mutex<Vec<String>>>,
) -> Upstream {
    let (authority, wrong) = (authority.clone(), Arc::clone(wrong));
    let of_resource = authority.server(true);
    let answer = script(is_modern, move |heard| {
        let named = named(heard).unwrap_or_default();
        match authority.subject_of(heard) {
            Some((subject, _)) if subject == named => Ok(subject),
            // A token that has expired.
            None if heard.header("authorization").is_some_and(|header| {
                header.starts_with(&format!("Bearer canary-access-{named}-"))
            }) =>
            {
                Err(authority.challenge(401, &[]))
            }
            other => {
                wrong.lock().unwrap().push(format!("{named}: {other:?} {:?}", heard.headers));
                Err(authority.challenge(401, &[]))
            }
        }
    });
    let script = move |heard: &HeardMessage| match heard.verb.as_str() {
        "POST" => answer(heard),
        _ => of_resource(heard),
    };
    Upstream::verbs(script).await
}

struct Caller {
    name: &'static str,
    key: String,
    /// Sessions at both servers.
    sessions: [String; 2],
}

async fn open_session(world: &World, path: &str, key: &str) -> String {
    let client = json!({"name": "test", "version": "1"});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
    let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
    let begun = Request::bare("POST", path, body.to_string()).by(key).send(world.at()).await;
    begun.header("mcp-session-id").expect("a session").to_owned()
}

/// Makes a call of a caller, chosen by its number. Returns whether a result was expected.
async fn call(at: std::net::SocketAddr, caller: &Caller, number: usize) -> bool {
    let method = METHODS[number / 3 % 4];
    let is_static = number / 12 % 4 == 3;
    let is_legacy = number / 48 % 2 == 1;
    let path = if is_static { "/servers/s/mcp" } else { "/servers/a/mcp" };
    let mut params = params(method, caller.name);
    if number.is_multiple_of(5) {
        params["_meta"] = json!({"progressToken": number});
    }
    let request = if is_legacy {
        let session = &caller.sessions[usize::from(is_static)];
        let id = i64::try_from(number).unwrap();
        Request::legacy(path, session, id, method, &params)
    } else {
        Request::modern(path, method, params)
    };
    let stream = request.by(&caller.key).open(at).await;
    if number % 97 == 5 {
        // The client leaves, which cancels a modern call.
        return false;
    }
    let answer = stream.whole().await;
    let expected = match (is_static, caller.name) {
        (true, _) => "static",
        (false, "admin") => {
            assert!(answer.text().contains("/connect/a?link="), "{}", answer.text());
            assert!(!answer.text().contains("canary"), "{}", answer.text());
            return false;
        }
        (false, name) => name,
    };
    let found = read_result(method, &answer.result());
    assert_eq!(found, expected, "{method} of {}: {}", caller.name, answer.text());
    true
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_request_carries_the_credential_of_its_caller() {
    let calls = count_calls();
    for is_modern in [true, false] {
        let wrong = Arc::new(Mutex::new(Vec::new()));
        let authority = Authority::start().await;
        let server = Arc::new(start_server(&authority, is_modern, &wrong).await);
        authority.protect(&format!("http://{}/mcp", server.address));
        let unlike = Arc::clone(&wrong);
        let shared = Upstream::http(script(is_modern, move |heard| {
            let is_right =
                heard.header("x-static") == Some(STATIC) && heard.header("authorization").is_none();
            if !is_right {
                unlike.lock().unwrap().push(format!("static: {:?}", heard.headers));
            }
            Ok("static".into())
        }))
        .await;
        let world = World::start_for(
            authority,
            Arc::clone(&server),
            json!({
                "auth": {"keys_file": "keys.yaml"}, "policy": {"completions_per_minute": 100_000},
                "servers": {
                    "a": server.with(json!({"auth": {"type": "user"}})),
                    "s": shared.with(json!({"headers": {"X-Static": STATIC}})),
                },
            }),
        )
        .await;
        let mut callers = Vec::new();
        for (name, more) in [("anna", &[][..]), ("ben", &[]), ("admin", &["--role", "admin"][..])] {
            let key = key(&world.gate, name, more).await;
            let mut user = User::of_key(&world, &key);
            if name != "admin" {
                user.connect(name).await;
            }
            let sessions = [
                open_session(&world, "/servers/a/mcp", &key).await,
                open_session(&world, "/servers/s/mcp", &key).await,
            ];
            callers.push(Caller { name, key, sessions });
        }
        let callers = Arc::new(callers);
        let (next, done) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let mut running = tokio::task::JoinSet::new();
        let began = std::time::Instant::now();
        for _ in 0..RUNNING {
            let callers = Arc::clone(&callers);
            let (next, done) = (Arc::clone(&next), Arc::clone(&done));
            let (at, authority) = (world.at(), world.authority.clone());
            running.spawn(async move {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= calls {
                        return;
                    }
                    if number % 1000 == 500 {
                        authority.expire(if number % 2000 == 500 { "ben" } else { "anna" });
                    }
                    let is_done = call(at, &callers[number % callers.len()], number).await;
                    done.fetch_add(usize::from(is_done), Ordering::Relaxed);
                }
            });
        }
        while let Some(ended) = running.join_next().await {
            ended.unwrap();
        }
        eprintln!("{calls} calls in {:?}, modern server: {is_modern}", began.elapsed());
        assert_eq!(*wrong.lock().unwrap(), Vec::<String>::new());
        assert!(done.load(Ordering::Relaxed) > calls / 2, "{done:?}");
        for method in METHODS {
            assert!(server.count(method) > calls / 16, "{method}: {}", server.count(method));
        }
        world.assert_no_canary(&[]);
    }
}
