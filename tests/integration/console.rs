//! The console from outside: sign-in, session lifetime, and protection against requests from other
//! sites. The contents of its pages are tested beside them.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::principals::{By, gate, key};
use crate::rig::client::{Request, Stream};
use crate::rig::gate::command;
use crate::rig::upstream::modern;
use crate::rig::{Answer, Gate, Upstream, fixture, json, until};

const COOKIE: &str = "lockgate=";

pub(crate) fn get(path: &str) -> Request {
    Request::bare("GET", path, "")
}

/// Returns a form as sent by a page of the console.
pub(crate) fn form(at: SocketAddr, path: &str, fields: &[(&str, &str)]) -> Request {
    let mut pairs = Vec::new();
    for (name, value) in fields {
        pairs.push(format!("{name}={value}"));
    }
    let origin = format!("http://{at}");
    Request::bare("POST", path, pairs.join("&"))
        .with("Host", &at.to_string())
        .with("Origin", &origin)
        .with("Content-Type", "application/x-www-form-urlencoded")
}

fn session_of(answer: &Answer) -> String {
    let cookie = answer.header("set-cookie").unwrap_or_default();
    let pair = cookie.split(';').next().unwrap_or_default();
    assert!(pair.starts_with(COOKIE), "{} {cookie}", answer.status);
    assert!(cookie.contains("; HttpOnly; SameSite=Lax"), "{cookie}");
    pair.to_owned()
}

/// Signs in; returns the cookie.
pub(crate) async fn sign_in(gate: &Gate, key: &str) -> String {
    let request = form(gate.address, "/console/sign-in?next=/console/servers", &[("key", key)]);
    let answer = request.send(gate.address).await;
    assert_eq!(answer.status, 303, "{}", answer.text());
    assert_eq!(answer.header("location"), Some("/console/servers"));
    session_of(&answer)
}

