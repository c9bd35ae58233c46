//! Three gateways on one PostgreSQL and one Redis, without affinity: each request of a client goes
//! to the next gateway, and the results equal those of a single one. When one is killed under load,
//! no response is wrong, no call is repeated, and clients learn which calls may have run.

use std::cell::Cell;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::approvals::decision;
use crate::compatibility::Server;
use crate::connections::free_port;
use crate::fleet::redis::Redis;
use crate::principals::By;
use crate::replicas::postgres::Postgres;
use crate::rig::client::{Answer, Request, Stream};
use crate::rig::gate::command;
use crate::rig::upstream::{legacy, modern};
use crate::rig::{Gate, HeardMessage, Say, Upstream, Value, fixture, json, signal, until};

const SECRET: &str = "5b0f8c1e9ad34672f1ac0e5b79436281";
const WATCHED: &str = "m+test://watched-resource";
const TASKS: &str = "io.modelcontextprotocol/tasks";

/// Gateways that are peers and share a keys file.
pub(crate) struct Replicas {
    pub(crate) gates: Vec<Gate>,
    pub(crate) folder: tempfile::TempDir,
    pub(crate) ann: String,
    /// The key of an approver.
    pub(crate) bob: String,
}

impl Replicas {
    /// Starts `count` gateways with these policies and additional settings.
    pub(crate) async fn start(count: usize, policies: &str, more: &Value) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let [keys, policy] = ["keys.yaml", "policy.yaml"].map(|name| folder.path().join(name));
        let make_key = |name: &str, more: &[&str]| {
            let mut make = command();
            make.args(["keys", "create", name, "--json", "--file"]).arg(&keys).args(more);
            let made = make.output().unwrap();
            assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
            let made: Value = serde_json::from_slice(&made.stdout).unwrap();
            made["key"].as_str().unwrap().to_owned()
        };
        let ann = make_key("ann", &[]);
        let bob = make_key("bob", &["--role", "approver"]);
        let allow = "policies:\n  - { name: all, effect: allow }\n";
        std::fs::write(&policy, format!("{allow}{policies}")).unwrap();
        let ports: Vec<u16> = (0..count).map(|_| free_port()).collect();
        let peers: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        let mut gates = Vec::new();
        for address in &peers {
            let mut config = json!({"listen": address, "secret": SECRET,
                "auth": {"keys_file": keys}, "policy": {"files": [policy]},
                "replicas": {"address": address, "peers": peers}});
            for (key, value) in more.as_object().unwrap() {
                config[key] = value.clone();
            }
            gates.push(Gate::start(config).await);
        }
        Self { gates, folder, ann, bob }
    }

    pub(crate) fn at(&self, gate: usize) -> SocketAddr {
        self.gates[gate].address
    }

    /// Returns how often a gateway has forwarded an answer.
    pub(crate) fn sent_on(&self, at: usize) -> usize {
        self.gates[at].log().matches("answer forwarded to the gateway").count()
    }

    pub(crate) async fn kill(&mut self, at: usize) {
        signal(self.gates[at].pid(), rustix::process::Signal::KILL);
        self.gates[at].ended().await;
    }
}

/// Opens a session of a client with elicitation.
pub(crate) async fn open_session(at: SocketAddr, key: &str) -> String {
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "test", "version": "1"}});
    let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
    let begun = Request::bare("POST", "/mcp", body.to_string()).by(key).send(at).await;
    begun.header("mcp-session-id").expect("a session").to_owned()
}

/// Returns a client's answer to a question on a stream.
pub(crate) fn reply(key: &str, session: &str, question: &Value, result: &Value) -> Request {
    let body = json!({"jsonrpc": "2.0", "id": question["id"], "result": result});
    let request = Request::bare("POST", "/mcp", body.to_string()).by(key);
    request.with("Mcp-Session-Id", session)
}

/// Returns a modern call of a client with elicitation and tasks, with additional members.
pub(crate) fn modern_call(key: &str, tool: &str, arguments: &Value, more: &Value) -> Request {
    let mut params = json!({"name": tool, "arguments": arguments, "_meta": able()});
    for (key, value) in more.as_object().unwrap() {
        params[key] = value.clone();
    }
    Request::modern("/mcp", "tools/call", params).by(key)
}

