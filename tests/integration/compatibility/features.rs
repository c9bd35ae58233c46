//! A probe per feature. Each probe returns a table cell, and every cell other than `Yes` needs a
//! reason from the specification.

use std::fmt;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;

use super::client::Client;
use crate::rig::client::MODERN;
use crate::rig::{EVENT_TIMEOUT, json};

const WATCHED: &str = "test://watched-resource";

/// The support of a feature for a client.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    Yes,
    /// Supported in the named form.
    Adapted(&'static str),
    /// Not supported, for this reason.
    No(&'static str),
    /// A failure, with the observed response.
    Wrong(String),
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Yes => f.write_str("yes"),
            Self::Adapted(how) => write!(f, "yes: {how}"),
            Self::No(why) => write!(f, "no: {why}"),
            Self::Wrong(seen) => write!(f, "wrong: {seen}"),
        }
    }
}

type Probe = for<'a> fn(&'a mut Client<'_>, &'static str) -> BoxFuture<'a, Cell>;

pub struct Feature {
    pub name: &'static str,
    probe: Probe,
}

impl Feature {
    pub async fn probe(&self, client: &mut Client<'_>, server: &'static str) -> Cell {
        (self.probe)(client, server).await
    }
}

macro_rules! features {
    ($($name:literal => $probe:ident,)*) => {
        pub const FEATURES: &[Feature] = &[$(Feature {
            name: $name,
            probe: |client, server| Box::pin($probe(client, server)),
        },)*];
    };
}

features! {
    "Tools" => tools,
    "Structured content" => structured_content,
    "Audio" => audio,
    "Links to resources" => resource_links,
    "Prompts" => prompts,
    "Resources and templates" => resources,
    "Completion" => completion,
    "Progress" => progress,
    "Log messages" => log_messages,
    "Updates of resources" => updates,
    "Changes of lists" => list_changes,
    "Questions to the user: forms" => forms,
    "Questions to the user: pages to open" => pages,
    "Questions to the client's model" => sampling,
    "Questions for roots" => roots,
    "Several rounds of questions" => rounds,
    "Cancellation" => cancellation,
    "Tasks" => tasks,
}

fn expect(is_good: bool, cell: Cell, seen: &impl fmt::Display) -> Cell {
    if is_good { cell } else { Cell::Wrong(format!("{seen:.300}")) }
}

async fn tools(client: &mut Client<'_>, _: &str) -> Cell {
    let listed = client.ask("tools/list", json!({})).await;
    let all = listed.result()["tools"].as_array().cloned().unwrap_or_default();
    let is_listed = all.iter().any(|tool| tool["name"] == "test_simple_text");
    let called = client.call("test_simple_text", json!({})).await;
    let is_good = is_listed && called.text().starts_with("This is a simple text");
    expect(is_good, Cell::Yes, &called.last)
}

async fn structured_content(client: &mut Client<'_>, _: &str) -> Cell {
    let called = client.call("test_structured_content", json!({})).await;
    let structured = &called.result()["structuredContent"];
    let has_text = called.text().contains("42");
    if client.revision < "2025-06-18" {
        let is_good = structured.is_null() && has_text;
        return expect(is_good, Cell::Adapted("as text"), &called.last);
    }
    expect(structured["answer"] == 42 && has_text, Cell::Yes, &called.last)
}

async fn audio(client: &mut Client<'_>, _: &str) -> Cell {
    let called = client.call("test_audio_content", json!({})).await;
    let block = &called.result()["content"][0];
    if client.revision < "2025-03-26" {
        let is_good = block["type"] != "audio" && called.is_good();
        return expect(is_good, Cell::Adapted("as another block"), &called.last);
    }
    expect(block["type"] == "audio", Cell::Yes, &called.last)
}

async fn resource_links(client: &mut Client<'_>, _: &str) -> Cell {
    let called = client.call("test_resource_link", json!({})).await;
    let block = &called.result()["content"][0];
    if client.revision < "2025-06-18" {
        let is_good = block["text"].as_str().is_some_and(|text| text.contains("static-text"));
        return expect(is_good, Cell::Adapted("as text"), &called.last);
    }
    expect(block["type"] == "resource_link", Cell::Yes, &called.last)
}

async fn prompts(client: &mut Client<'_>, _: &str) -> Cell {
    let listed = client.ask("prompts/list", json!({})).await;
    let all = listed.result()["prompts"].as_array().cloned().unwrap_or_default();
    let is_listed = all.iter().any(|prompt| prompt["name"] == "test_simple_prompt");
    let got = client.ask("prompts/get", json!({"name": "test_simple_prompt"})).await;
    expect(is_listed && got.result()["messages"].is_array(), Cell::Yes, &got.last)
}

async fn resources(client: &mut Client<'_>, _: &str) -> Cell {
    let listed = client.ask("resources/list", json!({})).await;
    let all = listed.result()["resources"].as_array().cloned().unwrap_or_default();
    let is_listed = all.iter().any(|resource| resource["uri"] == "test://static-text");
    let templates = client.ask("resources/templates/list", json!({})).await;
    let has_templates = templates.result()["resourceTemplates"][0].is_object();
    let read = client.ask("resources/read", json!({"uri": "test://template/7/data"})).await;
    let has_text = read.result()["contents"][0]["text"].is_string();
    expect(is_listed && has_templates && has_text, Cell::Yes, &read.last)
}

