//! For random servers of both eras, every message to a client is valid in the published schema of
//! the client's revision.

use std::collections::HashMap;
use std::sync::Arc;

use fastrand::Rng;

use crate::compatibility::REVISIONS;
use crate::compatibility::client::Client;
use crate::rig::schema::Schema;
use crate::rig::upstream::{legacy, modern};
use crate::rig::{Gate, HeardMessage, Say, Upstream, Value, json};

/// Items per list.
const ITEMS: usize = 40;

/// The items and results of a server.
struct Offer {
    lists: HashMap<&'static str, Value>,
    /// Results by method and name or URI.
    results: HashMap<(String, String), Value>,
}

/// Generates values of a revision.
struct Maker {
    random: Rng,
    is_modern: bool,
}

impl Maker {
    fn chance(&mut self) -> bool {
        self.random.bool()
    }

    fn one_of(&mut self, all: &[Value]) -> Value {
        all[self.random.usize(..all.len())].clone()
    }

    fn text(&mut self) -> Value {
        let words = ["", "plain", "ü – ✓", "{\"a\": 1}", "line\nline", "\u{202e}x", "<b>"];
        words[self.random.usize(..words.len())].into()
    }

    /// Adds each member with a probability of one half.
    fn maybe(&mut self, to: &mut Value, members: &[(&str, Value)]) {
        for (name, value) in members {
            if self.chance() {
                to[*name] = value.clone();
            }
        }
    }

    fn annotations(&mut self) -> Value {
        let mut all = json!({});
        let members = [
            ("audience", json!(["user", "assistant"])),
            ("priority", json!(0.5)),
            ("lastModified", json!("2025-01-12T15:00:58Z")),
        ];
        self.maybe(&mut all, &members);
        all
    }

    fn icons(&mut self) -> Value {
        let mut icon = json!({"src": "https://example.com/icon.png"});
        let members = [("mimeType", json!("image/png")), ("sizes", json!(["48x48"]))];
        self.maybe(&mut icon, &members);
        json!([icon])
    }

    /// Adds optional members of any item.
    fn dress(&mut self, item: &mut Value) {
        let members = [
            ("title", self.text()),
            ("description", self.text()),
            ("icons", self.icons()),
            ("_meta", json!({"com.example/own": {"n": 1}})),
        ];
        self.maybe(item, &members);
    }

    fn property(&mut self) -> Value {
        let shapes = [
            json!({"type": "string", "minLength": 1, "description": "d"}),
            json!({"type": ["integer", "null"], "minimum": 0}),
            json!({"enum": ["a", "b", 3]}),
            json!({"type": "array", "items": {"type": "object", "additionalProperties": true}}),
            json!({"anyOf": [{"type": "string"}, {"type": "number"}], "default": 1.5}),
            json!({"$ref": "#/$defs/d"}),
        ];
        self.one_of(&shapes)
    }

    fn input_schema(&mut self) -> Value {
        let mut schema = json!({"type": "object"});
        let properties: Value =
            json!({"one": self.property(), "two": self.property(), "two words": self.property()});
        let members = [
            ("properties", properties),
            ("required", json!(["one"])),
            ("additionalProperties", json!(false)),
            ("$schema", json!("https://json-schema.org/draft/2020-12/schema")),
        ];
        self.maybe(&mut schema, &members);
        schema["$defs"] = json!({"d": {"type": "boolean"}});
        schema
    }

    /// Returns an output schema and a matching result.
    fn structured(&mut self) -> (Value, Value) {
        let object = json!({"type": "object", "properties": {"n": {"type": "integer"}},
            "required": ["n"]});
        if self.is_modern && self.chance() {
            (json!({"type": "array", "items": {"type": "integer"}}), json!([1, 2]))
        } else {
            (object, json!({"n": 7}))
        }
    }

    fn block(&mut self) -> Value {
        let data = "UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA=";
        let mut link = json!({"type": "resource_link", "uri": "test://linked", "name": "linked"});
        self.dress(&mut link);
        let text = self.text();
        let blocks = [
            json!({"type": "text", "text": text}),
            json!({"type": "image", "data": data, "mimeType": "image/png"}),
            json!({"type": "audio", "data": data, "mimeType": "audio/wav"}),
            json!({"type": "resource", "resource":
                {"uri": "test://in", "text": text, "mimeType": "text/plain"}}),
            json!({"type": "resource", "resource": {"uri": "test://in", "blob": data}}),
            link,
        ];
        let mut block = self.one_of(&blocks);
        let annotations = self.annotations();
        self.maybe(&mut block, &[("annotations", annotations), ("_meta", json!({"a/b": [1]}))]);
        block
    }

