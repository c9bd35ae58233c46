//! The REST API for keys, the audit trail and approvals: no key exceeds its creator's permissions,
//! organisations are isolated, and approvals count as they do over MCP.

use std::time::Duration;

use crate::approvals::{ONE, Rig};
use crate::principals::{By, key};
use crate::rig::client::Request;
use crate::rig::upstream::modern;
use crate::rig::{Answer, Gate, Upstream, Value, json, until};

fn get(path: &str) -> Request {
    Request::bare("GET", path, "")
}

fn post(path: &str, body: &Value) -> Request {
    Request::bare("POST", path, body.to_string())
}

fn delete(path: &str) -> Request {
    Request::bare("DELETE", path, "")
}

fn code(answer: &Answer) -> (u16, String) {
    (answer.status, answer.json()["code"].as_str().unwrap_or_default().to_owned())
}

async fn gate_with_keys(server: &Upstream) -> Gate {
    Gate::start(json!({
        "servers": {"a": server.config()}, "auth": {"keys_file": "keys.yaml"},
        "audit": {"output": "file", "file": "audit.jsonl"},
    }))
    .await
}

#[tokio::test]
async fn a_key_made_over_the_api_is_good_at_once_and_revoked_at_once() {
    let server = Upstream::http(modern(&["t"])).await;
    let gate = gate_with_keys(&server).await;
    let at = gate.address;
    let admin = key(&gate, "admin", &["--role", "admin", "--organisation", "acme"]).await;
    let body = json!({"name": "ci", "expiresAt": "2199-01-31"});
    let made = post("/api/keys", &body).by(&admin).send(at).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let made = made.json();
    assert_eq!((&made["organizationId"], &made["state"]), (&json!("acme"), &json!("active")));
    let (text, id) = (made["key"].as_str().unwrap(), made["id"].as_str().unwrap());
    assert_eq!(get("/api/servers").by(text).send(at).await.status, 200);
    let listed = get("/api/keys").by(&admin).send(at).await.text();
    let (_, secret) = text.rsplit_once('_').unwrap();
    assert!(listed.contains(id) && !listed.contains(secret), "{listed}");
    let file = std::fs::read_to_string(gate.folder.path().join("keys.yaml")).unwrap();
    assert!(file.contains(id) && !file.contains(secret), "{file}");
    let path = format!("/api/keys/{id}");
    assert_eq!(delete(&path).by(&admin).send(at).await.status, 204);
    assert_eq!(get("/api/servers").by(text).send(at).await.status, 401);
    assert_eq!(delete(&path).by(&admin).send(at).await.status, 204, "it stays revoked");
    let trail = gate.folder.path().join("audit.jsonl");
    until("both changes are on the record", async || {
        let text = std::fs::read_to_string(&trail).unwrap_or_default();
        assert!(!text.contains(secret), "{text}");
        (text.contains("\"create key\"") && text.contains("\"revoke key\"")).then_some(())
    })
    .await;
    let text = std::fs::read_to_string(&trail).unwrap();
    assert_eq!(text.matches("\"revoke key\"").count(), 1, "nothing is done twice: {text}");
    // Concurrent creations: none is lost.
    let mut all = Vec::new();
    for number in 0..4 {
        let request = post("/api/keys", &json!({"name": format!("n{number}")})).by(&admin);
        all.push(tokio::spawn(async move { request.send(at).await.status }));
    }
    for one in all {
        assert_eq!(one.await.unwrap(), 201);
    }
    assert_eq!(get("/api/keys?search=").by(&admin).send(at).await.json()["total"], 6);
}

/// An invalid configuration is not applied: new keys stay inactive, revoked keys are rejected.
#[tokio::test]
async fn a_key_that_is_not_in_force_is_not_said_to_be() {
    let server = Upstream::http(modern(&["t"])).await;
    let gate = gate_with_keys(&server).await;
    let at = gate.address;
    let operator = key(&gate, "operator", &["--role", "operator"]).await;
    let good = json!({"servers": {"a": server.config()}, "auth": {"keys_file": "keys.yaml"},
        "audit": {"output": "file", "file": "audit.jsonl"}});
    let mut broken = good.clone();
    broken["nonsense"] = json!(1);
    let first = post("/api/keys", &json!({"name": "first"})).by(&operator).send(at).await.json();
    let holder = first["key"].as_str().unwrap();
    gate.configure(broken);
    let made = post("/api/keys", &json!({"name": "second"})).by(&operator).send(at).await;
    let found = made.json();
    assert_eq!((made.status, &found["state"]), (202, &json!("pending")), "{found}");
    let second = found["key"].as_str().unwrap();
    assert_eq!(get("/api/servers").by(second).send(at).await.status, 401);
    let path = format!("/api/keys/{}", first["id"].as_str().unwrap());
    assert_eq!(delete(&path).by(&operator).send(at).await.status, 204);
    assert_eq!(get("/api/servers").by(holder).send(at).await.status, 401);
    gate.configure(good);
    until("the second is in force", async || {
        (get("/api/servers").by(second).send(at).await.status == 200).then_some(())
    })
    .await;
}

