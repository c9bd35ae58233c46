//! The ways to access an item at one endpoint for one caller, each in both eras, and the checks of
//! their responses.

use super::offer::{Offer, PROMPTS, RESOURCES, TEMPLATES, TOOLS};
use super::*;

/// A caller at an endpoint.
pub struct Seat<'a> {
    pub gate: &'a Gate,
    pub key: &'a str,
    pub path: &'a str,
    /// Context for failure messages.
    pub about: &'a str,
}

/// The number of accesses tried.
#[derive(Debug, Default)]
pub struct Tally {
    pub used: usize,
    pub hidden: usize,
}

/// The built-in tools that are tried.
const SYSTEM: [&str; 5] = ["info", "tools", "resources", "read_resource", "no_such"];

impl Seat<'_> {
    fn merged(&self) -> bool {
        self.path == "/mcp"
    }

    async fn send(&self, request: Request) -> Answer {
        request.with("Authorization", &format!("Bearer {}", self.key)).send(self.gate.address).await
    }

    async fn modern(&self, method: &str, params: Value) -> Answer {
        self.send(Request::modern(self.path, method, params)).await
    }

    /// Opens a session; returns `None` if the endpoint does not exist for this caller.
    async fn session(&self) -> Option<String> {
        let params = json!({
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"},
        });
        let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
            .to_string();
        let answer = self.send(Request::bare("POST", self.path, body.clone())).await;
        if answer.status != 200 {
            let unknown = self.send(Request::bare("POST", "/servers/nobody/mcp", body)).await;
            assert_eq!(
                (answer.status, answer.text()),
                (unknown.status, unknown.text()),
                "{}",
                self.about
            );
        }
        answer.header("mcp-session-id").map(str::to_owned)
    }

    /// Sends a request in both eras.
    async fn both(&self, session: &str, method: &str, params: &Value) -> [Answer; 2] {
        let legacy = self.send(Request::legacy(self.path, session, 1, method, params)).await;
        [self.modern(method, params.clone()).await, legacy]
    }

    /// Returns the contents of a list, and checks that both eras agree.
    async fn list(&self, session: &str, method: &str, member: &str, key: &str) -> Vec<String> {
        let lists = self.both(session, method, &json!({})).await.map(|answer| {
            let all = answer.json()["result"][member].as_array().cloned().unwrap_or_default();
            all.iter().filter_map(|item| item[key].as_str().map(str::to_owned)).collect::<Vec<_>>()
        });
        assert_eq!(lists[0], lists[1], "{method}: {}", self.about);
        let [list, _] = lists;
        list
    }

    /// Returns the acknowledgement of a listen for one resource.
    async fn granted(&self, uri: &str) -> String {
        let params = json!({"notifications": {"resourceSubscriptions": [uri]}});
        let request = Request::modern(self.path, "subscriptions/listen", params);
        let mut stream = request
            .with("Authorization", &format!("Bearer {}", self.key))
            .open(self.gate.address)
            .await;
        stream.next().await.unwrap_or_default().to_string()
    }
}

/// A way of access: a method, its parameters for a name, and a name that does not exist.
struct Way<'a> {
    method: &'a str,
    params: &'a dyn Fn(&str) -> Value,
    unknown: &'a str,
}

/// Checks that both eras agree, that access works exactly if the item is `there`, and that it
/// otherwise gets the response of a missing item.
async fn try_way(
    seat: &Seat<'_>,
    session: &str,
    way: &Way<'_>,
    name: &str,
    there: Option<bool>,
    tally: &mut Tally,
) {
    let Way { method, params, unknown } = *way;
    let answers = seat.both(session, method, &params(name)).await;
    let works = answers.each_ref().map(|answer| answer.json().get("result").is_some());
    let about = || format!("{method} {name}, {}", seat.about);
    // A legacy subscription has no equivalent single request in the modern era.
    let only_legacy = method == "resources/subscribe";
    assert!(only_legacy || works[0] == works[1], "the eras differ: {}", about());
    let works = works[1];
    if let Some(there) = there {
        assert_eq!(works, there, "listed or not: {}: {}", about(), answers[1].text());
    }
    if works {
        tally.used += 1;
        return;
    }
    tally.hidden += 1;
    let wanted = seat.both(session, method, &params(unknown)).await;
    for (got, wanted) in answers.iter().zip(&wanted) {
        let plain =
            |answer: &Answer, name: &str| (answer.status, answer.text().replace(name, "NAME"));
        assert_eq!(plain(got, name), plain(wanted, unknown), "{}", about());
    }
}