fn able() -> Value {
    let capabilities = json!({"elicitation": {"form": {}}, "extensions": {TASKS: {}}});
    json!({"io.modelcontextprotocol/clientCapabilities": capabilities})
}

/// Returns the members of the next round, with the same answer to every question.
fn next_round(asked: &Value, answer: &Value) -> Value {
    let mut responses = json!({});
    for key in asked["inputRequests"].as_object().expect("questions").keys() {
        responses[key] = answer.clone();
    }
    json!({"requestState": asked["requestState"], "inputResponses": responses})
}

fn accept(content: Value) -> Value {
    json!({"action": "accept", "content": content})
}

/// Returns the text of a question, with the same name for every caller.
fn say_question(question: &Value) -> String {
    let words = question["params"]["message"].as_str().unwrap();
    let mut lines: Vec<&str> = words.lines().collect();
    for line in &mut lines {
        if line.starts_with("Caller: ") {
            *line = "Caller: ann";
        }
    }
    lines.join("\n")
}

/// A client that sends each request to the next gateway.
struct Tour<'a> {
    gates: &'a [Gate],
    key: &'a str,
    turn: Cell<usize>,
}

impl Tour<'_> {
    fn next(&self) -> SocketAddr {
        let turn = self.turn.get();
        self.turn.set(turn + 1);
        self.gates[turn % self.gates.len()].address
    }

    async fn modern(&self, method: &str, mut params: Value) -> Value {
        params["_meta"] = able();
        let request = Request::modern("/mcp", method, params).by(self.key);
        request.send(self.next()).await.result()
    }

    async fn call(&self, tool: &str, arguments: &Value, more: &Value) -> Value {
        let call = modern_call(self.key, tool, arguments, more);
        call.send(self.next()).await.result()
    }

    /// Calls a tool and answers its questions round by round. Returns the questions and the result.
    async fn dialogue(&self, tool: &str, arguments: Value, answers: &[Value]) -> Value {
        let mut result = self.call(tool, &arguments, &json!({})).await;
        let mut asked = Vec::new();
        for answer in answers {
            assert_eq!(result["resultType"], "input_required", "{tool}: {result}");
            let requests = result["inputRequests"].as_object().unwrap();
            asked.extend(requests.values().map(say_question));
            result = self.call(tool, &arguments, &next_round(&result, answer)).await;
        }
        json!({"asked": asked, "said": result["content"][0]["text"]})
    }

    async fn legacy(&self, session: &str, method: &str, params: Value) -> Answer {
        let request = Request::legacy("/mcp", session, 7, method, &params).by(self.key);
        request.send(self.next()).await
    }

    /// Does the same in a session: the call's stream is at one gateway, the answers go to others.
    async fn legacy_dialogue(
        &self,
        session: &str,
        (tool, arguments): (&str, Value),
        answers: &[Value],
    ) -> Value {
        let params = json!({"name": tool, "arguments": arguments});
        let call = Request::legacy("/mcp", session, 3, "tools/call", &params).by(self.key);
        let mut stream = call.open(self.next()).await;
        let mut asked = Vec::new();
        for answer in answers {
            let question = stream.next().await.unwrap();
            asked.push(say_question(&question));
            let taken = reply(self.key, session, &question, answer).send(self.next()).await;
            assert_eq!(taken.status, 202, "{tool}: {}", taken.text());
        }
        let last = stream.next().await.unwrap();
        json!({"asked": asked, "said": last["result"]["content"][0]["text"]})
    }

    /// Reads a list page by page. Returns the names and the number of pages.
    async fn pages(&self, session: Option<&str>) -> Value {
        let mut names = Vec::new();
        let (mut cursor, mut pages) = (Value::Null, 0);
        loop {
            let params = if cursor.is_null() { json!({}) } else { json!({"cursor": cursor}) };
            let page = match session {
                None => self.modern("tools/list", params).await,
                Some(session) => self.legacy(session, "tools/list", params).await.result(),
            };
            pages += 1;
            names.extend(page["tools"].as_array().unwrap().iter().map(|tool| tool["name"].clone()));
            cursor = page["nextCursor"].clone();
            if cursor.is_null() {
                return json!({"pages": pages, "names": names});
            }
        }
    }

    /// Polls a task until it ends and answers its questions. Returns its states and its result.
    async fn follow_task(&self, tool: &str, arguments: Value, answer: &Value) -> Value {
        let made = self.call(tool, &arguments, &json!({})).await;
        assert_eq!(made["resultType"], "task", "{made}");
        let id = made["taskId"].clone();
        let mut states = Vec::new();
        let mut has_answered = false;
        let ended = until("the task ends", async || {
            let task = self.modern("tasks/get", json!({"taskId": id})).await;
            if states.last() != Some(&task["status"]) {
                states.push(task["status"].clone());
            }
            if task["status"] == "input_required" && !has_answered {
                has_answered = true;
                let mut responses = json!({});
                for key in task["inputRequests"].as_object().unwrap().keys() {
                    responses[key] = answer.clone();
                }
                let update = json!({"taskId": id, "inputResponses": responses});
                self.modern("tasks/update", update).await;
            }
            let text = task["result"]["content"][0]["text"].clone();
            (task["status"] == "completed").then_some(text)
        })
        .await;
        json!({"states": states, "ended": ended})
    }
}

