//! A client of either era at an endpoint, for tests that expect the same of both.

use super::{Answer, Gate, Session, Value, json};

pub enum Client<'a> {
    Modern(&'a Gate, &'a str),
    Legacy(Session<'a>),
}

impl<'a> Client<'a> {
    /// Returns a modern client, and a legacy client with a session.
    pub async fn both(gate: &'a Gate, path: &'a str) -> [Self; 2] {
        [Self::Modern(gate, path), Self::Legacy(gate.session(path, "2025-11-25").await)]
    }

    pub async fn ask(&self, method: &str, params: Value) -> Answer {
        match self {
            Self::Modern(gate, path) => gate.modern(path, method, params).await,
            Self::Legacy(session) => session.ask(method, params).await,
        }
    }

    pub async fn call(&self, name: &str, arguments: Value) -> Answer {
        self.ask("tools/call", json!({"name": name, "arguments": arguments})).await
    }

    /// Calls a tool; returns its text, and whether it is an error.
    pub async fn text(&self, name: &str, arguments: Value) -> (String, bool) {
        let result = self.call(name, arguments).await.result();
        let text = result["content"][0]["text"].as_str().unwrap_or_default().to_owned();
        (text, result["isError"] == true)
    }

    /// Returns the names of the listed tools.
    pub async fn tools(&self) -> Vec<String> {
        let result = self.ask("tools/list", json!({})).await.result();
        let tools = result["tools"].as_array().unwrap().iter();
        tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }
}
