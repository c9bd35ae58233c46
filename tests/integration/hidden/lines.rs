//! Access over one connection for all messages: `lockgate stdio` in both eras, and HTTP+SSE.

use super::offer::{PROMPTS, RESOURCES, TOOLS};
use super::ways::Tally;
use super::*;
use crate::stdio::Pipe;

/// An open connection.
pub enum Line<'a> {
    Stdio { pipe: Box<Pipe>, modern: bool },
    Sse { stream: Box<Stream>, gate: &'a Gate, key: &'a str, post: String },
}

const HELLO: &str = r#"{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
const READY: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

impl<'a> Line<'a> {
    /// Opens a session over HTTP+SSE.
    pub async fn sse(gate: &'a Gate, key: &'a str) -> Self {
        let open = Request::bare("GET", "/sse", "").with("Authorization", &format!("Bearer {key}"));
        let mut stream = Box::new(open.open(gate.address).await);
        let first = stream.block().await.unwrap();
        let post =
            first.lines().find_map(|line| line.strip_prefix("data:")).unwrap().trim().to_owned();
        let mut line = Self::Sse { stream, gate, key, post };
        line.say(HELLO).await;
        assert_eq!(line.hear().await["id"], "hello");
        line.say(READY).await;
        line
    }

    /// Starts a separate gateway with the local user as its client.
    pub async fn stdio(config: Value, modern: bool) -> Self {
        let mut line = Self::Stdio { pipe: Box::new(Pipe::start(config)), modern };
        if !modern {
            line.say(HELLO).await;
            assert_eq!(line.hear().await["id"], "hello");
            line.say(READY).await;
        }
        line
    }

    async fn say(&mut self, text: &str) {
        match self {
            Self::Stdio { pipe, .. } => pipe.say(text).await,
            Self::Sse { gate, key, post, .. } => {
                let request = Request::bare("POST", post, text)
                    .with("Authorization", &format!("Bearer {key}"));
                assert_eq!(request.send(gate.address).await.status, 202);
            }
        }
    }

    async fn hear(&mut self) -> Value {
        match self {
            Self::Stdio { pipe, .. } => pipe.hear().await,
            Self::Sse { stream, .. } => stream.next().await.unwrap(),
        }
    }

    async fn ask(&mut self, method: &str, params: Value) -> Value {
        match self {
            Self::Stdio { pipe, modern: true } => pipe.modern(json!(1), method, params).await,
            _ => {
                let text = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
                    .to_string();
                self.say(&text).await;
                loop {
                    let message = self.hear().await;
                    if message["id"] == 1 {
                        return message;
                    }
                }
            }
        }
    }

    async fn list(&mut self, method: &str, member: &str, key: &str) -> Vec<String> {
        let listed = self.ask(method, json!({})).await;
        let items = listed["result"][member].as_array().cloned().unwrap_or_default();
        items.iter().filter_map(|item| item[key].as_str()).map(str::to_owned).collect()
    }

    /// Checks that listed items work and that others get the response of missing items.
    pub async fn try_all(&mut self, about: &str, tally: &mut Tally) {
        let named = |own: &str| ["a", "b"].map(|slug| format!("{slug}__{own}"));
        let tools: Vec<String> =
            TOOLS.iter().flat_map(|own| named(own)).chain(["system__info".into()]).collect();
        let prompts: Vec<String> = PROMPTS.iter().flat_map(|own| named(own)).collect();
        let uris = RESOURCES
            .iter()
            .flat_map(|own| ["a", "b"].map(|slug| format!("{slug}+{own}")))
            .collect();
        for (list, member, method, key, names, unknown) in [
            ("tools/list", "tools", "tools/call", "name", tools, "zzz__no_such"),
            ("prompts/list", "prompts", "prompts/get", "name", prompts, "zzz__no_such"),
            ("resources/list", "resources", "resources/read", "uri", uris, "zzz+note://none"),
        ] {
            let listed = self.list(list, member, key).await;
            let none =
                self.ask(method, json!({key: unknown})).await.to_string().replace(unknown, "NAME");
            for name in names {
                let answer = self.ask(method, json!({key: name})).await;
                let works = answer.get("result").is_some();
                assert_eq!(works, listed.contains(&name), "{method} {name}: {answer}: {about}");
                if works {
                    tally.used += 1;
                } else {
                    tally.hidden += 1;
                    assert_eq!(
                        answer.to_string().replace(&name, "NAME"),
                        none,
                        "{method} {name}: {about}"
                    );
                }
            }
        }
    }
}