/// Returns the results of a modern client by step.
async fn play_modern(tour: &Tour<'_>) -> Vec<(&'static str, Value)> {
    let yes = accept(json!({"ok": true}));
    let ann = accept(json!({"username": "Ann", "email": "ann@example.com"}));
    let [name, colour] = [json!({"name": "Ann"}), json!({"color": "red"})].map(accept);
    let approve = decision("approve")["approval"].clone();
    let mut told = vec![("pages", tour.pages(None).await)];
    told.push(("a call", tour.dialogue("m__test_simple_text", json!({}), &[]).await));
    let state = "m__test_input_required_result_request_state";
    told.push(("a state", tour.dialogue(state, json!({}), &[yes]).await));
    let rounds = "m__test_input_required_result_multi_round";
    told.push(("two rounds", tour.dialogue(rounds, json!({}), &[name, colour]).await));
    let message = json!({"message": "Who?"});
    let question = tour.dialogue("f__test_elicitation", message, &[ann]).await;
    told.push(("a question of a legacy server", question));
    let greet = json!({"name": "Ann"});
    told.push(("an approval", tour.dialogue("m__greet", greet, &[approve]).await));
    let quick = json!({"seconds": 1, "label": "it"});
    told.push(("a task", tour.follow_task("m__slow_compute", quick, &Value::Null).await));
    let delete = json!({"filename": "f"});
    let confirm = accept(json!({"confirmed": true, "ok": true}));
    told.push(("a task that asks", tour.follow_task("m__confirm_delete", delete, &confirm).await));
    let wanted = json!({"notifications":
        {"toolsListChanged": true, "resourceSubscriptions": [WATCHED]}, "_meta": able()});
    let listen = Request::modern("/mcp", "subscriptions/listen", wanted).by(tour.key);
    let mut stream = listen.open(tour.next()).await;
    let begun = stream.next().await.unwrap()["method"].clone();
    let touched = tour.call("m__test_trigger_resource_update", &json!({}), &json!({})).await;
    let heard = stream.next().await.unwrap();
    let heard = json!([begun, heard["method"], heard["params"]["uri"], touched["content"]]);
    told.push(("a subscription", heard));
    told
}