#[tokio::test]
async fn nobody_makes_or_revokes_a_key_that_may_more_than_they() {
    let server = Upstream::http(modern(&["t"])).await;
    let gate = gate_with_keys(&server).await;
    let at = gate.address;
    let user = key(&gate, "user", &[]).await;
    let admin = key(&gate, "admin", &["--role", "admin", "--organisation", "acme"]).await;
    let plain = key(&gate, "plain-admin", &["--role", "admin"]).await;
    let operator = key(&gate, "operator", &["--role", "operator"]).await;
    let id = |key: &str| key.split('_').nth(1).unwrap().to_owned();
    for (body, status, pointer) in [
        (json!({"name": "x", "roles": ["operator"]}), 403, "#/roles"),
        (json!({"name": "x", "roles": ["admin", "analyst"]}), 403, "#/roles/1"),
        (json!({"name": "x", "scopes": ["mcp"]}), 403, "#/scopes/0"),
        (json!({"name": "x", "agent": "builder"}), 403, "#/agent"),
        (json!({"name": "x", "organizationId": "other"}), 403, "#/organizationId"),
        (json!({"name": "x", "organizationId": "default"}), 403, "#/organizationId"),
        (json!({"name": ""}), 400, "#/name"),
        (json!({"name": "a\nb"}), 400, "#/name"),
        (json!({"name": "x".repeat(257)}), 400, "#/name"),
        (json!({"name": "x", "agent": "a\u{0}"}), 400, "#/agent"),
        (json!({"name": "x", "roles": [""]}), 400, "#/roles/0"),
        (json!({"name": "x", "scopes": ["a b"]}), 400, "#/scopes/0"),
        (json!({"name": "x", "expiresAt": "2001-01-31"}), 400, "#/expiresAt"),
        (json!({"name": "x", "expiresAt": "soon"}), 400, "#/expiresAt"),
        (json!({"name": "x", "hash": "blake3:00"}), 400, "#/hash"),
        (json!({"name": "x", "roles": vec!["admin"; 300]}), 400, "#/roles"),
        (json!({"name": "x", "roles": ["admin", "admin"]}), 400, "#/roles/1"),
    ] {
        let refused = post("/api/keys", &body).by(&admin).send(at).await;
        let found = refused.json();
        assert_eq!(refused.status, status, "{body}: {found}");
        assert_eq!(found["errors"][0]["pointer"], pointer, "{body}: {found}");
    }
    let own = post("/api/keys", &json!({"name": "second", "roles": ["admin"]})).by(&admin);
    assert_eq!(own.send(at).await.status, 201, "an administrator makes another one");
    let elsewhere = json!({"name": "x", "organizationId": "other", "roles": ["operator", "any"]});
    let unknown = post("/api/keys", &elsewhere).by(&operator).send(at).await;
    assert_eq!(code(&unknown), (404, "ORGANIZATION_NOT_FOUND".into()), "a typo creates nothing");
    let created = post("/api/organisations", &json!({"id": "other"})).by(&operator);
    assert_eq!(created.send(at).await.status, 201);
    let made = post("/api/keys", &elsewhere).by(&operator).send(at).await;
    assert_eq!((made.status, &made.json()["organizationId"]), (201, &json!("other")));
    assert_eq!(code(&post("/api/keys", &json!({"name": "x"})).by(&user).send(at).await).0, 403);
    // A foreign key is like a missing key, and keys with higher permissions stay.
    for name in [id(&user), id(&operator), "0000000000000000".into(), "%2e%2e".into()] {
        let refused = delete(&format!("/api/keys/{name}")).by(&admin).send(at).await;
        assert_eq!(code(&refused), (404, "KEY_NOT_FOUND".into()), "{name}");
    }
    let refused = delete(&format!("/api/keys/{}", id(&operator))).by(&plain).send(at).await;
    assert_eq!(code(&refused), (403, "FORBIDDEN".into()), "of its own organisation");
    assert_eq!(get("/api/servers").by(&operator).send(at).await.status, 200);
}