/// Tries every existing and missing item, in every way.
pub async fn try_all(seat: &Seat<'_>, servers: &[(&str, &Offer); 2], tally: &mut Tally) {
    let Some(session) = seat.session().await else {
        let listed = seat.modern("tools/list", json!({})).await;
        let unknown = Request::modern("/servers/nobody/mcp", "tools/list", json!({}));
        let unknown = seat.send(unknown).await;
        assert_eq!(
            (listed.status, listed.text()),
            (unknown.status, unknown.text()),
            "{}",
            seat.about
        );
        return;
    };
    let slugs = ["a", "b", "system"]
        .into_iter()
        .filter(|slug| seat.merged() || seat.path.contains(&format!("/{slug}/")));
    let tools = seat.list(&session, "tools/list", "tools", "name").await;
    let resources = seat.list(&session, "resources/list", "resources", "uri").await;
    let templates =
        seat.list(&session, "resources/templates/list", "resourceTemplates", "uriTemplate").await;
    for slug in slugs {
        let offer = servers.iter().find(|(known, _)| *known == slug).map(|(_, offer)| *offer);
        try_names(seat, &session, slug, &tools, tally).await;
        if let Some(offer) = offer {
            try_resources(seat, &session, (slug, offer), [&resources, &templates], tally).await;
        }
    }
    look_around(seat, &session, &tools, [&resources, &templates]).await;
}

fn name(seat: &Seat<'_>, slug: &str, own: &str) -> String {
    if seat.merged() { format!("{slug}__{own}") } else { own.to_owned() }
}

fn uri(seat: &Seat<'_>, slug: &str, own: &str) -> String {
    if seat.merged() { format!("{slug}+{own}") } else { own.to_owned() }
}

async fn try_names(
    seat: &Seat<'_>,
    session: &str,
    slug: &str,
    tools: &[String],
    tally: &mut Tally,
) {
    let names: &[&str] = if slug == "system" { &SYSTEM } else { &TOOLS };
    for own in names {
        let name = name(seat, slug, own);
        let params = |name: &str| json!({"name": name, "arguments": {}});
        let way = Way { method: "tools/call", params: &params, unknown: "zzz__no_such" };
        try_way(seat, session, &way, &name, Some(tools.contains(&name)), tally).await;
    }
    let prompts = seat.list(session, "prompts/list", "prompts", "name").await;
    for own in if slug == "system" { &PROMPTS[..0] } else { &PROMPTS } {
        let name = name(seat, slug, own);
        let there = prompts.contains(&name);
        let get = |name: &str| json!({"name": name});
        let way = Way { method: "prompts/get", params: &get, unknown: "zzz__no_such" };
        try_way(seat, session, &way, &name, Some(there), tally).await;
        let complete = |name: &str| json!({"ref": {"type": "ref/prompt", "name": name}, "argument": {"name": "x", "value": ""}});
        let way = Way { method: "completion/complete", params: &complete, unknown: "zzz__no_such" };
        try_way(seat, session, &way, &name, follows(seat, there), tally).await;
    }
}

/// Returns the expected access for completion: that of its item, unless a policy names completion,
/// which may restrict but never extend access.
fn follows(seat: &Seat<'_>, there: bool) -> Option<bool> {
    (!there || !seat.about.contains("completion")).then_some(there)
}

async fn try_resources(
    seat: &Seat<'_>,
    session: &str,
    (slug, offer): (&str, &Offer),
    [resources, templates]: [&[String]; 2],
    tally: &mut Tally,
) {
    let unknown = if seat.merged() { "zzz+note://none" } else { "note://none" };
    let complete = |uri: &str| json!({"ref": {"type": "ref/resource", "uri": uri}, "argument": {"name": "x", "value": ""}});
    let concrete = RESOURCES.iter().map(|own| (*own, offer.resources.contains(own)));
    let examples = TEMPLATES
        .iter()
        .map(|(template, own)| (*own, offer.templates.iter().any(|(known, _)| known == template)));
    for (own, exists) in concrete.chain(examples) {
        let uri = uri(seat, slug, own);
        let read = |uri: &str| json!({"uri": uri});
        let way = Way { method: "resources/read", params: &read, unknown };
        let listed = resources.contains(&uri);
        // A resource of a template is not listed: whether it can be read determines the other ways.
        let there = if RESOURCES.contains(&own) {
            listed
        } else {
            seat.modern("resources/read", read(&uri)).await.json().get("result").is_some()
        };
        try_way(seat, session, &way, &uri, Some(there), tally).await;
        if !exists {
            continue;
        }
        // Only listed resources and matches of listed templates can be subscribed to.
        let template = TEMPLATES.iter().find(|(_, example)| *example == own);
        let template = template.map(|(template, _)| self::uri(seat, slug, template));
        let shown = listed || template.is_some_and(|template| templates.contains(&template));
        try_subscription(seat, session, slug, &uri, there && shown, unknown).await;
    }
    for (template, _) in &offer.templates {
        let uri = uri(seat, slug, template);
        let way =
            Way { method: "completion/complete", params: &complete, unknown: "zzz+note://none" };
        if seat.merged() {
            try_way(seat, session, &way, &uri, follows(seat, templates.contains(&uri)), tally)
                .await;
        }
    }
}