/// Returns the results of a legacy client in a session, by step.
async fn play_legacy(tour: &Tour<'_>) -> Vec<(&'static str, Value)> {
    let ann = accept(json!({"username": "Ann", "email": "ann@example.com"}));
    let name = accept(json!({"name": "Ann"}));
    let approve = decision("approve")["approval"].clone();
    let session = open_session(tour.next(), tour.key).await;
    let mut told = vec![("pages", tour.pages(Some(&session)).await)];
    let call = json!({"name": "m__test_simple_text", "arguments": {}});
    let called = tour.legacy(&session, "tools/call", call).await.result();
    told.push(("a call", called["content"].clone()));
    for (step, tool, arguments, answer) in [
        ("a question", "f__test_elicitation", json!({"message": "Who?"}), ann),
        (
            "a question of a modern server",
            "m__test_input_required_result_elicitation",
            json!({}),
            name,
        ),
        ("an approval", "m__greet", json!({"name": "Ann"}), approve),
    ] {
        let said = tour.legacy_dialogue(&session, (tool, arguments), &[answer]).await;
        told.push((step, said));
    }
    let run = json!({"name": "m__slow_compute", "arguments": {"seconds": 0, "label": "it"}});
    let run = tour.legacy(&session, "tools/call", run).await.result();
    told.push(("a tool that may be a task", run["content"].clone()));
    let end = Request::bare("DELETE", "/mcp", "").by(tour.key).with("Mcp-Session-Id", &session);
    told.push(("the end", end.send(tour.next()).await.status.into()));
    for _ in tour.gates {
        told.push(("after it", tour.legacy(&session, "ping", json!({})).await.status.into()));
    }
    told.truncate(8);
    told
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_replicas_give_the_same_results_as_one() {
    let (Some(database), Some(redis)) = (Postgres::start(), Redis::start()) else { return };
    let policies = "  - { name: sure, effect: ask, what: { tools: [m/greet] } }
  - { name: calls, effect: deny, what: { tools: ['*'] }, rate: { per_minute: 100000 } }
";
    let mut results = Vec::new();
    for count in [1, 3] {
        let server = Server::start("2026-07-28").await;
        let servers = json!({"f": fixture(&["--era", "legacy"]), "m": {"url": server.url}});
        let more = json!({"servers": servers, "limits": {"page_items": 10},
            "store": {"url": database.url(), "keys": ["a-key-of-the-ring-that-is-long-enough"]},
            "redis": {"url": redis.url()}});
        let replicas = Replicas::start(count, policies, &more).await;
        let tour = Tour { gates: &replicas.gates, key: &replicas.ann, turn: Cell::new(0) };
        let mut result = play_modern(&tour).await;
        result.extend(play_legacy(&tour).await);
        results.push(result);
        if count == 3 {
            let sent: usize = (0..3).map(|at| replicas.sent_on(at)).sum();
            assert!(sent >= 4, "answers went to other gateways {sent} times");
        }
    }
    let [one, three] = results.try_into().unwrap();
    for (one, three) in one.iter().zip(&three) {
        assert_eq!(one, three);
        let text = one.1.to_string();
        assert!(!text.contains("null"), "{}: {text}", one.0);
    }
    assert_eq!((one.len(), three.len()), (17, 17));
    assert!(one[0].1["pages"].as_u64().unwrap() > 3, "{}", one[0].1);
}

/// Number of runs of each call, by the id in its arguments.
type Runs = Arc<Mutex<HashMap<String, usize>>>;

fn id_of(heard: &HeardMessage) -> String {
    heard.body["params"]["arguments"]["call"].as_str().unwrap_or_default().to_owned()
}

fn note_run(runs: &Runs, id: &str) {
    *runs.lock().unwrap().entry(id.to_owned()).or_default() += 1;
}

fn done(id: &str) -> Value {
    json!({"content": [{"type": "text", "text": format!("done {id}")}]})
}

/// A legacy stdio server with a tool `ask` that asks a question first. Calls count on arrival.
fn count_legacy(runs: Runs) -> impl Fn(&HeardMessage) -> Say + Send + Sync {
    let plain = legacy("2025-11-25", &["ask", "work"]);
    let asked = Mutex::new(HashMap::<String, Value>::new());
    move |heard| match (heard.method(), heard.body["params"]["name"].as_str()) {
        ("tools/call", Some("ask")) => {
            let id = id_of(heard);
            note_run(&runs, &id);
            asked.lock().unwrap().insert(id.clone(), heard.body["id"].clone());
            let schema = json!({"type": "object", "properties": {"word": {"type": "string"}}});
            let params = json!({"message": "Which?", "requestedSchema": schema});
            let ask = json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create",
                "params": params});
            Say::Text("", ask.to_string().into_bytes())
        }
        ("tools/call", Some("work")) => {
            let id = id_of(heard);
            note_run(&runs, &id);
            Say::Late(Duration::from_millis(20), heard.result(done(&id)))
        }
        ("", _) => {
            let Some(id) = heard.body["id"].as_str() else { return plain(heard) };
            let Some(call) = asked.lock().unwrap().remove(id) else { return plain(heard) };
            let done = json!({"jsonrpc": "2.0", "id": call, "result": done(id)});
            Say::Text("", done.to_string().into_bytes())
        }
        _ => plain(heard),
    }
}