#[tokio::test]
async fn the_trail_is_searched_by_who_may_see_it_over_garbage() {
    let server = Upstream::http(modern(&["t"])).await;
    let gate = gate_with_keys(&server).await;
    let at = gate.address;
    let admin = key(&gate, "admin", &["--role", "admin", "--organisation", "acme"]).await;
    let member = key(&gate, "member", &["--organisation", "acme"]).await;
    let stranger = key(&gate, "stranger", &["--organisation", "other"]).await;
    let operator = key(&gate, "operator", &["--role", "operator"]).await;
    for holder in [&member, &stranger] {
        let called = post("/api/tools/a__t/execute", &json!({})).by(holder).send(at).await;
        assert_eq!(called.status, 200, "{}", called.text());
    }
    let hidden = post("/api/tools/a__nothing/execute", &json!({})).by(&member).send(at).await;
    assert_eq!(hidden.status, 404);
    let search = async |holder: &str, query: &str| {
        get(&format!("/api/audit?{query}")).by(holder).send(at).await.json()
    };
    let calls = "kind=decision&tool=a__t";
    let all = until("both calls are recorded", async || {
        let found = search(&operator, calls).await;
        let items = found["items"].as_array().unwrap_or_else(|| panic!("{found}"));
        let ended = items.iter().filter(|item| item["outcome"] == "ok").count();
        (ended == 2).then_some(found)
    })
    .await;
    assert_eq!((&all["complete"], &all["whole"]), (&json!(true), &json!(true)), "{all}");
    until("the denial is recorded", async || {
        let denied = search(&admin, "decision=deny").await;
        (denied["items"].as_array().map(Vec::len) == Some(1)).then_some(())
    })
    .await;
    let own = search(&admin, "").await;
    let items = own["items"].as_array().unwrap();
    assert!(!items.is_empty(), "{own}");
    for item in items {
        assert_eq!(item["organisation"], "acme", "{own}");
        assert!(item["hash"].is_null() && item["prev"].is_null(), "{own}");
        // These count the activity of all organisations.
        assert!(item["seq"].is_null() && item["call"].is_null(), "{own}");
    }
    assert!(own["gaps"].is_null() && own["unreadable"].is_null(), "{own}");
    let first = search(&admin, "limit=1").await;
    let next = first["nextCursor"].as_str().unwrap_or_else(|| panic!("{first}"));
    assert!(next.len() > 40, "a cursor says nothing: {next}");
    assert!(search(&admin, &format!("cursor={next}")).await["items"].is_array());
    let stolen = get(&format!("/api/audit?cursor={next}")).by(&operator).send(at).await;
    assert_eq!(code(&stolen), (400, "INVALID_QUERY".into()));
    assert!(!own.to_string().contains("other"), "{own}");
    let who = member.split('_').nth(1).unwrap();
    for query in [format!("principal={who}&{calls}"), format!("principal=key%7C{who}&{calls}")] {
        let found = search(&operator, &query).await;
        assert_eq!(found["items"].as_array().map(Vec::len), Some(1), "{query}: {found}");
    }
    assert_eq!(search(&operator, "from=2199-01-01").await["items"], json!([]));
    assert_eq!(search(&operator, "to=2001-01-01T00:00:00Z").await["items"], json!([]));
    let paged = search(&operator, &format!("{calls}&limit=1")).await;
    let next = paged["nextCursor"].as_str().unwrap_or_else(|| panic!("{paged}"));
    let rest = search(&operator, &format!("{calls}&limit=1&cursor={next}")).await;
    assert_ne!(paged["items"][0]["seq"], rest["items"][0]["seq"], "{rest}");
    for (holder, query, wanted) in [
        (&member, "", (403, "FORBIDDEN")),
        (&admin, "organizationId=other", (404, "ORGANIZATION_NOT_FOUND")),
        (&operator, "limit=201", (400, "INVALID_QUERY")),
        (&operator, "limit=0", (400, "INVALID_QUERY")),
        (&operator, "cursor=x", (400, "INVALID_QUERY")),
        (&operator, "from=yesterday", (400, "INVALID_QUERY")),
        (&operator, "tools=a__t", (400, "INVALID_QUERY")),
    ] {
        let refused = get(&format!("/api/audit?{query}")).by(holder).send(at).await;
        assert_eq!(code(&refused), (wanted.0, wanted.1.to_owned()), "{query}");
    }
    // A corrupted trail is reported, and the search continues.
    let file = gate.folder.path().join("audit.jsonl");
    let mut trail = std::fs::OpenOptions::new().append(true).open(file).unwrap();
    std::io::Write::write_all(&mut trail, b"garbage\n{\"seq\":1}\n\xff\xfe\n").unwrap();
    let found = search(&operator, calls).await;
    assert_eq!(found["items"].as_array().map(Vec::len), Some(2), "{found}");
    assert_eq!(found["whole"], false, "{found}");
}