async fn completion(client: &mut Client<'_>, _: &str) -> Cell {
    let reference = json!({"type": "ref/resource", "uri": "test://template/{id}/data"});
    let argument = json!({"name": "id", "value": "1"});
    let params = json!({"ref": reference, "argument": argument});
    let completed = client.ask("completion/complete", params).await;
    let values = &completed.result()["completion"]["values"];
    expect(*values == json!(["1", "12", "123"]), Cell::Yes, &completed.last)
}

async fn progress(client: &mut Client<'_>, _: &str) -> Cell {
    let called = client.call("test_tool_with_progress", json!({})).await;
    let is_good = called.is_good() && called.has_heard("notifications/progress");
    expect(is_good, Cell::Yes, &called.last)
}

async fn log_messages(client: &mut Client<'_>, server: &str) -> Cell {
    let outside = client.outside().await;
    if !client.is_modern() {
        client.ask("logging/setLevel", json!({"level": "debug"})).await;
    }
    let called = client.call("test_tool_with_logging", json!({})).await;
    match outside {
        _ if called.has_heard("notifications/message") => Cell::Yes,
        // A legacy server may send the message outside calls.
        Some(mut stream) => {
            client.hear(&mut stream, "notifications/message").await;
            Cell::Yes
        }
        None if server < MODERN => Cell::No("log messages outside of calls are not forwarded"),
        None => Cell::Wrong(format!("{:.300}", called.last)),
    }
}

async fn updates(client: &mut Client<'_>, _: &str) -> Cell {
    let mut stream = client.listen(WATCHED).await;
    let called = client.call("test_trigger_resource_update", json!({"uri": WATCHED})).await;
    let heard = client.hear(&mut stream, "notifications/resources/updated").await;
    let is_good = called.is_good() && heard["params"]["uri"] == WATCHED;
    expect(is_good, Cell::Yes, &heard)
}

async fn list_changes(client: &mut Client<'_>, _: &str) -> Cell {
    let mut stream = client.listen(WATCHED).await;
    let called = client.call("test_trigger_tool_change", json!({})).await;
    let heard = client.hear(&mut stream, "notifications/tools/list_changed").await;
    expect(called.is_good(), Cell::Yes, &heard)
}

/// Returns why a client receives no question: its revision or its server's lacks the question.
fn no_question(client: &Client<'_>, server: &str, since: &str) -> Option<&'static str> {
    if client.revision < since {
        return Some("not in the client's revision");
    }
    (server < since).then_some("not in the server's revision")
}

async fn forms(client: &mut Client<'_>, server: &'static str) -> Cell {
    let called = client.call("test_elicitation", json!({"message": "Who?"})).await;
    question(client, server, "2025-06-18", &called, "action=accept")
}

async fn pages(client: &mut Client<'_>, server: &'static str) -> Cell {
    let called = client.call("test_elicitation_url", json!({})).await;
    question(client, server, "2025-11-25", &called, "action=accept")
}

async fn sampling(client: &mut Client<'_>, server: &'static str) -> Cell {
    let called = client.call("test_sampling", json!({"prompt": "Capital?"})).await;
    question(client, server, "2024-11-05", &called, "Paris")
}

async fn roots(client: &mut Client<'_>, server: &'static str) -> Cell {
    let called = client.call("test_input_required_result_list_roots", json!({})).await;
    question(client, server, "2024-11-05", &called, "file:///work")
}

async fn rounds(client: &mut Client<'_>, server: &'static str) -> Cell {
    let called = client.call("test_input_required_result_multi_round", json!({})).await;
    question(client, server, "2025-06-18", &called, "Ann likes Ann")
}

fn question(
    client: &Client<'_>,
    server: &str,
    since: &str,
    called: &super::client::Reply,
    words: &str,
) -> Cell {
    if called.is_good() && !called.asked.is_empty() && called.text().contains(words) {
        return Cell::Yes;
    }
    // A server that cannot ask gets an error, and the client still gets a response.
    let is_told = called.asked.is_empty() && !called.text().contains("action=accept");
    match no_question(client, server, since).filter(|_| is_told) {
        Some(why) => Cell::No(why),
        None => Cell::Wrong(format!("{:.300}", called.last)),
    }
}

async fn cancellation(client: &mut Client<'_>, _: &str) -> Cell {
    let before = client.call("test_cancelled_count", json!({})).await.text().to_owned();
    client.cancel("test_cancellation").await;
    let began = Instant::now();
    while began.elapsed() < EVENT_TIMEOUT {
        let now = client.call("test_cancelled_count", json!({})).await.text().to_owned();
        if now != before {
            return Cell::Yes;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Cell::Wrong("the server did not hear of it".into())
}

async fn tasks(client: &mut Client<'_>, server: &'static str) -> Cell {
    let arguments = json!({"seconds": 0, "label": "it"});
    if !client.is_modern() {
        let called = client.call("slow_compute", arguments).await;
        let cell = if server == MODERN {
            Cell::Adapted("the gateway waits for the task")
        } else {
            Cell::No("not supported by the server")
        };
        return expect(called.text().starts_with("Computed it"), cell, &called.last);
    }
    let called = client.call_with_tasks("slow_compute", arguments).await;
    if server != MODERN {
        let cell = Cell::No("not supported by the server");
        return expect(called.text().starts_with("Computed it"), cell, &called.last);
    }
    let id = called.result()["taskId"].as_str().unwrap_or_default().to_owned();
    let began = Instant::now();
    while began.elapsed() < EVENT_TIMEOUT {
        let now = client.look_at(&id).await;
        if now["status"] == "completed" {
            let text = &now["result"]["content"][0]["text"];
            let is_good = text.as_str().is_some_and(|text| text.starts_with("Computed it"));
            return expect(is_good, Cell::Yes, &now);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    expect(false, Cell::Yes, &called.last)
}