/// A modern server with a tool `ask` that asks a question first and runs in the second round.
fn count_modern(runs: Runs) -> impl Fn(&HeardMessage) -> Say + Send + Sync {
    let plain = modern(&["ask", "work", "wipe"]);
    move |heard| match (heard.method(), heard.body["params"]["name"].as_str()) {
        ("tools/call", Some("ask")) if heard.body["params"].get("inputResponses").is_none() => {
            let schema = json!({"type": "object", "properties": {"word": {"type": "string"}}});
            let params = json!({"mode": "form", "message": "Which?", "requestedSchema": schema});
            let asked = json!({"word": {"method": "elicitation/create", "params": params}});
            Say::Json(heard.result(json!({"resultType": "input_required",
                "inputRequests": asked, "requestState": id_of(heard)})))
        }
        ("tools/call", _) => {
            let id = id_of(heard);
            note_run(&runs, &id);
            let mut result = done(&id);
            result["resultType"] = "complete".into();
            Say::Late(Duration::from_millis(20), heard.result(result))
        }
        _ => plain(heard),
    }
}

/// The result of a call for its client.
#[derive(Clone, Debug, PartialEq, Eq)]
enum End {
    Done,
    /// The gateway was gone, so the call was not sent.
    NotSent,
    /// The connection broke, as at a killed gateway.
    Broken,
    /// The error reports that the gateway is gone, and whether the call may have run.
    Told {
        may_have_run: bool,
    },
}

/// Sends a request. Returns its result, or why there is none.
async fn attempt(at: SocketAddr, request: &Request) -> Result<Value, End> {
    let Some(stream) = Stream::try_open(at, &request.bytes()).await else {
        return Err(End::NotSent);
    };
    let answer = stream.whole().await;
    let is_stream = answer.header("content-type").is_some_and(|kind| kind.contains("event"));
    let last =
        if is_stream { answer.events().pop() } else { serde_json::from_slice(&answer.body).ok() };
    let Some(said) = last else {
        assert!(answer.status == 0 || answer.status == 200, "{} {}", answer.status, answer.text());
        return Err(End::Broken);
    };
    if said.get("result").is_some() {
        return Ok(said["result"].clone());
    }
    Err(read_loss(answer.status, &said))
}

/// Reads the error for a call after the loss of its gateway. Any other error fails the test.
fn read_loss(status: u16, said: &Value) -> End {
    let data = &said["error"]["data"];
    assert_eq!((status, &data["reason"]), (503, &json!("replica")), "{said}");
    let may_have_run = data["mayHaveRun"].as_bool().expect("a word on whether it ran");
    let words = said["error"]["message"].as_str().unwrap();
    assert_eq!(words.contains("may have") || words.contains("unknown"), may_have_run, "{words}");
    End::Told { may_have_run }
}

fn end_of(id: &str, result: &Value) -> End {
    assert_eq!(result["content"][0]["text"], format!("done {id}"), "{result}");
    End::Done
}

/// Makes a modern call with two rounds at different gateways. If a gateway is gone, the client uses
/// the next one.
async fn run_modern([ask, answer, last]: [SocketAddr; 3], key: &str, tool: &str, id: &str) -> End {
    let arguments = json!({"call": id});
    let first = match attempt(ask, &modern_call(key, tool, &arguments, &json!({}))).await {
        Ok(result) if result["resultType"] != "input_required" => return end_of(id, &result),
        Ok(asked) => asked,
        Err(end) => return end,
    };
    match finish_modern(answer, key, (tool, id), &first).await {
        End::NotSent => finish_modern(last, key, (tool, id), &first).await,
        end => end,
    }
}