    fn complete(&self, mut result: Value) -> Value {
        if self.is_modern {
            result["resultType"] = "complete".into();
        }
        result
    }

    fn tool(&mut self, name: &str) -> (Value, Value) {
        let mut tool = json!({"name": name, "inputSchema": self.input_schema()});
        self.dress(&mut tool);
        let hints = json!({"title": "T", "readOnlyHint": true, "openWorldHint": false});
        self.maybe(&mut tool, &[("annotations", hints)]);
        if !self.is_modern {
            self.maybe(&mut tool, &[("execution", json!({"taskSupport": "optional"}))]);
        }
        let content: Vec<Value> = (0..self.random.usize(..4)).map(|_| self.block()).collect();
        let mut result = json!({"content": content});
        if self.chance() {
            let (schema, value) = self.structured();
            tool["outputSchema"] = schema;
            result["structuredContent"] = value;
        } else {
            self.maybe(&mut result, &[("isError", json!(true))]);
        }
        self.maybe(&mut result, &[("_meta", json!({"com.example/x": null}))]);
        (tool, self.complete(result))
    }

    fn prompt(&mut self, name: &str) -> (Value, Value) {
        let mut prompt = json!({"name": name});
        self.dress(&mut prompt);
        let argument = json!({"name": "a", "title": "A", "description": "d"});
        self.maybe(&mut prompt, &[("arguments", json!([argument]))]);
        let messages: Vec<Value> = (0..self.random.usize(1..4))
            .map(|at| {
                let role = if at % 2 == 0 { "user" } else { "assistant" };
                json!({"role": role, "content": self.block()})
            })
            .collect();
        let mut result = json!({"messages": messages});
        self.maybe(&mut result, &[("description", json!("d"))]);
        (prompt, self.complete(result))
    }

    fn resource(&mut self, uri: &str) -> (Value, Value) {
        let mut resource = json!({"uri": uri, "name": uri});
        self.dress(&mut resource);
        let members = [
            ("mimeType", json!("text/plain")),
            ("size", json!(12)),
            ("annotations", self.annotations()),
        ];
        self.maybe(&mut resource, &members);
        let mut contents = if self.chance() {
            json!({"uri": uri, "text": self.text()})
        } else {
            json!({"uri": uri, "blob": "AAEC"})
        };
        self.maybe(&mut contents, &[("mimeType", json!("text/x")), ("_meta", json!({"a/b": 1}))]);
        let mut result = self.complete(json!({"contents": [contents]}));
        if self.is_modern {
            result["ttlMs"] = 0.into();
            result["cacheScope"] = "private".into();
        }
        (resource, result)
    }

    fn template(&mut self, at: usize) -> Value {
        let mut template = json!({"uriTemplate": format!("t{at}://x/{{id}}"), "name": "t"});
        self.dress(&mut template);
        let members = [("mimeType", json!("text/plain")), ("annotations", self.annotations())];
        self.maybe(&mut template, &members);
        template
    }

    fn offer(&mut self) -> Offer {
        let mut offer = Offer { lists: HashMap::new(), results: HashMap::new() };
        let [mut tools, mut prompts, mut resources, mut templates] = [const { Vec::new() }; 4];
        for at in 0..ITEMS {
            let (tool, result) = self.tool(&format!("t{at}"));
            offer.results.insert(("tools/call".into(), format!("t{at}")), result);
            tools.push(tool);
            let (prompt, result) = self.prompt(&format!("p{at}"));
            offer.results.insert(("prompts/get".into(), format!("p{at}")), result);
            prompts.push(prompt);
            let uri = format!("test://r{at}");
            let (resource, result) = self.resource(&uri);
            offer.results.insert(("resources/read".into(), uri), result);
            resources.push(resource);
            templates.push(self.template(at));
        }
        for (method, member, list) in [
            ("tools/list", "tools", tools),
            ("prompts/list", "prompts", prompts),
            ("resources/list", "resources", resources),
            ("resources/templates/list", "resourceTemplates", templates),
        ] {
            let mut result = self.complete(json!({member: list}));
            if self.is_modern {
                result["ttlMs"] = 0.into();
                result["cacheScope"] = "private".into();
            }
            offer.lists.insert(method, result);
        }
        offer
    }
}

