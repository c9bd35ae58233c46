//! The operator's catalogue over the API: integrations added by name follow their entry on a
//! reload, and organisations cannot see the entry's URL.

use crate::console::{form, get, hidden_field, sign_in};
use crate::principals::{By, key};
use crate::rig::client::Request;
use crate::rig::upstream::modern;
use crate::rig::{Answer, Gate, Upstream, Value, json, until};

const TOKEN: &str = "canary-77c1-token-of-acme";

fn config(entries: &Value) -> Value {
    json!({
        "auth": {"keys_file": "keys.yaml"},
        "audit": {"output": "file", "file": "audit.jsonl"},
        "store": {"keys": ["a-key-of-the-ring-that-is-long-enough"]},
        "catalogue": entries,
    })
}

fn url(server: &Upstream) -> String {
    format!("http://{}/mcp", server.address)
}

async fn ask(gate: &Gate, by: &str, verb: &'static str, path: &str, body: Value) -> Answer {
    let text = if body.is_null() { String::new() } else { body.to_string() };
    Request::bare(verb, &format!("/api{path}"), text).by(by).send(gate.address).await
}

async fn tools(gate: &Gate, by: &str) -> String {
    Request::modern("/mcp", "tools/list", json!({})).by(by).send(gate.address).await.text()
}

const PREDEFINED: &str = "/mcp-integrations/predefined";

#[tokio::test]
async fn an_integration_from_the_catalogue_follows_its_entry() {
    let old = Upstream::http(modern(&["old"])).await;
    let new = Upstream::http(modern(&["new"])).await;
    let entry = |server: &Upstream| {
        json!({"open": {"url": url(server), "title": "Open"},
            "sealed": {"url": url(server), "description": "With a token", "auth": "bearer_token"}})
    };
    let gate = Gate::start(config(&entry(&old))).await;
    let admin = key(&gate, "admin", &["--role", "admin", "--organisation", "acme"]).await;
    let user = key(&gate, "user", &["--organisation", "acme"]).await;
    let listed = ask(&gate, &user, "GET", "/mcp-integrations/predefined/available", Value::Null);
    let listed = listed.await.json();
    assert_eq!(
        listed["items"],
        json!([{"slug": "open", "name": "Open", "authMethod": "none"},
            {"slug": "sealed", "name": "sealed", "description": "With a token",
                "authMethod": "bearer_token"}])
    );
    let open = json!({"slug": "open", "validate": true});
    let open = ask(&gate, &admin, "POST", PREDEFINED, open).await;
    assert_eq!(open.status, 201, "{}", open.text());
    let open = open.json();
    for (member, value) in
        [("type", "predefined"), ("slug", "open"), ("predefined", "open"), ("name", "Open")]
    {
        assert_eq!(open[member], value, "{open}");
    }
    assert!(open.get("serverUrl").is_none(), "{open}");
    let sealed = json!({"slug": "sealed", "name": "Ours", "credentials": TOKEN});
    let sealed = ask(&gate, &admin, "POST", PREDEFINED, sealed).await.json();
    let sealed = format!("/mcp-integrations/{}", sealed["id"].as_str().unwrap());
    until("both are listed", async || {
        let tools = tools(&gate, &user).await;
        (tools.contains("open__old") && tools.contains("sealed__old")).then_some(())
    })
    .await;
    let heard = old.heard();
    let bearer = format!("Bearer {TOKEN}");
    assert!(heard.iter().any(|heard| heard.header("authorization") == Some(bearer.as_str())));

    gate.configure(config(&entry(&new)));
    until("the open one follows, the other waits for its credentials", async || {
        let tools = tools(&gate, &user).await;
        let shown = ask(&gate, &admin, "GET", &sealed, Value::Null).await.json();
        let is_there = tools.contains("open__new") && !tools.contains("sealed__");
        (is_there && shown["state"] == "needs-auth").then_some(())
    })
    .await;
    let heard = new.heard();
    assert!(heard.iter().all(|heard| heard.header("authorization").is_none()), "sent elsewhere");
    let cookie = sign_in(&gate, &admin).await;
    let open_page = async |path: &str| get(path).with("Cookie", &cookie).send(gate.address).await;
    let page = format!("/console{}", sealed.replace("mcp-", ""));
    let overview = open_page("/console").await.text();
    let matter = overview.split("sealed is not connected.").nth(1).unwrap_or_default();
    assert!(matter.contains(&format!("href=\"{page}\">Fix")), "{overview}");
    let shown = open_page(&page).await;
    assert!(!shown.text().contains("name=\"serverUrl\""), "{}", shown.text());
    assert!(!shown.text().contains("href=\"/console/servers/sealed\""), "{}", shown.text());
    let fields = ["token", "page", "version"].map(|name| (name, hidden_field(&shown, name)));
    let mut fields: Vec<_> = fields.iter().map(|(name, value)| (*name, &**value)).collect();
    fields.extend([("name", "Ours"), ("credentials", TOKEN)]);
    let sent = form(gate.address, &page, &fields).with("Cookie", &cookie);
    let saved = sent.send(gate.address).await;
    assert_eq!(saved.status, 303, "{}", saved.text());
    until("it is listed again", async || {
        tools(&gate, &user).await.contains("sealed__new").then_some(())
    })
    .await;

    gate.configure(config(&json!({})));
    let own = format!("/mcp-integrations/{}", open["id"].as_str().unwrap());
    until("what has no entry says so", async || {
        let shown = ask(&gate, &admin, "GET", &own, Value::Null).await.json();
        let says = shown["reason"].as_str().unwrap_or_default().contains("removed from the");
        (shown["state"] == "failed" && says && !tools(&gate, &user).await.contains("open__"))
            .then_some(())
    })
    .await;
    assert!(!gate.log().contains(TOKEN));
}