/// Checks that a subscription works exactly if its resource is visible, and otherwise gets the
/// response of a missing resource.
async fn try_subscription(
    seat: &Seat<'_>,
    session: &str,
    slug: &str,
    uri: &str,
    there: bool,
    unknown: &str,
) {
    if slug == "a" {
        let granted = seat.granted(uri).await;
        assert_eq!(granted.contains(uri), there, "listen {uri}: {granted}: {}", seat.about);
        if !there {
            assert_eq!(
                granted,
                seat.granted("zzz+note://none").await,
                "listen {uri}: {}",
                seat.about
            );
        }
    }
    let send = async |method, uri: &str| {
        seat.send(Request::legacy(seat.path, session, 1, method, &json!({"uri": uri}))).await
    };
    let subscribed = send("resources/subscribe", uri).await;
    let works = subscribed.json().get("result").is_some();
    assert!(!works || there, "resources/subscribe {uri}: {}", seat.about);
    assert!(!(there && slug == "a") || works, "resources/subscribe {uri}: {}", seat.about);
    if there {
        return;
    }
    // A server without subscriptions returns the same error for every resource; the other server
    // returns that of a missing resource.
    let none = self::uri(seat, slug, "note://none");
    let other = send("resources/subscribe", &none).await;
    let plain = |answer: &Answer, uri: &str| answer.text().replace(uri, "URI");
    assert_eq!(plain(&subscribed, uri), plain(&other, &none), "{}", seat.about);
    if slug == "a" {
        let read = send("resources/read", unknown).await;
        assert_eq!(plain(&subscribed, uri), plain(&read, unknown), "{}", seat.about);
    }
}

/// A caller of the built-in discovery tools, which must show exactly the contents of the lists.
struct Lookout<'a> {
    seat: &'a Seat<'a>,
    session: &'a str,
    tools: &'a [String],
}

impl Lookout<'_> {
    fn has(&self, own: &str) -> bool {
        self.tools.contains(&name(self.seat, "system", own))
    }

    /// Calls a built-in tool, and checks that both eras agree.
    async fn call(&self, own: &str, arguments: Value) -> Value {
        let params = json!({"name": name(self.seat, "system", own), "arguments": arguments});
        let answers = self.seat.both(self.session, "tools/call", &params).await;
        let [modern, legacy] = answers.map(|answer| answer.json()["result"].clone());
        assert_eq!(modern["isError"], legacy["isError"], "{own}: {}", self.seat.about);
        legacy
    }

    async fn compare_tools(&self) {
        let shown = self.call("tools", json!({})).await;
        let all = shown["structuredContent"]["tools"].as_array().unwrap();
        let all: Vec<&str> = all.iter().filter_map(|tool| tool["name"].as_str()).collect();
        for own in SYSTEM {
            let full = format!("system/{own}");
            let about = self.seat.about;
            assert_eq!(all.contains(&&*full), self.has(own), "system/tools: {own}: {about}");
            if !self.has(own) {
                let got = self.call("tools", json!({"name": full})).await.to_string();
                let none = self.call("tools", json!({"name": "x/y"})).await.to_string();
                assert_eq!(got.replace(&full, "NAME"), none.replace("x/y", "NAME"));
            }
        }
    }

    async fn compare_resources(&self, [resources, templates]: [&[String]; 2]) {
        let shown = self.call("resources", json!({"limit": 200})).await;
        let found = shown["structuredContent"]["resources"].as_array().unwrap();
        let mut found: Vec<&str> = found
            .iter()
            .filter_map(|item| item["uri"].as_str().or(item["uriTemplate"].as_str()))
            .collect();
        let mut wanted: Vec<&str> = resources.iter().chain(templates).map(String::as_str).collect();
        found.sort_unstable();
        wanted.sort_unstable();
        assert_eq!(found, wanted, "system/resources: {}", self.seat.about);
    }

    async fn compare_read(&self, uri: &str, there: bool) {
        let about = self.seat.about;
        let got = self.call("read_resource", json!({"uri": uri})).await;
        let works = got["isError"] != true;
        assert_eq!(works, there, "system/read_resource {uri}: {got}: {about}");
        if !there {
            let none = self.call("read_resource", json!({"uri": "zzz+note://none"})).await;
            let words = got.to_string();
            assert_eq!(words, none.to_string(), "system/read_resource {uri}: {about}");
        }
    }
}

async fn look_around(
    seat: &Seat<'_>,
    session: &str,
    tools: &[String],
    [resources, templates]: [&[String]; 2],
) {
    let lookout = Lookout { seat, session, tools };
    if lookout.has("tools") {
        lookout.compare_tools().await;
    }
    if lookout.has("resources") {
        lookout.compare_resources([resources, templates]).await;
    }
    if lookout.has("read_resource") {
        for own in RESOURCES {
            for slug in ["a", "b"] {
                let uri = uri(seat, slug, own);
                lookout.compare_read(&uri, resources.contains(&uri)).await;
            }
        }
    }
}