/// Fields hidden from an administrator are not searchable either.
#[tokio::test]
async fn nobody_finds_out_by_asking_what_the_trail_does_not_show_them() {
    let server = Upstream::http(modern(&["t", "u"])).await;
    let gate = Gate::start(json!({
        "servers": {"a": server.config()}, "auth": {"keys_file": "keys.yaml"},
        "audit": {"output": "file", "file": "audit.jsonl"},
        "policy": {"tools": {"deny": ["a__u"]}},
    }))
    .await;
    let at = gate.address;
    let admin = key(&gate, "admin", &["--role", "admin", "--organisation", "acme"]).await;
    let operator = key(&gate, "operator", &["--role", "operator"]).await;
    let hidden = post("/api/tools/a__u/execute", &json!({})).by(&admin).send(at).await;
    assert_eq!(hidden.status, 404, "{}", hidden.text());
    let count = async |holder: &str, query: &str| {
        let found = get(&format!("/api/audit?{query}")).by(holder).send(at).await.json();
        found["items"].as_array().unwrap_or_else(|| panic!("{found}")).len()
    };
    until("the denial is on the record", async || {
        (count(&operator, "decision=deny&server=a").await == 1).then_some(())
    })
    .await;
    assert_eq!(count(&admin, "decision=deny&tool=a__u").await, 1);
    assert_eq!(count(&admin, "decision=deny&server=a").await, 0, "it is hidden from them");
    let unknown = post("/api/tools/a__none/execute", &json!({})).by(&admin).send(at).await;
    assert_eq!(unknown.status, 404, "{}", unknown.text());
    let members = async |tool: &str| {
        let query = format!("/api/audit?decision=deny&tool={tool}");
        let found = get(&query).by(&admin).send(at).await.json();
        let mut names = Vec::new();
        for name in found["items"][0].as_object()?.keys() {
            names.push(name.clone());
        }
        Some(names)
    };
    let expected = until("the other is on the record", async || members("a__none").await).await;
    assert_eq!(members("a__u").await, Some(expected), "a hidden tool looks like an unknown one");
}