async fn finish_modern(at: SocketAddr, key: &str, (tool, id): (&str, &str), asked: &Value) -> End {
    let is_approval = asked["inputRequests"].get("approval").is_some();
    let word = accept(json!({"word": "red"}));
    let answer = if is_approval { decision("approve")["approval"].clone() } else { word };
    let second = modern_call(key, tool, &json!({"call": id}), &next_round(asked, &answer));
    match attempt(at, &second).await {
        Ok(result) => end_of(id, &result),
        Err(end) => end,
    }
}

/// Makes a call in a session and answers its question at another gateway.
async fn run_legacy([ask, answer, last]: [SocketAddr; 3], key: &str, tool: &str, id: &str) -> End {
    let Some((session, mut stream, question)) = begin_legacy(ask, key, tool, id).await else {
        return End::Broken;
    };
    let mut end = finish_legacy(answer, (key, id), &session, &mut stream, &question).await;
    if end == End::NotSent {
        end = finish_legacy(last, (key, id), &session, &mut stream, &question).await;
    }
    let delete = Request::bare("DELETE", "/mcp", "").by(key).with("Mcp-Session-Id", &session);
    for at in [answer, last] {
        if let Some(sent) = Stream::try_open(at, &delete.bytes()).await
            && sent.whole().await.status == 204
        {
            break;
        }
    }
    end
}

/// Opens a session and starts a call that asks a question. Returns `None` if the gateway is gone.
async fn begin_legacy(
    at: SocketAddr,
    key: &str,
    tool: &str,
    id: &str,
) -> Option<(String, Stream, Value)> {
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "test", "version": "1"}});
    let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
    let begin = Request::bare("POST", "/mcp", body.to_string()).by(key);
    let begun = Stream::try_open(at, &begin.bytes()).await?.whole().await;
    let session = begun.header("mcp-session-id")?.to_owned();
    let params = json!({"name": tool, "arguments": {"call": id}});
    let call = Request::legacy("/mcp", &session, 3, "tools/call", &params).by(key);
    let mut stream = Stream::try_open(at, &call.bytes()).await?;
    let question = stream.next().await?;
    Some((session, stream, question))
}

async fn finish_legacy(
    at: SocketAddr,
    (key, id): (&str, &str),
    session: &str,
    stream: &mut Stream,
    question: &Value,
) -> End {
    let answer = reply(key, session, question, &accept(json!({"word": "red"})));
    let Some(sent) = Stream::try_open(at, &answer.bytes()).await else { return End::NotSent };
    let taken = sent.whole().await;
    match taken.status {
        202 => match stream.next().await {
            Some(last) => end_of(id, &last["result"]),
            None => End::Broken,
        },
        0 => End::Broken,
        status => read_loss(status, &taken.json()),
    }
}

/// State shared by the clients of the load.
struct Load {
    gates: Arc<Vec<SocketAddr>>,
    key: String,
    stops: Arc<AtomicBool>,
    ends: Arc<Mutex<HashMap<String, End>>>,
}

/// Makes calls one after another, each at the next gateways, until stopped.
async fn keep_calling(client: usize, load: Load) {
    let Load { gates, key, stops, ends } = load;
    let kinds = ["l__work", "m__work", "l__ask", "m__ask", "m__wipe", "session"];
    for call in 0.. {
        if stops.load(Ordering::Relaxed) {
            return;
        }
        let id = format!("{client}-{call}");
        let turn = client + call;
        let places = [0, 1, 2].map(|more| gates[(turn + more) % gates.len()]);
        let end = match kinds[turn / gates.len() % kinds.len()] {
            "session" => run_legacy(places, &key, "l__ask", &id).await,
            tool => run_modern(places, &key, tool, &id).await,
        };
        ends.lock().unwrap().insert(id, end);
    }
}