fn server(offer: Arc<Offer>, is_modern: bool) -> impl Fn(&HeardMessage) -> Say + Send + Sync {
    let capabilities = json!({"tools": {}, "prompts": {}, "resources": {}});
    let modern = modern(&[]);
    let legacy = legacy("2025-11-25", &[]);
    move |heard| {
        let params = &heard.body["params"];
        let named = params["name"].as_str().or_else(|| params["uri"].as_str());
        let key = (heard.method().to_owned(), named.unwrap_or_default().to_owned());
        if let Some(result) = offer.results.get(&key).or_else(|| offer.lists.get(heard.method())) {
            return Say::Json(heard.result(result.clone()));
        }
        match heard.method() {
            "server/discover" if is_modern => Say::Json(heard.result(json!({
                "resultType": "complete", "supportedVersions": ["2026-07-28"],
                "capabilities": capabilities, "ttlMs": 0, "cacheScope": "private",
            }))),
            "initialize" if !is_modern => Say::Json(heard.result(json!({
                "protocolVersion": "2025-11-25", "capabilities": capabilities,
                "serverInfo": {"name": "old", "version": "1"}, "instructions": "Be kind.",
            }))),
            _ if is_modern => modern(heard),
            _ => legacy(heard),
        }
    }
}

#[tokio::test]
async fn whatever_a_server_says_is_valid_in_each_clients_revision() {
    let seed = fastrand::u64(..);
    let mut servers = Vec::new();
    let mut offers = Vec::new();
    for is_modern in [true, false] {
        let mut maker = Maker { random: Rng::with_seed(seed), is_modern };
        let offer = Arc::new(maker.offer());
        servers.push(Upstream::http(server(Arc::clone(&offer), is_modern)).await);
        offers.push(offer);
    }
    let config = json!({"servers": {"m": servers[0].config(), "l": servers[1].config()}});
    let gate = Gate::start(config).await;
    let mut invalid = Vec::new();
    for revision in REVISIONS {
        for path in ["/mcp", "/servers/m/mcp", "/servers/l/mcp"] {
            let mut client = Client::open(&gate, revision, path.into()).await;
            for (method, member, call, key) in [
                ("tools/list", "tools", "tools/call", "name"),
                ("prompts/list", "prompts", "prompts/get", "name"),
                ("resources/list", "resources", "resources/read", "uri"),
                ("resources/templates/list", "resourceTemplates", "", ""),
            ] {
                let listed = client.ask(method, json!({})).await;
                let items = listed.result()[member].as_array().cloned().unwrap_or_default();
                let servers = if path == "/mcp" { 2 } else { 1 };
                assert_eq!(items.len(), servers * ITEMS, "{revision} {path} {method}, seed {seed}");
                for item in items.iter().filter(|_| !call.is_empty()) {
                    client.ask(call, json!({key: item[key]})).await;
                }
            }
            // Responses for missing items and invalid requests are validated too.
            client.ask("tools/call", json!({"name": "nowhere"})).await;
            client.ask("resources/read", json!({"uri": "no://where"})).await;
            client.ask("tools/list", json!({"cursor": "bad"})).await;
            client.ask("no/such/method", json!({})).await;
            let of = |problem: &String| format!("{path}: {problem}");
            invalid.extend(client.invalid.iter().map(of));
        }
    }
    assert!(
        invalid.is_empty(),
        "seed {seed}: {} {:#?}",
        invalid.len(),
        &invalid[..invalid.len().min(12)]
    );
}

/// The schemas distinguish the revisions.
#[test]
fn a_schema_refuses_what_its_revision_does_not_have() {
    let call = |block: Value| json!({"jsonrpc": "2.0", "id": 1, "result": {"content": [block]}});
    let audio = call(json!({"type": "audio", "data": "AAEC", "mimeType": "audio/wav"}));
    let link = call(json!({"type": "resource_link", "uri": "a://b", "name": "b"}));
    let text = call(json!({"type": "text", "text": 7}));
    let refused = |revision: &str, message: &Value| {
        Schema::of(revision).check("tools/call", message).is_err()
    };
    let by = REVISIONS.map(|revision| refused(revision, &audio));
    // A modern result requires `resultType`.
    assert_eq!(by, [true, false, false, false, true]);
    assert_eq!(
        REVISIONS.map(|revision| refused(revision, &link)),
        [true, true, false, false, true]
    );
    assert_eq!(REVISIONS.map(|revision| refused(revision, &text)), [true; 5]);
    let note = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {}});
    assert_eq!(REVISIONS.map(|revision| refused(revision, &note)), [true; 5]);
}