/// Returns the value of a hidden form field of this page.
pub(crate) fn hidden_field(page: &Answer, name: &str) -> String {
    let text = page.text();
    let value = text.split(&format!("name=\"{name}\" value=\"")).nth(1).unwrap_or_default();
    value.split('"').next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn the_user_of_a_development_machine_need_not_sign_in() {
    let server = Upstream::http(modern(&["t"])).await;
    let gate = Gate::start(json!({"servers": {"a": server.config()}})).await;
    let first = get("/").with("Accept", "text/html,*/*").send(gate.address).await;
    assert_eq!((first.status, first.header("location")), (303, Some("/console")));
    for machine in [get("/"), Request::bare("POST", "/", "").with("Accept", "text/html")] {
        assert_eq!(machine.send(gate.address).await.status, 404);
    }
    let page = get("/console/servers").send(gate.address).await;
    assert_eq!(page.status, 200, "{}", page.text());
    assert!(page.text().contains("/console/servers/a\""), "{}", page.text());
    assert_eq!(page.header("x-frame-options"), Some("DENY"));
    // Behind a local proxy, every client would otherwise count as the local user.
    let forwarded = get("/console/access").with("X-Forwarded-For", "203.0.113.9");
    assert_eq!(forwarded.send(gate.address).await.status, 403);
}

#[tokio::test]
async fn a_key_opens_a_session_that_ends_with_it() {
    let server = Upstream::http(modern(&["t"])).await;
    let gate = gate(&server, json!({})).await;
    let at = gate.address;
    let key = key(&gate, "ada", &["--role", "operator"]).await;
    let stranger = get("/console/servers?q=a").send(at).await;
    let sign_in_page = Some("/console/sign-in?next=%2Fconsole%2Fservers%3Fq%3Da");
    assert_eq!((stranger.status, stranger.header("location")), (303, sign_in_page));
    let wrong = form(at, "/console/sign-in", &[("key", "lk_wrong")]).send(at).await;
    assert_eq!(wrong.status, 422, "{}", wrong.text());
    assert_eq!(wrong.header("set-cookie"), None);
    let elsewhere = form(at, "/console/sign-in", &[("key", &key)]);
    let elsewhere = elsewhere.with("Origin", "https://evil.example").send(at).await;
    assert_eq!(elsewhere.header("set-cookie"), None);

    let cookie = sign_in(&gate, &key).await;
    assert!(!key.contains(cookie.trim_start_matches(COOKIE)));
    let open = || get("/console/servers").with("Cookie", &cookie);
    assert_eq!(open().send(at).await.status, 200);
    let api = get("/api/servers").with("Cookie", &cookie).send(at).await;
    assert_eq!(api.status, 401, "the API knows no cookies");

    let keys = gate.folder.path().join("keys.yaml");
    let revoked = command().args(["keys", "revoke", &key, "--file"]).arg(keys).output().unwrap();
    assert!(revoked.status.success(), "{}", String::from_utf8_lossy(&revoked.stderr));
    until("the session has ended", async || (open().send(at).await.status == 303).then_some(()))
        .await;
}

#[tokio::test]
async fn first_steps_lead_to_their_forms() {
    let server = Upstream::http(modern(&["t"])).await;
    let gate = gate(&server, json!({})).await;
    let ada = key(&gate, "ada", &["--role", "operator"]).await;
    let session = sign_in(&gate, &ada).await;
    let page = get("/console").with("Cookie", &session).send(gate.address).await.text();
    for link in ["/console/keys/new\">Create a key<", "/console/agents#new\">Create an agent<"] {
        assert!(page.contains(&format!("href=\"{link}")), "{link} is not in {page}");
    }
}

#[tokio::test]
async fn a_form_of_somebody_else_changes_nothing() {
    let server = Upstream::http(modern(&["t"])).await;
    let gate = gate(&server, json!({})).await;
    let at = gate.address;
    let ada = key(&gate, "ada", &["--role", "operator"]).await;
    let (one, other) = (sign_in(&gate, &ada).await, sign_in(&gate, &ada).await);
    let page = get("/console").with("Cookie", &one).send(at).await;
    let token = hidden_field(&page, "token");
    assert!(!token.is_empty(), "{}", page.text());
    let sign_out = |fields: &[(&str, &str)], cookie: &str| {
        form(at, "/console/sign-out", fields).with("Cookie", cookie)
    };
    let refused = [
        sign_out(&[], &one),
        sign_out(&[("token", &token)], &other),
        sign_out(&[("token", &token)], &one).with("Sec-Fetch-Site", "same-site"),
        sign_out(&[("token", &token)], &one).without("Origin"),
    ];
    for request in refused {
        assert_eq!(request.send(at).await.status, 403);
    }
    let still =
        async |cookie: &str| get("/console").with("Cookie", cookie).send(at).await.status == 200;
    assert!(still(&one).await && still(&other).await);
    assert_eq!(sign_out(&[("token", &token)], &one).send(at).await.status, 303);
    assert!(!still(&one).await && still(&other).await);
}

#[tokio::test]
async fn a_form_that_is_sent_twice_is_done_once() {
    let server = Upstream::http(modern(&["t"])).await;
    let gate = gate(&server, json!({})).await;
    let at = gate.address;
    let ada = key(&gate, "ada", &["--role", "operator"]).await;
    let cookie = sign_in(&gate, &ada).await;
    let open = |path: &'static str| get(path).with("Cookie", &cookie);
    let page = open("/console/agents").send(at).await;
    let (token, number) = (hidden_field(&page, "token"), hidden_field(&page, "page"));
    let fields = [("token", &*token), ("page", &*number), ("name", "desk")];
    let create = || form(at, "/console/agents", &fields).with("Cookie", &cookie);
    assert_eq!(create().send(at).await.status, 303);
    assert_eq!(create().send(at).await.status, 409);
    let agents = open("/console/agents").send(at).await.text();
    assert_eq!(agents.matches(">desk<").count(), 1, "{agents}");
}

#[tokio::test]
async fn a_record_has_the_name_of_the_agent() {
    let server = Upstream::http(modern(&["t"])).await;
    let gate = gate(&server, json!({"audit": {"file": "audit.jsonl"}})).await;
    let at = gate.address;
    let ada = key(&gate, "ada", &["--role", "operator"]).await;
    let create = Request::bare("POST", "/api/agents", r#"{"name":"Desk"}"#);
    let made = create.with("Content-Type", "application/json").by(&ada).send(at).await.json();
    let id = made["id"].as_str().unwrap();
    let assign = format!("/api/agents/{id}/servers/a");
    let assign = Request::bare("PATCH", &assign, r#"{"assigned":true}"#);
    let assigned = assign.with("Content-Type", "application/json").by(&ada).send(at).await;
    assert_eq!(assigned.status, 200, "{}", assigned.text());
    let robot = key(&gate, "robot", &["--agent", id]).await;
    let params = json!({"name": "a__t", "arguments": {}});
    let call = Request::modern(&format!("/agents/{id}/mcp"), "tools/call", params);
    assert_eq!(call.by(&robot).send(at).await.status, 200);
    let time = until("the call is recorded", async || {
        let found = get("/api/audit?principal=robot&tool=a__t").by(&ada).send(at).await.json();
        found["items"][0]["time"].as_str().map(str::to_owned)
    })
    .await;
    let record = get(&format!("/console/audit/{time}"));
    let page = record.with("Cookie", &sign_in(&gate, &ada).await).send(at).await.text();
    assert!(page.contains(&format!("<dd title=\"{id}\">Desk</dd>")), "{page}");
}

#[tokio::test]
async fn a_new_key_has_a_name_of_its_own_in_its_organisation_and_an_agent_that_exists() {
    let server = Upstream::http(modern(&["t"])).await;
    let gate = gate(&server, json!({})).await;
    let at = gate.address;
    let ada = key(&gate, "ada", &["--role", "operator"]).await;
    key(&gate, "twin", &["--organisation", "globex"]).await;
    let cookie = sign_in(&gate, &ada).await;
    for (query, name, of, status) in [
        ("?for=agt_none", "late", "", 404),
        ("", "late", "", 201),
        ("", "twin", "", 201),
        ("", "twin", "", 422),
        ("", "twin", "globex", 422),
    ] {
        let page = get("/console/keys/new").with("Cookie", &cookie).send(at).await;
        let (token, number) = (hidden_field(&page, "token"), hidden_field(&page, "page"));
        let hidden = [("token", &*token), ("page", &number)];
        let fields = [hidden[0], hidden[1], ("name", name), ("organizationId", of)];
        let form = form(at, &format!("/console/keys/new{query}"), &fields);
        let answer = form.with("Cookie", &cookie).send(at).await;
        assert_eq!(answer.status, status, "{name} {of}: {}", answer.text());
    }
}

/// Returns the hidden fields of the form with this text.
fn hidden_fields(page: &str, part: &str) -> Vec<(String, String)> {
    let form = page.split("<form").find(|form| form.contains(part)).unwrap();
    let mut fields = Vec::new();
    for field in form.split("<input type=\"hidden\" name=\"").skip(1) {
        let (name, rest) = field.split_once("\" value=\"").unwrap();
        fields.push((name.to_owned(), rest.split('"').next().unwrap().to_owned()));
    }
    fields
}

#[tokio::test]
async fn a_switched_tool_keeps_its_page_of_the_list() {
    let names: Vec<String> = (0..150).map(|number| format!("tool_{number:03}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let server = Upstream::http(modern(&names)).await;
    let gate = Gate::start(json!({"servers": {"a": server.config()}})).await;
    let at = gate.address;
    until("all tools are there", async || {
        let found = get("/api/tools?limit=1").send(at).await.json();
        (found["total"] == 150).then_some(())
    })
    .await;
    let made = Request::bare("POST", "/api/agents", r#"{"name":"Desk"}"#).send(at).await.json();
    let id = made["id"].as_str().unwrap();
    let assign = format!("/api/agents/{id}/servers/a");
    Request::bare("PATCH", &assign, r#"{"assigned":true}"#).send(at).await;
    let second = format!("/console/agents/{id}?server=a&page=2");
    let page = get(&second).send(at).await.text();
    let tool = "name=\"tool\" value=\"tool_102\"";
    let fields = hidden_fields(&page, tool);
    let fields: Vec<_> = fields.iter().map(|(name, value)| (&**name, &**value)).collect();
    let answer = form(at, &format!("/console/agents/{id}/servers/a"), &fields).send(at).await;
    assert_eq!(answer.header("location"), Some(&*format!("{second}#tool-3")));
    let page = get(&second).send(at).await.text();
    let form = page.split("<form").find(|form| form.contains(tool)).unwrap();
    assert!(form.contains("id=\"tool-3\" role=\"switch\" aria-checked=\"false\""), "{form}");
}

#[tokio::test]
async fn a_disabled_integration_is_listed_and_names_the_agents_that_lose_it() {
    let server = Upstream::http(modern(&["t"])).await;
    let gate = gate(&server, json!({})).await;
    let at = gate.address;
    let boss = key(&gate, "boss", &["--role", "operator"]).await;
    let lead = key(&gate, "lead", &["--organisation", "acme", "--role", "admin"]).await;
    let user = key(&gate, "user", &["--organisation", "acme"]).await;
    let send = async |method: &'static str, path: &str, body: &str| {
        let request = Request::bare(method, path, body.to_owned());
        request.with("Content-Type", "application/json").by(&lead).send(at).await.json()
    };
    let url = format!("http://{}/mcp", server.address);
    let body = json!({"name": "Notes", "serverUrl": url, "authMethod": "none"}).to_string();
    let made = send("POST", "/api/mcp-integrations/custom", &body).await;
    let id = made["id"].as_str().unwrap();
    let agent = send("POST", "/api/agents", r#"{"name":"Desk"}"#).await;
    let agent = agent["id"].as_str().unwrap();
    let assign = format!("/api/agents/{agent}/servers/notes");
    let assigned = send("PATCH", &assign, r#"{"assigned":true}"#).await;
    assert_eq!(assigned["assigned"], true, "{assigned}");
    send("POST", &format!("/api/mcp-integrations/{id}/disable"), "").await;

    let (boss, lead, user) =
        (sign_in(&gate, &boss).await, sign_in(&gate, &lead).await, sign_in(&gate, &user).await);
    let open = async |path: &str, cookie: &str| {
        let page = get(path).with("Cookie", cookie).send(at).await;
        assert_eq!(page.status, 200, "{path}: {}", page.text());
        page.text()
    };
    let link = format!("href=\"/console/integrations/{id}\">notes<");
    for path in ["/console/servers", "/console/servers?state=off", "/console/servers?q=ote"] {
        let page = open(path, &lead).await;
        assert!(page.contains(&link), "{path}: {page}");
        assert!(page.contains("Disabled <span class=\"count\">1<"), "{path}: {page}");
        assert!(!open(path, &user).await.contains("notes"), "{path}");
    }
    let failing = open("/console/servers?state=bad", &lead).await;
    assert!(!failing.contains(&link), "{failing}");
    assert!(failing.contains("<input type=\"hidden\" name=\"state\" value=\"bad\">"), "{failing}");

    let removal = format!("/console/integrations/{id}/delete");
    let own = open(&removal, &lead).await;
    assert!(own.contains(&format!("<a href=\"/console/agents/{agent}\">Desk</a>")), "{own}");
    let others = open(&format!("{removal}?organisation=acme"), &boss).await;
    assert!(others.contains("<li>Desk</li>") && !others.contains(agent), "{others}");
}

#[tokio::test]
async fn first_steps_end_for_users_of_shared_servers() {
    let server = Upstream::http(modern(&["t"])).await;
    let gate = gate(&server, json!({})).await;
    let at = gate.address;
    let user = key(&gate, "user", &[]).await;
    let cookie = sign_in(&gate, &user).await;
    let open = async || get("/console").with("Cookie", &cookie).send(at).await.text();
    until("the server is connected", async || {
        let found = get("/api/servers").by(&user).send(at).await.json();
        (found["items"][0]["state"] == "connected").then_some(())
    })
    .await;
    let page = open().await;
    assert!(page.contains("First steps") && page.contains("Connect a client"), "{page}");
    let create = Request::bare("POST", "/api/agents", r#"{"name":"Desk"}"#);
    let made = create.with("Content-Type", "application/json").by(&user).send(at).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let page = open().await;
    assert!(!page.contains("First steps"), "{page}");
}

#[tokio::test]
async fn an_unlisted_resource_has_a_page_that_reveals_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policies.json");
    let policies = json!({"policies": [
        {"name": "all", "effect": "allow"},
        {"name": "not-that", "effect": "deny", "what": {"resources": ["*static-text"]}},
    ]});
    std::fs::write(&file, policies.to_string()).unwrap();
    let servers = json!({"f": fixture(&[])});
    let gate = Gate::start(json!({"servers": servers, "policy": {"files": [file]}})).await;
    let at = gate.address;
    let read = async |uri: &str| {
        let path = format!("/console/resources/{}", uri.replace('+', "%2B").replace('/', "%2F"));
        let page = get(&path).send(at).await;
        assert_eq!(page.status, 200, "{}", page.text());
        assert!(page.text().contains(&format!("Read {uri}</button>")), "{}", page.text());
        let (token, number) = (hidden_field(&page, "token"), hidden_field(&page, "page"));
        let read = form(at, &path, &[("token", &token), ("page", &number)]).send(at).await;
        assert_eq!(read.status, 303, "{}", read.text());
        let result = get(read.header("location").unwrap()).send(at).await.text();
        let outcome = result.split("id=\"outcome\"").nth(1).unwrap_or(&result);
        outcome.split("</section>").next().unwrap().replace(uri, "URI")
    };
    let missing = read("f+test://nowhere").await;
    assert!(missing.contains("class=\"verdict bad\"") && !missing.contains("Open the server"));
    assert!(missing.contains("URI could not be read."), "{missing}");
    assert_eq!(read("f+test://static-text").await, missing, "a hidden resource");
    for no_uri in ["/console/resources/Call%20us", "/console/prompts/nothing"] {
        assert_eq!(get(no_uri).send(at).await.status, 404, "{no_uri}");
    }
}

/// Mistakes in a query are shown at their fields.
#[tokio::test]
async fn a_mistake_in_a_search_is_shown_at_its_field() {
    let server = Upstream::http(modern(&["t"])).await;
    let audit = json!({"file": "audit.jsonl"});
    let gate = Gate::start(json!({"servers": {"a": server.config()}, "audit": audit})).await;
    let newest = "href=\"/console/audit?tool=a__t#list\">Show the newest records<";
    for (path, status, part) in [
        ("/console/audit?after=x&tool=a__t", 422, newest),
        ("/console/audit?to=x", 422, "id=\"to-mistake\">“Before”: must be a time"),
        ("/console/audit?from=x", 422, "id=\"from-mistake\">“From”: must be a time"),
        ("/console/audit?decision=x", 422, "id=\"form-mistake\">"),
        ("/console/access?call=a__t&roles=x", 422, "id=\"subject-mistake\">Enter the subject"),
        (
            "/console/access?call=a__t&subject=y",
            422,
            "id=\"subject-mistake\">A caller is identified",
        ),
        ("/console/access?call=a__t&roles=x&issuer=i&subject=y", 200, "id=\"answer\""),
        ("/console/access?call=a__t&arguments=%5B1%5D", 422, "id=\"arguments-mistake\""),
        ("/console/activity?server=none", 200, "No calls match."),
        ("/console/activity", 200, "No calls yet."),
        ("/console/activity?live=no", 200, "<input type=\"hidden\" name=\"live\" value=\"no\">"),
    ] {
        let page = get(path).send(gate.address).await;
        assert_eq!(page.status, status, "{path}: {}", page.text());
        assert!(page.text().contains(part), "{path}: {}", page.text());
    }
}

/// Page permissions match those of the API's routes.
#[tokio::test]
async fn pages_are_for_the_roles_that_the_configuration_gives() {
    let server = Upstream::http(modern(&["t"])).await;
    let gate = gate(&server, json!({})).await;
    let at = gate.address;
    let user = sign_in(&gate, &key(&gate, "user", &[]).await).await;
    let admin = sign_in(&gate, &key(&gate, "lead", &["--role", "admin"]).await).await;
    let operator = sign_in(&gate, &key(&gate, "op", &["--role", "operator"]).await).await;
    for (path, expected) in [
        ("/console", [200, 200, 200]),
        ("/console/agents", [200, 200, 200]),
        ("/console/approvals", [200, 200, 200]),
        ("/console/integrations/new", [403, 200, 200]),
        ("/console/keys", [403, 200, 200]),
        ("/console/sessions", [403, 200, 200]),
        ("/console/audit", [403, 200, 200]),
        ("/console/access", [403, 403, 200]),
        ("/console/organisations", [403, 403, 200]),
    ] {
        for (cookie, status) in [&user, &admin, &operator].into_iter().zip(expected) {
            let page = get(path).with("Cookie", cookie).send(at).await;
            assert_eq!(page.status, status, "{path}: {}", page.text());
        }
    }
}

/// Sends a form of the console with the tokens of a page that its visitor may open.
async fn submit(gate: &Gate, cookie: &str, path: &str, fields: &[(&str, &str)]) -> Answer {
    let page = get("/console/agents").with("Cookie", cookie).send(gate.address).await;
    let (token, number) = (hidden_field(&page, "token"), hidden_field(&page, "page"));
    let mut all = vec![("token", &*token), ("page", &*number)];
    all.extend(fields);
    form(gate.address, path, &all).with("Cookie", cookie).send(gate.address).await
}

/// Both call the same operations, so neither admits a caller that the other refuses.
#[tokio::test]
async fn pages_and_the_api_refuse_the_same_callers() {
    let server = Upstream::http(modern(&["t"])).await;
    let audit = json!({"audit": {"output": "file", "file": "audit.jsonl"}});
    let gate = gate(&server, audit).await;
    let at = gate.address;
    let boss = key(&gate, "boss", &["--role", "operator"]).await;
    let boss = boss.split('_').nth(1).unwrap();
    let revoke = (format!("/console/keys/{boss}/revoke"), format!("/api/keys/{boss}"));
    let explain = r#"{"call":"a__t"}"#;
    let add = r#"{"name":"n","serverUrl":"https://n.example/mcp"}"#;
    for (name, role) in [("user", None), ("lead", Some("admin")), ("op", Some("operator"))] {
        let role: Vec<&str> = role.into_iter().flat_map(|role| ["--role", role]).collect();
        let key = key(&gate, name, &role).await;
        let cookie = sign_in(&gate, &key).await;
        for (page, method, path, body) in [
            ("GET /console/servers", "GET", "/api/servers", ""),
            ("GET /console/tools", "GET", "/api/tools", ""),
            ("GET /console/connections", "GET", "/api/connections", ""),
            ("GET /console/approvals", "GET", "/api/approvals", ""),
            ("GET /console/keys", "GET", "/api/keys", ""),
            ("GET /console/sessions", "GET", "/api/sessions", ""),
            ("GET /console/usage", "GET", "/api/usage", ""),
            ("GET /console/audit", "GET", "/api/audit", ""),
            ("GET /console/pins", "GET", "/api/pins", ""),
            ("GET /console/settings", "GET", "/api/settings", ""),
            ("GET /console/organisations", "GET", "/api/organisations", ""),
            ("GET /console/access?call=a__t", "POST", "/api/policies/explain", explain),
            ("/console/access/cases", "POST", "/api/policies/test", r#"{"cases":[]}"#),
            ("/console/audit/verify", "POST", "/api/audit/verify", ""),
            ("/console/integrations/new", "POST", "/api/mcp-integrations/custom", add),
            ("/console/servers/a/reconnect", "POST", "/api/servers/a/reconnect", ""),
            (&*revoke.0, "DELETE", &*revoke.1, ""),
        ] {
            let shown = match page.strip_prefix("GET ") {
                Some(page) => get(page).with("Cookie", &cookie).send(at).await,
                None => submit(&gate, &cookie, page, &[("cases", "[]"), ("name", "n")]).await,
            };
            let request = Request::bare(method, path, body.to_owned());
            let answer = request.with("Content-Type", "application/json").by(&key).send(at).await;
            assert_eq!(shown.status == 403, answer.status == 403, "{name} {page} {shown:?}");
            assert!(shown.status < 500 && answer.status < 500, "{page} {shown:?} {answer:?}");
        }
    }
    until("refusals of both are on the record", async || {
        let trail = std::fs::read_to_string(gate.folder.path().join("audit.jsonl")).unwrap();
        let refused = |path: &str| trail.contains(&format!("{path}\""));
        let is_shown = refused(&format!("POST {}", revoke.0));
        (is_shown && refused(&format!("DELETE {}", revoke.1))).then_some(())
    })
    .await;
}

/// Every page has a policy, and scripts and styles of the console alone.
#[tokio::test]
async fn every_page_runs_nothing_but_the_files_of_the_console() {
    let server = Upstream::http(modern(&["t"])).await;
    let gate = Gate::start(json!({
        "servers": {"a": server.config(), "bad": {"url": "http://127.0.0.1:1/<script>"}},
        "audit": {"output": "file", "file": "audit.jsonl"},
    }))
    .await;
    for path in [
        "",
        "/sign-in",
        "/servers",
        "/servers/bad",
        "/tools",
        "/tools/a__t",
        "/agents",
        "/integrations/new",
        "/access",
        "/approvals",
        "/keys",
        "/keys/new",
        "/audit",
        "/activity",
        "/usage",
        "/organisations",
        "/organisations/default",
        "/pins",
        "/settings",
        "/sessions",
        "/connections",
        "/nowhere",
    ] {
        let page = get(&format!("/console{path}")).send(gate.address).await;
        let expected = if path == "/nowhere" { 404 } else { 200 };
        let text = page.text();
        assert_eq!(page.status, expected, "{path}: {text}");
        let policy = page.header("content-security-policy").unwrap();
        assert!(policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"), "{path}");
        let nonce = policy.split("'nonce-").nth(1).unwrap().split('\'').next().unwrap();
        for script in text.split("<script").skip(1) {
            assert!(script.contains(&format!("nonce=\"{nonce}\"")), "{path}: {script}");
        }
        assert!(!text.contains(" style=") && !text.contains("<style"), "{path}");
        for tag in text.split('<').filter(|tag| tag.contains(" hx-get=")) {
            assert!(tag.contains(&format!("hx-nonce=\"{nonce}\"")), "{path}: {tag}");
        }
    }
    let list = get("/console/servers").send(gate.address).await.text();
    let place = |name: &str| list.find(&format!("/console/servers/{name}\"")).unwrap();
    assert!(place("bad") < place("a"), "a failing server comes first: {list}");
}

/// Reads up to an event of this name.
async fn hear(stream: &mut Stream, name: &str) {
    while let Some(block) = stream.block().await {
        if block.contains(&format!("event: {name}\n")) {
            return;
        }
    }
    panic!("the stream has ended without {name}");
}

async fn list_sessions(gate: &Gate, by: &str) -> Vec<(String, String)> {
    let answer = get("/api/sessions").by(by).send(gate.address).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let mut found = Vec::new();
    for item in answer.json()["items"].as_array().unwrap() {
        let text = |name: &str| item[name].as_str().unwrap().to_owned();
        found.push((text("organizationId"), text("id")));
    }
    found
}

#[tokio::test]
async fn an_administrator_ends_sessions_of_its_organisation_and_their_pages_hear_of_it() {
    let server = Upstream::http(modern(&["t"])).await;
    let gate = gate(&server, json!({"audit": {"file": "audit.jsonl"}})).await;
    let at = gate.address;
    let member = async |name: &str, organisation: &str, role: &str| {
        key(&gate, name, &["--organisation", organisation, "--role", role]).await
    };
    let admin = member("lead", "acme", "admin").await;
    let user = key(&gate, "user", &["--organisation", "acme"]).await;
    let (boss, other) =
        (member("boss", "acme", "operator").await, member("else", "globex", "admin").await);
    let cookies = [
        sign_in(&gate, &user).await,
        sign_in(&gate, &user).await,
        sign_in(&gate, &boss).await,
        sign_in(&gate, &other).await,
    ];
    let [one, two, operator, stranger] = &cookies;
    let status =
        async |cookie: &str| get("/console/servers").with("Cookie", cookie).send(at).await.status;
    assert_eq!(get("/api/sessions").by(&user).send(at).await.status, 403);
    let of_acme = list_sessions(&gate, &admin).await;
    assert!(of_acme.len() == 3 && of_acme.iter().all(|(name, _)| name == "acme"), "{of_acme:?}");
    let all = list_sessions(&gate, &boss).await;
    assert_eq!(all.len(), 4, "{all:?}");
    let end = async |id: &str, by: &str| {
        let path = format!("/api/sessions/{id}");
        Request::bare("DELETE", &path, "").by(by).send(at).await.status
    };
    let foreign = all.iter().find(|(organisation, _)| organisation == "globex").unwrap();
    assert_eq!(end(&foreign.1, &admin).await, 404);

    let mut stream = get("/console/events").with("Cookie", one).open(at).await;
    assert_eq!(stream.head.status, 200);
    let mut ends = Vec::new();
    for (_, id) in &of_acme {
        ends.push(end(id, &admin).await);
    }
    ends.sort_unstable();
    assert_eq!(ends, [204, 204, 403], "not that of an operator");
    hear(&mut stream, "signed-out").await;
    for (cookie, expected) in [(one, 303), (two, 303), (operator, 200), (stranger, 200)] {
        assert_eq!(status(cookie).await, expected);
    }
    // A page that reconnects receives the event too.
    let again = get("/console/events").with("Cookie", one).send(at).await;
    assert_eq!((again.status, again.text().contains("event: signed-out")), (200, true));
    until("the ends are on the record", async || {
        let trail = std::fs::read_to_string(gate.folder.path().join("audit.jsonl")).unwrap();
        (trail.matches("\"action\":\"end session\"").count() == 2).then_some(())
    })
    .await;
}

#[tokio::test]
async fn who_signs_out_or_in_anew_leaves_no_stream_and_no_session() {
    let server = Upstream::http(modern(&["t"])).await;
    let gate = gate(&server, json!({})).await;
    let at = gate.address;
    let ada = key(&gate, "ada", &["--role", "operator"]).await;
    let first = sign_in(&gate, &ada).await;
    let mut stream = get("/console/events").with("Cookie", &first).open(at).await;
    let again = form(at, "/console/sign-in", &[("key", &ada)]).with("Cookie", &first);
    let second = session_of(&again.send(at).await);
    hear(&mut stream, "signed-out").await;
    assert_eq!(get("/console").with("Cookie", &first).send(at).await.status, 303);

    let mut stream = get("/console/events").with("Cookie", &second).open(at).await;
    let page = get("/console").with("Cookie", &second).send(at).await;
    let token = hidden_field(&page, "token");
    let leave = form(at, "/console/sign-out", &[("token", &token)]).with("Cookie", &second);
    let left = leave.send(at).await;
    assert_eq!(left.header("location"), Some("/console/sign-in?out=key"));
    hear(&mut stream, "signed-out").await;
    assert_eq!(list_sessions(&gate, &ada).await, []);
}

#[tokio::test]
async fn a_page_of_another_site_takes_no_place_in_the_background() {
    let server = Upstream::http(modern(&["t"])).await;
    // The local user is authenticated by the connection alone.
    let gate = Gate::start(json!({"servers": {"a": server.config()}})).await;
    let at = gate.address;
    let ask = |path: &str, site: &str, mode: &str| {
        get(path).with("Sec-Fetch-Site", site).with("Sec-Fetch-Mode", mode)
    };
    for path in ["/console/events", "/console/audit", "/console"] {
        for site in ["cross-site", "same-site"] {
            let refused = ask(path, site, "no-cors").send(at).await;
            assert_eq!(refused.status, 403, "{path} {site}");
        }
    }
    let link = ask("/console/servers", "cross-site", "navigate").send(at).await;
    assert_eq!(link.status, 200, "links are followed");
    let own = ask("/console/events", "same-origin", "cors").open(at).await;
    assert_eq!(own.head.status, 200);
}

/// Limit on loading a page of the list: generous for a debug build on a loaded machine; a release
/// build takes less than 100 ms.
const PAGE_TIMEOUT: Duration = Duration::from_secs(5);

#[tokio::test]
async fn a_list_of_ten_thousand_tools_is_paged_and_searched() {
    let names: Vec<String> = (0..10_000).map(|at| format!("tool_{at:05}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let server = Upstream::http(modern(&names)).await;
    let mut config = server.config();
    config["limits"] = json!({"list_items": 10_000});
    let gate = Gate::start(json!({"servers": {"a": config}})).await;
    let at = gate.address;
    until("all tools are there", async || {
        let found = get("/api/tools?limit=1").send(at).await.json();
        (found["total"] == 10_000).then_some(())
    })
    .await;
    let mut slowest = Duration::ZERO;
    for (path, first, last, count) in [
        ("/console/tools", "tool_00000", "tool_00099", "10000"),
        ("/console/tools?after=a__tool_00099", "tool_00100", "tool_00199", "10000"),
        ("/console/tools?q=_0999", "tool_09990", "tool_09999", "10"),
        ("/console/servers/a", "tool_00000", "tool_00011", "Show all 10000 tools"),
        ("/console", "Overview", "Overview", "10000"),
    ] {
        let began = Instant::now();
        let page = get(path).send(at).await;
        let taken = began.elapsed();
        slowest = slowest.max(taken);
        let text = page.text();
        let rows = text.matches("/console/tools/a__tool_").count();
        eprintln!("{path}: {taken:?}, {rows} tools, {} bytes", text.len());
        assert_eq!(page.status, 200, "{path}: {text}");
        assert!(text.contains(first) && text.contains(last) && text.contains(count), "{path}");
        assert!(rows <= 100, "{path} has {rows} tools");
    }
    assert!(slowest < PAGE_TIMEOUT, "{slowest:?}");
}