/// A call that waits for an answer when its gateway is killed.
enum Waiting {
    Modern(&'static str, Value),
    Legacy(String, Box<Stream>, Value),
}

/// Starts calls of each kind that wait at a gateway.
async fn park(at: SocketAddr, key: &str) -> Vec<(String, Waiting)> {
    let mut parked = Vec::new();
    for number in 0..4 {
        for tool in ["l__ask", "m__ask", "m__wipe"] {
            let id = format!("parked-{tool}-{number}");
            let call = modern_call(key, tool, &json!({"call": id}), &json!({}));
            let asked = call.send(at).await.result();
            parked.push((id, Waiting::Modern(tool, asked)));
        }
        let id = format!("parked-session-{number}");
        let (session, stream, question) = begin_legacy(at, key, "l__ask", &id).await.unwrap();
        parked.push((id, Waiting::Legacy(session, Box::new(stream), question)));
    }
    parked
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_is_killed_under_load_costs_no_wrong_answer_and_no_second_run() {
    let (Some(database), Some(redis)) = (Postgres::start(), Redis::start()) else { return };
    let runs = Runs::default();
    let old = Upstream::lines(count_legacy(Arc::clone(&runs))).await;
    let new = Upstream::http(count_modern(Arc::clone(&runs))).await;
    let policies = "  - { name: sure, effect: ask, what: { words: [wipe] } }
  - { name: calls, effect: deny, what: { tools: ['*'] }, rate: { per_minute: 100000 } }
";
    let more = json!({
        "servers": {"l": old.with(json!({"client_connections": 64})), "m": new.config()},
        "store": {"url": database.url(), "keys": ["a-key-of-the-ring-that-is-long-enough"]},
        "redis": {"url": redis.url()}});
    let mut replicas = Replicas::start(3, policies, &more).await;
    let gates: Arc<Vec<SocketAddr>> = Arc::new((0..3).map(|at| replicas.at(at)).collect());
    let key = replicas.ann.clone();
    let parked = park(gates[0], &key).await;

    let stops = Arc::new(AtomicBool::new(false));
    let ends = Arc::new(Mutex::new(HashMap::new()));
    let mut clients = Vec::new();
    for client in 0..8 {
        let load = Load {
            gates: Arc::clone(&gates),
            key: key.clone(),
            stops: Arc::clone(&stops),
            ends: Arc::clone(&ends),
        };
        clients.push(tokio::spawn(keep_calling(client, load)));
    }
    let count = || ends.lock().unwrap().len();
    until("calls go on", async || (count() > 40).then_some(())).await;
    replicas.kill(0).await;
    let killed_at = count();
    // The waiting calls are answered at the other gateways while the load continues.
    for (number, (id, waiting)) in parked.into_iter().enumerate() {
        let at = gates[1 + number % 2];
        let (end, wanted) = match waiting {
            Waiting::Modern(tool, asked) => {
                let wanted = match tool {
                    "l__ask" => End::Told { may_have_run: true },
                    "m__wipe" => End::Told { may_have_run: false },
                    _ => End::Done,
                };
                (finish_modern(at, &key, (tool, &id), &asked).await, wanted)
            }
            Waiting::Legacy(session, mut stream, question) => (
                finish_legacy(at, (&key, &id), &session, &mut stream, &question).await,
                End::Told { may_have_run: true },
            ),
        };
        assert_eq!(end, wanted, "{id}");
        ends.lock().unwrap().insert(id, end);
    }
    until("calls go on without it", async || (count() > killed_at + 40).then_some(())).await;
    stops.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.unwrap();
    }
    judge(&ends.lock().unwrap(), &runs.lock().unwrap());
}

/// Compares the results of the clients with the runs.
fn judge(ends: &HashMap<String, End>, runs: &HashMap<String, usize>) {
    let mut counts: HashMap<String, usize> = HashMap::new();
    for (id, end) in ends {
        let ran = runs.get(id).copied().unwrap_or(0);
        *counts.entry(format!("{end:?}")).or_default() += 1;
        assert!(ran <= 1, "{id} ran {ran} times: {end:?}");
        match end {
            End::Done => assert_eq!(ran, 1, "{id}"),
            End::Told { may_have_run: false } => assert_eq!(ran, 0, "{id} ran"),
            // A first request that was not sent has not run, but a second round belongs to a call
            // that may have started.
            End::NotSent | End::Broken | End::Told { may_have_run: true } => {}
        }
    }
    assert!(runs.keys().all(|id| ends.contains_key(id)), "every run is of a call that has ended");
    eprintln!("{} calls: {counts:?}", ends.len());
    assert!(counts["Done"] > 60, "{counts:?}");
}