#[tokio::test]
async fn what_is_switched_reset_and_refused_is_on_the_record() {
    let server = Upstream::http(modern(&["t"])).await;
    let gate = gate_with_keys(&server).await;
    let at = gate.address;
    let user = key(&gate, "user", &[]).await;
    let admin = key(&gate, "admin", &["--role", "admin"]).await;
    let operator = key(&gate, "operator", &["--role", "operator"]).await;
    let called = post("/api/tools/a__t/execute", &json!({})).by(&user).send(at).await;
    assert_eq!(called.status, 200, "{}", called.text());
    let none = Value::Null;
    let refused = [
        (&user, "/api/servers/a/disconnect", none.clone(), "FORBIDDEN"),
        (&admin, "/api/servers/a/disconnect", none.clone(), "FORBIDDEN"),
        (&admin, "/api/keys", json!({"name": "x", "roles": ["operator"]}), "FORBIDDEN"),
        (&admin, "/api/agents?organizationId=other", json!({}), "ORGANIZATION_NOT_FOUND"),
    ];
    for (holder, path, body, wanted) in &refused {
        let answer = post(path, body).by(holder).send(at).await;
        assert_eq!(code(&answer).1, *wanted, "{path}");
    }
    let foreign = get("/api/servers").by(&user).with("Origin", "http://localhost:1");
    assert_eq!(code(&foreign.send(at).await), (403, "CROSS_ORIGIN".into()));
    let foreign = get("/trpc/mcp.status").by(&user).with("Origin", "http://localhost:1");
    assert_eq!(foreign.send(at).await.status, 403);
    for path in ["tools/a__t/metrics/reset", "servers/a/disconnect", "servers/a/connect"] {
        let done = post(&format!("/api/{path}"), &none).by(&operator).send(at).await;
        assert_eq!(done.status, 200, "{path}: {}", done.text());
    }
    let search = async |holder: &str, query: &str| {
        let found = get(&format!("/api/audit?{query}")).by(holder).send(at).await.json();
        found["items"].as_array().unwrap_or_else(|| panic!("{found}")).clone()
    };
    let changes = until("three changes are on the record", async || {
        let found = search(&operator, "kind=change").await;
        (found.len() == 3).then_some(found)
    })
    .await;
    let actions: Vec<&Value> = changes.iter().map(|change| &change["action"]).collect();
    assert_eq!(actions, ["connect server", "disconnect server", "reset tool metrics"]);
    let id = operator.split('_').nth(1).unwrap();
    for change in &changes {
        assert_eq!((&change["who"], &change["organisation"]), (&json!(id), &Value::Null));
    }
    assert_eq!(changes[1]["before"], json!({"server": "a", "state": "connected"}));
    assert_eq!(changes[1]["after"], json!({"server": "a", "state": "disabled"}));
    assert_eq!(changes[2]["before"]["metrics"]["invocations"], 1, "{}", changes[2]);
    let refusals = until("every refusal is on the record", async || {
        let found = search(&operator, "kind=refusal").await;
        let mut own = Vec::new();
        for record in found.into_iter().filter(|record| record["reason"] == "forbidden") {
            own.push(record);
        }
        (own.len() == refused.len() + 2).then_some(own)
    })
    .await;
    let text = json!(refusals).to_string();
    for part in [
        "POST /api/servers/a/disconnect",
        "POST /api/keys",
        "GET /trpc/mcp.status",
        "CROSS_ORIGIN",
        "ORGANIZATION_NOT_FOUND",
        user.split('_').nth(1).unwrap(),
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // Changes to the shared configuration belong to no organisation.
    assert_eq!(search(&admin, "kind=change").await, Vec::<Value>::new());
}

#[tokio::test]
async fn a_call_is_approved_over_the_api_by_who_may() {
    let rig = Rig::new(ONE, json!({})).await;
    let at = rig.gate.address;
    let ann = rig.person("ann").await;
    let bob = rig.approver("bob").await;
    let call = post("/api/tools/a__wipe/execute", &json!({})).by(&ann);
    let call = tokio::spawn(async move { call.send(at).await });
    let waiting = until("the call waits", async || {
        let listed = get("/api/approvals").by(&bob).send(at).await.json();
        (listed["total"] == 1).then(|| listed["items"][0].clone())
    })
    .await;
    let path = format!("/api/approvals/{}", waiting["id"].as_str().unwrap());
    assert_eq!(get(&path).by(&bob).send(at).await.json()["id"], waiting["id"]);
    let none = (404, "APPROVAL_NOT_FOUND".to_owned());
    assert_eq!(code(&get(&path).by(&ann).send(at).await), none);
    assert_eq!(code(&post(&format!("{path}x/deny"), &json!({})).by(&bob).send(at).await), none);
    let own = post(&format!("{path}/approve"), &json!({})).by(&ann).send(at).await.status;
    assert!(own == 404 || own == 409, "{own}");
    let approved = post(&format!("{path}/approve"), &json!({})).by(&bob).send(at).await;
    assert_eq!((approved.status, &approved.json()["state"]), (200, &json!("approved")));
    assert_eq!(call.await.unwrap().status, 200);
    assert_eq!(rig.calls(), 1);
}

#[tokio::test]
async fn waiting_calls_are_listed_by_age() {
    let rig = Rig::new(ONE, json!({})).await;
    let at = rig.gate.address;
    let ann = rig.person("ann").await;
    let bob = rig.approver("bob").await;
    let list = async |query: &str| get(&format!("/api/approvals?{query}")).by(&bob).send(at).await;
    let mut ids: Vec<Value> = Vec::new();
    for count in 1..=6 {
        let call = post("/api/tools/a__wipe/execute", &json!({})).by(&ann);
        tokio::spawn(async move { call.send(at).await });
        let newest = until("the call waits", async || {
            let listed = list("").await.json();
            let items = listed["items"].as_array().unwrap();
            let mut new = items.iter().map(|item| item["id"].clone());
            (items.len() == count).then(|| new.find(|id| !ids.contains(id)).unwrap())
        });
        ids.push(newest.await);
        // Times are compared in milliseconds.
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
    let mut listed: Vec<Value> = Vec::new();
    let mut query = "limit=2".to_owned();
    loop {
        let page = list(&query).await.json();
        listed.extend(page["items"].as_array().unwrap().iter().map(|item| item["id"].clone()));
        let Some(cursor) = page["nextCursor"].as_str() else { break };
        query = format!("limit=2&cursor={}", cursor.replace('|', "%7C"));
    }
    assert_eq!(listed, ids);
}

#[tokio::test]
async fn a_pinned_tool_is_approved_over_the_api_as_it_was_looked_at() {
    let server = Upstream::http(modern(&["t", "u"])).await;
    let folder = tempfile::tempdir().unwrap();
    let lock = folder.path().join("lockgate.pins.json");
    let gate =
        Gate::start(json!({"servers": {"a": server.config()}, "pins": {"file": lock}})).await;
    let at = gate.address;
    assert!(gate.tools("/mcp").await.0.is_empty(), "nothing is approved yet");
    let diff = get("/api/pins/diff").send(at).await.json();
    assert_eq!(diff["total"], 2, "{diff}");
    let t = &diff["items"][0];
    assert_eq!((&t["name"], &t["standing"]), (&json!("a/t"), &json!("new")), "{t}");
    assert!(t["changes"].as_array().is_some_and(|changes| !changes.is_empty()), "{t}");
    assert_eq!((t.get("before"), &t["after"]["name"]), (None, &json!("t")), "{t}");
    let of_a = get("/api/pins/diff?server=a&limit=1").send(at).await.json();
    assert_eq!((&of_a["total"], &of_a["nextCursor"]), (&json!(2), &json!("a/t")), "{of_a}");
    assert_eq!(get("/api/pins?server=b").send(at).await.json()["total"], 0);
    let print = t["fingerprint"].clone();
    for (tools, wanted) in [
        (json!([]), (400, "INVALID_BODY")),
        (json!([{"name": "a/t", "fingerprint": "x"}]), (409, "PIN_CHANGED")),
        (json!([{"name": "a/none", "fingerprint": print}]), (404, "PIN_NOT_FOUND")),
        (
            json!([{"name": "a/t", "fingerprint": print}, {"name": "a/u", "fingerprint": ""}]),
            (409, "PIN_CHANGED"),
        ),
        (json!([{"name": "a/t"}]), (400, "INVALID_BODY")),
    ] {
        let refused = post("/api/pins/approve", &json!({"tools": tools})).send(at).await;
        assert_eq!(code(&refused), (wanted.0, wanted.1.to_owned()), "{tools}");
    }
    let body = json!({"tools": [{"name": "a/t", "fingerprint": print}]});
    let tried = post("/api/pins/approve?dryRun=true", &body).send(at).await;
    assert_eq!((tried.status, &tried.json()["dryRun"]), (200, &json!(true)));
    assert!(!lock.exists(), "all or none, and nothing that is only tried");
    let approved = post("/api/pins/approve", &body).send(at).await;
    assert_eq!((approved.status, approved.json()), (200, json!({"approved": ["a/t"]})));
    assert_eq!(get("/api/pins/diff").send(at).await.json()["total"], 1);
    until("it is listed", async || (gate.tools("/mcp").await.0 == ["a__t"]).then_some(())).await;
}

/// An organisation with a server's name, or with a `/` in its name, approves only its own tools.
#[tokio::test]
async fn administrators_approve_the_tools_of_their_organisation_alone() {
    let shared = Upstream::http(modern(&["docs/t"])).await;
    let own = Upstream::http(modern(&["t"])).await;
    let folder = tempfile::tempdir().unwrap();
    let lock = folder.path().join("lockgate.pins.json");
    let gate = Gate::start(json!({
        "servers": {"acme": shared.config()}, "auth": {"keys_file": "keys.yaml"},
        "pins": {"file": lock}, "audit": {"output": "file", "file": "audit.jsonl"},
    }))
    .await;
    let at = gate.address;
    let acme = key(&gate, "acme", &["--role", "admin", "--organisation", "acme"]).await;
    let other = key(&gate, "other", &["--role", "admin", "--organisation", "other"]).await;
    let operator = key(&gate, "operator", &["--role", "operator"]).await;
    let body = json!({"name": "Docs", "serverUrl": format!("http://{}/mcp", own.address)});
    for admin in [&acme, &other] {
        let made = post("/api/mcp-integrations/custom", &body).by(admin).send(at).await;
        assert_eq!(made.status, 201, "{}", made.text());
    }
    let waiting = async |by: &str, path: &str| {
        let diff = get(path).by(by).send(at).await.json();
        let mut names = Vec::new();
        for item in diff["items"].as_array().unwrap() {
            names.push((item["name"].clone(), item["organizationId"].clone()));
        }
        names
    };
    let docs = |organisation: &str| vec![(json!("docs/t"), json!(organisation))];
    until("the tool of the integration is quarantined", async || {
        (waiting(&acme, "/api/pins/diff").await == docs("acme")).then_some(())
    })
    .await;
    let operators = waiting(&operator, "/api/pins/diff").await;
    assert_eq!(operators, [(json!("acme/docs/t"), Value::Null)]);
    let all = waiting(&operator, "/api/pins/diff?organizationId=acme").await;
    assert_eq!(all.len(), 2, "{all:?}");
    let tools = async |by: &str| {
        Request::modern("/mcp", "tools/list", json!({})).by(by).send(at).await.text()
    };
    assert!(!tools(&acme).await.contains("docs__t"));
    let diff = get("/api/pins/diff").by(&acme).send(at).await.json();
    let print = diff["items"][0]["fingerprint"].clone();
    let approval = json!({"tools": [{"name": "docs/t", "fingerprint": print}]});
    let foreign = json!({"tools": [{"name": "acme/docs/t", "fingerprint": print}]});
    let refused = post("/api/pins/approve", &foreign).by(&acme).send(at).await;
    assert_eq!(code(&refused), (404, "PIN_NOT_FOUND".to_owned()));
    let approved = post("/api/pins/approve", &approval).by(&acme).send(at).await;
    assert_eq!(approved.status, 200, "{}", approved.text());
    until("it is listed for its organisation", async || {
        tools(&acme).await.contains("docs__t").then_some(())
    })
    .await;
    assert_eq!(waiting(&operator, "/api/pins/diff").await.len(), 1, "the operator's still waits");
    assert_eq!(waiting(&other, "/api/pins/diff").await, docs("other"), "others' still waits");
    let file = std::fs::read_to_string(&lock).unwrap();
    assert!(file.contains("\"@acme/docs/t\""), "{file}");
    until("it is on the record", async || {
        let trail = std::fs::read_to_string(gate.folder.path().join("audit.jsonl"));
        trail.unwrap_or_default().contains("approve pins").then_some(())
    })
    .await;
}

#[tokio::test]
async fn operators_read_the_configuration_with_its_places_and_without_its_secrets() {
    let server = Upstream::http(modern(&["t"])).await;
    let secret = "canary-of-the-ring-that-seals-things";
    let gate = Gate::start(json!({
        "servers": {"a": server.config()}, "auth": {"keys_file": "keys.yaml"},
        "store": {"keys": [secret]}, "limits": {"depth": 70},
    }))
    .await;
    let at = gate.address;
    let operator = key(&gate, "operator", &["--role", "operator"]).await;
    let admin = key(&gate, "admin", &["--role", "admin"]).await;
    let refused = get("/api/settings").by(&admin).send(at).await;
    assert_eq!(code(&refused), (403, "FORBIDDEN".to_owned()));
    let found = get("/api/settings?only=given").by(&operator).send(at).await;
    assert_eq!(found.status, 200, "{}", found.text());
    assert!(!found.text().contains(secret), "{}", found.text());
    let found = get("/api/settings?search=limits.depth").by(&operator).send(at).await.json();
    let depth = &found["items"][0];
    assert_eq!((&depth["key"], &depth["value"]), (&json!("limits.depth"), &json!(70)), "{found}");
    assert!(depth["origin"].as_str().is_some_and(|origin| origin.contains(".json:")), "{found}");
    let given = get("/api/settings?search=limits&only=given").by(&operator).send(at).await.json();
    assert_eq!(given["total"], 1, "{given}");
    gate.write("{ not: [json");
    let broken = get("/api/settings").by(&operator).send(at).await;
    assert_eq!(code(&broken), (409, "CONFIGURATION_BROKEN".to_owned()), "{}", broken.text());
}
