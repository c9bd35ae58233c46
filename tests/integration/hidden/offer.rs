//! Servers with random subsets of a few tools, prompts, resources and templates. Each uses its own
//! error messages for missing items.

use proptest::strategy::{Just, Strategy};

use crate::rig::client::MODERN;
use crate::rig::{HeardMessage, Say, Value, json};

pub const TOOLS: [&str; 3] = ["read_file", "write_file", "query"];
pub const PROMPTS: [&str; 2] = ["greet", "review"];
pub const RESOURCES: [&str; 3] = ["note://one", "note://one-more", "note://secret/key"];
/// Templates, each with a matching resource.
pub const TEMPLATES: [(&str, &str); 2] =
    [("item://{id}/data", "item://7/data"), ("log://{day}", "log://monday")];

/// The items of one server.
#[derive(Clone, Debug)]
pub struct Offer {
    pub tools: Vec<&'static str>,
    pub prompts: Vec<&'static str>,
    pub resources: Vec<&'static str>,
    pub templates: Vec<(&'static str, &'static str)>,
}

/// Generates a random subset.
pub fn random() -> impl Strategy<Value = Offer> {
    fn part<T: Clone + std::fmt::Debug + 'static>(
        all: &[T],
    ) -> impl Strategy<Value = Vec<T>> + use<T> {
        let (all, len) = (all.to_vec(), all.len());
        (proptest::collection::vec(proptest::bool::weighted(0.75), len), Just(all)).prop_map(
            |(keep, all)| {
                all.into_iter().zip(keep).filter_map(|(one, keep)| keep.then_some(one)).collect()
            },
        )
    }
    (part(&TOOLS), part(&PROMPTS), part(&RESOURCES), part(&TEMPLATES)).prop_map(
        |(tools, prompts, resources, templates)| Offer { tools, prompts, resources, templates },
    )
}

impl Offer {
    /// Returns a legacy server with subscriptions.
    pub fn legacy(&self) -> impl Fn(&HeardMessage) -> Say + Send + Sync + use<> {
        let offer = self.clone();
        move |heard| {
            match heard.method() {
            "initialize" => Say::Json(heard.result(json!({
                "protocolVersion": "2025-11-25", "serverInfo": {"name": "old", "version": "1"}, "capabilities": {
                    "tools": {}, "prompts": {}, "resources": {"subscribe": true}, "completions": {},
                },
            }))),
            "ping" | "resources/unsubscribe" => Say::Json(heard.result(json!({}))),
            "resources/subscribe" if offer.has(heard) => Say::Json(heard.result(json!({}))),
            "server/discover" => Say::Status(400, Vec::new(), heard.error(-32000, "no session")),
            _ => offer.answer(heard, -32002),
        }
        }
    }

    /// Returns a stateless server without subscriptions.
    pub fn modern(&self) -> impl Fn(&HeardMessage) -> Say + Send + Sync + use<> {
        let offer = self.clone();
        move |heard| {
            match heard.method() {
            "server/discover" => Say::Json(heard.result(json!({
                "resultType": "complete", "supportedVersions": [MODERN], "ttlMs": 0, "cacheScope": "private",
                "capabilities": {"tools": {}, "prompts": {}, "resources": {}, "completions": {}},
            }))),
            _ => offer.answer(heard, -32602),
        }
        }
    }

    /// Returns whether the requested resource exists.
    fn has(&self, heard: &HeardMessage) -> bool {
        let mut all =
            self.resources.iter().chain(self.templates.iter().map(|(_, example)| example));
        all.any(|known| heard.body["params"]["uri"] == **known)
    }

    fn answer(&self, heard: &HeardMessage, not_found: i64) -> Say {
        let (params, complete) = (&heard.body["params"], "complete");
        let named =
            |list: &[&str]| params["name"].as_str().is_some_and(|name| list.contains(&name));
        let list = |kind: &str, all: Vec<Value>| {
            Say::Json(heard.result(
                json!({"resultType": complete, kind: all, "ttlMs": 0, "cacheScope": "private"}),
            ))
        };
        match heard.method() {
            "tools/list" => list("tools", self.tools.iter().map(|name| tool(name)).collect()),
            "prompts/list" => {
                list("prompts", self.prompts.iter().map(|name| json!({"name": name})).collect())
            }
            "resources/list" => list(
                "resources",
                self.resources.iter().map(|uri| json!({"uri": uri, "name": uri})).collect(),
            ),
            "resources/templates/list" => {
                let all =
                    self.templates.iter().map(|(uri, _)| json!({"uriTemplate": uri, "name": uri}));
                list("resourceTemplates", all.collect())
            }
            "tools/call" if named(&self.tools) => heard.text_result("done"),
            "prompts/get" if named(&self.prompts) => {
                Say::Json(heard.result(json!({"resultType": complete, "messages": []})))
            }
            "resources/read" => {
                let uri = params["uri"].as_str().unwrap_or_default();
                if self.has(heard) {
                    let contents = json!([{"uri": uri, "text": "text"}]);
                    return Say::Json(heard.result(json!({
                        "resultType": complete, "contents": contents, "ttlMs": 0, "cacheScope": "private",
                    })));
                }
                Say::Json(heard.error(not_found, &format!("this server has never heard of {uri}")))
            }
            "completion/complete" => Say::Json(
                heard.result(json!({"resultType": complete, "completion": {"values": ["v"]}})),
            ),
            method if method.starts_with("notifications/") => Say::Json(Value::Null),
            method => Say::Json(heard.error(-32601, &format!("no such method: {method}"))),
        }
    }
}

fn tool(name: &str) -> Value {
    let annotations = json!({"readOnlyHint": name.starts_with("read")});
    json!({"name": name, "description": name, "inputSchema": {"type": "object"}, "annotations": annotations})
}