#[tokio::test]
async fn nobody_of_an_organisation_learns_where_the_catalogue_is() {
    let server = Upstream::http(modern(&["t"])).await;
    let mut gone = Upstream::http(modern(&["t"])).await;
    gone.stop().await;
    let (here, nowhere) = (url(&server), url(&gone));
    let gate = Gate::start(config(&json!({
        "here": {"url": here, "auth": "api_key", "header": "X-Key"}, "nowhere": {"url": nowhere},
    })))
    .await;
    let admin = key(&gate, "admin", &["--role", "admin", "--organisation", "acme"]).await;
    for (body, status, code, pointer) in [
        (json!({"slug": "other"}), 404, "PREDEFINED_NOT_FOUND", "#/slug"),
        (json!({"slug": "here"}), 400, "INVALID_FIELD", "#/credentials"),
        (json!({"slug": "nowhere", "credentials": "x"}), 400, "INVALID_FIELD", "#/credentials"),
        (json!({"slug": "here", "serverUrl": "http://x/"}), 400, "INVALID_BODY", "#/serverUrl"),
        (json!({"name": "x"}), 400, "INVALID_BODY", "#"),
    ] {
        let refused = ask(&gate, &admin, "POST", PREDEFINED, body.clone()).await;
        let found = refused.json();
        assert_eq!((refused.status, &found["code"]), (status, &json!(code)), "{body}: {found}");
        assert_eq!(found["errors"][0]["pointer"], pointer, "{body}: {found}");
    }
    let mut seen = String::new();
    let tried = json!({"slug": "nowhere", "validate": true});
    let tried = ask(&gate, &admin, "POST", PREDEFINED, tried).await;
    assert_eq!((tried.status, &tried.json()["code"]), (400, &json!("VALIDATION_FAILED")));
    seen.push_str(&tried.text());
    for slug in ["here", "nowhere"] {
        let credentials = (slug == "here").then_some("k3y-of-acme");
        let body = json!({"slug": slug, "credentials": credentials});
        let made = ask(&gate, &admin, "POST", PREDEFINED, body).await;
        assert_eq!(made.status, 201, "{}", made.text());
        let path = format!("/mcp-integrations/{}", made.json()["id"].as_str().unwrap());
        let refused = json!({"serverUrl": "http://127.0.0.1:1/"});
        let refused = ask(&gate, &admin, "PATCH", &path, refused).await;
        assert_eq!((refused.status, &refused.json()["code"]), (400, &json!("INVALID_FIELD")));
        let valid = ask(&gate, &admin, "POST", &format!("{path}/validate"), Value::Null).await;
        assert_eq!(valid.json()["valid"], slug == "here", "{}", valid.text());
        seen.push_str(&(made.text() + &valid.text() + &refused.text()));
    }
    until("the one that is nowhere has failed", async || {
        let servers = ask(&gate, &admin, "GET", "/servers/nowhere", Value::Null).await;
        (servers.json()["state"] == "failed").then_some(())
    })
    .await;
    for path in ["/servers", "/mcp-integrations", "/events?once", "/tools", "/audit"] {
        if !path.contains("events") {
            seen.push_str(&ask(&gate, &admin, "GET", path, Value::Null).await.text());
        }
    }
    let hosts = [server.address.to_string(), gone.address.to_string()];
    assert!(hosts.iter().all(|host| !seen.contains(host)), "{hosts:?}: {seen}");
}
