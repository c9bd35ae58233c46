//! Tests of `routes`: pages over a stub of the API.

use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION, ORIGIN};
use axum::http::{Response, StatusCode};
use axum::response::IntoResponse;
use axum::routing::{MethodFilter, get as answer, on, post as take};
use axum::{Extension, Json};
use lockgate_admission::budget::Budget;
use lockgate_admission::{Bounds, CpuPool};
use lockgate_authn::{Identity, LOCAL, Principal};
use serde_json::{Value, json};
use tower::ServiceExt;

use super::*;
use crate::api::access::Caller;
use crate::api::document;
use crate::api::usage::Usage;
use crate::console::error::TOO_MUCH;
use crate::console::shown::{MOST_SHOWN, REST};
use crate::console::visitor::Visitor;

/// Returns the console for a visitor of this role, and the token of its forms.
fn console(routes: Router, role: Role) -> (Router, String) {
    console_within(routes, role, account(64 << 20))
}

/// Returns an account with a budget of this size.
fn account(bytes: usize) -> PageAccount {
    let cpu_pool = CpuPool::new(Bounds { running: 1, waiting: 8 });
    PageAccount { budget: Arc::new(Budget::new(bytes)), cpu_pool: Arc::new(cpu_pool) }
}

fn console_within(routes: Router, role: Role, account: PageAccount) -> (Router, String) {
    let sessions = Arc::new(Sessions::new().unwrap());
    let principal = Principal::new(Identity::new(LOCAL, "user"));
    let visitor = Visitor::of_connection(principal.clone());
    let token = sessions.form_token(&visitor);
    let sent_forms = SentForms::default();
    let pages = make_pages(Arc::new(ConsoleState {
        results: Arc::default(),
        routes,
        sessions,
        sent_forms,
        account,
    }))
    .layer(Extension(visitor))
    .layer(Extension(Arc::new(Caller::new(principal, role, "".into()))));
    (Router::new().nest("/console", pages), token)
}

fn api() -> Router {
    let servers = json!({"total": 2, "items": [
        {"name": "good", "state": "connected", "reason": "it is connected", "since": "2026-11-23T02:30:00Z"},
        {"name": "bad", "state": "failed", "since": "2026-11-23T02:30:00Z", "fault": {
            "stage": "connect", "summary": "bad could not be reached.",
            "cause": "<script>alert(1)</script> does not resolve", "fix": "Check the address."}},
    ]});
    let empty = json!({"items": [], "total": 0});
    let server = servers["items"][1].clone();
    let list = |value: Value| answer(move || std::future::ready(Json(value.clone())));
    Router::new()
        .route("/api/servers", list(servers))
        .route("/api/servers/{name}", list(server))
        .route("/api/servers/{name}/reconnect", take(|| async { StatusCode::OK }))
        .route("/api/figures", list(json!({"servers": 2, "recent": [{"calls": 3, "failed": 1}]})))
        .route("/api/tools", list(empty.clone()))
        .route("/api/pins", list(empty.clone()))
        .route("/api/pins/diff", list(empty.clone()))
        .route("/api/settings", list(empty.clone()))
        .route("/api/keys", list(empty.clone()))
        .route("/api/sessions", list(empty.clone()))
        .route("/api/audit", list(empty.clone()))
        .route("/api/usage", list(json!(Usage::default())))
        .route("/api/prompts", list(empty.clone()))
        .route("/api/resources", list(empty.clone()))
        .route("/api/agents", list(empty.clone()))
        .route("/api/mcp-integrations/predefined/available", list(empty.clone()))
        .route("/api/organisations", list(empty.clone()))
        .route("/api/approvals/ended", list(empty.clone()))
        .route("/api/approvals", list(empty))
}

async fn ask(console: &Router, request: Request) -> (StatusCode, Response<()>, String) {
    let response = console.clone().oneshot(request).await.unwrap().into_response();
    let (parts, body) = response.into_parts();
    let text = to_bytes(body, 1 << 20).await.unwrap();
    let text = String::from_utf8(text.to_vec()).unwrap();
    (parts.status, Response::from_parts(parts, ()), text)
}

fn get_page(path: &str) -> Request {
    Request::builder().uri(path).body(Body::empty()).unwrap()
}

fn send_form(path: &str, origin: &str, form: String) -> Request {
    let request = Request::builder().method("POST").uri(path).header("host", "gate.example");
    let request = request.header(ORIGIN, origin);
    let request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded");
    request.body(Body::from(form)).unwrap()
}

#[test]
fn nothing_but_the_way_in_is_public() {
    let table = table();
    let open =
        |page: &&crate::console::page_table::PageRoute| page.permission == Permission::Public;
    let public: Vec<_> = table.pages.iter().filter(open).map(|page| page.path).collect();
    assert_eq!(public, ["/sign-in", "/sign-in", "/assets/{digest}/{name}"]);
    assert!(table.pages.iter().any(|page| page.method == "post"));
    for path in ["/console", "/console/servers", "/console/sign-in/x", "/api"] {
        assert!(!is_public(path), "{path}");
    }
}

#[tokio::test]
async fn every_page_runs_nothing_but_the_files_of_the_console() {
    let (console, _) = console(api(), Role::Operator);
    let pages = [
        "/console",
        "/console/sign-in",
        "/console/servers",
        "/console/servers/bad",
        "/console/tools",
        "/console/agents",
        "/console/integrations/new",
        "/console/access",
        "/console/approvals",
        "/console/keys",
        "/console/keys/new",
        "/console/audit",
        "/console/activity",
        "/console/usage",
        "/console/organisations",
        "/console/pins",
        "/console/settings",
        "/console/sessions",
        "/console/nowhere",
    ];
    for path in pages {
        let (status, head, text) = ask(&console, get_page(path)).await;
        let expected = if path.ends_with("nowhere") { 404 } else { 200 };
        assert_eq!(status, expected, "{path}: {text}");
        let policy = head.headers()[CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(
            policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"),
            "{policy}"
        );
        let nonce = policy.split("'nonce-").nth(1).unwrap().split('\'').next().unwrap();
        for script in text.split("<script").skip(1) {
            assert!(script.contains(&format!("nonce=\"{nonce}\"")), "{path}: {script}");
        }
        assert!(!text.contains(" style=") && !text.contains("<style"), "{path}");
        for tag in text.split('<').filter(|tag| tag.contains(" hx-get=")) {
            assert!(tag.contains(&format!("hx-nonce=\"{nonce}\"")), "{path}: {tag}");
        }
    }
}

#[tokio::test]
async fn a_broken_server_comes_first_with_its_reason_as_text() {
    let (console, _) = console(api(), Role::Operator);
    let (_, _, text) = ask(&console, get_page("/console/servers")).await;
    let place = |name: &str| text.find(&format!("/console/servers/{name}\"")).unwrap();
    assert!(place("bad") < place("good"), "{text}");
    let (_, _, text) = ask(&console, get_page("/console/servers/bad")).await;
    assert!(text.contains("bad could not be reached."), "{text}");
    assert!(text.contains("Retry now") && !text.contains("<script>alert"), "{text}");
}

#[tokio::test]
async fn a_thousand_servers_are_paged_and_those_that_fail_come_first() {
    let mut items = Vec::new();
    for at in 0..1000 {
        let state = if at == 777 { "failed" } else { "connected" };
        items.push(json!({"name": format!("s{at:04}"), "state": state, "reason": "so"}));
    }
    let list = json!({"total": 1000, "items": items});
    let servers = answer(move || std::future::ready(Json(list.clone())));
    let (console, _) = console(Router::new().route("/api/servers", servers), Role::Operator);
    let rows = |text: &str| text.matches("<th scope=\"row\"").count();
    let (_, _, text) = ask(&console, get_page("/console/servers")).await;
    assert_eq!(rows(&text), 100);
    assert!(text.find("s0777").unwrap() < text.find("s0000").unwrap());
    assert!(text.contains("1 to 100 of 1000") && text.contains("?page=2"), "{text}");
    let (_, _, text) = ask(&console, get_page("/console/servers?page=10")).await;
    assert!(rows(&text) == 100 && text.contains("s0999") && !text.contains("Next page"));
    let (_, _, text) = ask(&console, get_page("/console/servers?state=bad&page=99")).await;
    assert_eq!(rows(&text), 1);
}

#[tokio::test]
async fn a_server_whose_calls_fail_is_not_shown_as_working() {
    let fault = json!({"stage": "call", "summary": "Calls to good fail.", "cause": "6 of 6.", "fix": "Look."});
    let server = json!({"name": "good", "state": "connected", "fault": fault});
    let list = json!({"total": 1, "items": [server]});
    let servers = answer(move || std::future::ready(Json(list.clone())));
    let routes = api().route("/api/me", answer(|| async { Json(json!({"approvals": 3})) }));
    let (console, _) = console(Router::new().route("/api/servers", servers), Role::Operator);
    let (_, _, text) = ask(&console, get_page("/console/servers?state=bad")).await;
    assert!(text.contains("calls fail") && text.contains("6 of 6."), "{text}");
    let (_, _, text) = ask(&console, get_page("/console/servers?state=good")).await;
    assert!(text.contains("No servers match."), "{text}");
    let (waiting, _) = self::console(routes, Role::User);
    let (_, _, text) = ask(&waiting, get_page("/console")).await;
    assert!(text.contains("<title>(3) Overview") && text.contains("data-count=\"3\""), "{text}");
}

#[tokio::test]
async fn a_form_changes_something_with_its_token_and_from_this_origin_alone() {
    let (console, token) = console(api(), Role::Operator);
    let path = "/console/servers/bad/reconnect";
    let own = "https://gate.example";
    let good = send_form(path, own, format!("token={token}"));
    let (status, head, _) = ask(&console, good).await;
    assert_eq!(status, StatusCode::SEE_OTHER);
    let location = head.headers()[LOCATION].to_str().unwrap();
    assert!(location.starts_with("/console/servers/bad?said=") && location.ends_with("#said"));
    let (_, _, text) = ask(&console, get_page(location.trim_end_matches("#said"))).await;
    assert!(text.contains("Reconnecting to bad."), "{text}");
    let forged = [
        send_form(path, own, String::new()),
        send_form(path, own, "token=0".to_owned()),
        send_form(path, "https://evil.example", format!("token={token}")),
        send_form(path, "null", format!("token={token}")),
    ];
    for request in forged {
        let (status, _, text) = ask(&console, request).await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{text}");
    }
}

const ROLES: [Role; 3] = [Role::User, Role::Admin, Role::Operator];

fn admits(permission: &str, role: Role) -> bool {
    match permission {
        "public" | "user" => true,
        "admin" => role >= Role::Admin,
        _ => role == Role::Operator,
    }
}

/// Returns a stub of every operation of the API for this role, and the number of requests received.
fn every_operation(role: Role) -> (Router, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let mut routes = Router::new();
    for (path, item) in document::read()["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let is_admitted = admits(operation["x-permission"].as_str().unwrap(), role);
            let asked = Arc::clone(&asked);
            let body = match path.as_str() {
                "/usage" => json!(Usage::default()),
                _ => json!({"items": [], "total": 0, "key": "lg", "id": "x", "whole": true}),
            };
            let answer = move || {
                asked.fetch_add(1, Ordering::Relaxed);
                let body = body.clone();
                let status = if is_admitted { StatusCode::OK } else { StatusCode::FORBIDDEN };
                std::future::ready((status, Json(body)))
            };
            let method = Method::try_from(method.to_uppercase().as_str()).unwrap();
            let filter = MethodFilter::try_from(method).unwrap();
            routes = routes.route(&format!("/api{path}"), on(filter, answer));
        }
    }
    (routes, asked)
}

fn fill_in(path: &str) -> String {
    if path == "/" {
        return String::from("/console");
    }
    let path = path.replace("{to}", "enable");
    let mut filled = String::from("/console");
    for part in path.split('/').skip(1) {
        let part = if part.starts_with('{') { "x" } else { part };
        filled.push('/');
        filled.push_str(part);
    }
    filled
}

/// Callers admitted by the table of pages are admitted by the API routes that the page uses. Others
/// are rejected before a request to the API.
#[tokio::test]
async fn the_permissions_of_pages_are_those_of_the_api() {
    for role in ROLES {
        let (routes, asked) = every_operation(role);
        let (console, token) = console(routes, role);
        for page in table().pages {
            let path = fill_in(page.path);
            let before = asked.load(Ordering::Relaxed);
            let request = match page.method {
                "get" => get_page(&path),
                _ => send_form(&path, "https://gate.example", format!("token={token}&name=x")),
            };
            let (status, _, text) = ask(&console, request).await;
            let is_refused = status == StatusCode::FORBIDDEN;
            assert_eq!(
                is_refused,
                !admits(page.permission.as_str(), role),
                "{role:?} {page:?}: {text}"
            );
            assert!(
                !status.is_server_error() && status != 401 && status != 405,
                "{page:?} {status}"
            );
            assert!(!is_refused || asked.load(Ordering::Relaxed) == before, "{role:?} {page:?}");
        }
    }
}

#[tokio::test]
async fn nobody_unknown_sees_more_than_the_way_in() {
    let sessions = Arc::new(Sessions::new().unwrap());
    let (routes, asked) = every_operation(Role::Operator);
    let sent_forms = SentForms::default();
    let account = account(1 << 20);
    let pages = make_pages(Arc::new(ConsoleState {
        results: Arc::default(),
        routes,
        sessions,
        sent_forms,
        account,
    }));
    let console = Router::new().nest("/console", pages);
    for page in table().pages {
        let path = fill_in(page.path);
        let request = match page.method {
            "get" => get_page(&path),
            _ => send_form(&path, "https://gate.example", String::from("token=")),
        };
        let (status, _, text) = ask(&console, request).await;
        let is_open = page.permission == Permission::Public && page.method == "get";
        assert_eq!(status == StatusCode::UNAUTHORIZED, !is_open, "{page:?}: {text}");
    }
    assert_eq!(asked.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn sections_are_for_those_who_find_something_there() {
    for role in ROLES {
        let (console, _) = console(api(), role);
        let (_, _, text) = ask(&console, get_page("/console")).await;
        for (section, least) in
            [("/console/keys", Role::Admin), ("/console/access", Role::Operator)]
        {
            let is_linked = text.contains(&format!("href=\"{section}\""));
            assert_eq!(is_linked, role >= least, "{role:?} {section}");
        }
    }
}

#[tokio::test]
async fn a_form_that_is_sent_again_changes_nothing_again() {
    let (routes, asked) = every_operation(Role::Operator);
    let (console, token) = console(routes, Role::Operator);
    let send = |page: &str| {
        let form = format!("token={token}&page={page}");
        send_form("/console/servers/x/reconnect", "https://gate.example", form)
    };
    assert_eq!(ask(&console, send("1")).await.0, StatusCode::SEE_OTHER);
    let before = asked.load(Ordering::Relaxed);
    let (status, _, text) = ask(&console, send("1")).await;
    assert_eq!((status, asked.load(Ordering::Relaxed)), (StatusCode::CONFLICT, before), "{text}");
    assert_eq!(ask(&console, send("2")).await.0, StatusCode::SEE_OTHER);
}

/// A page that shows a form again may be reloaded.
#[tokio::test]
async fn a_form_that_changed_nothing_can_be_sent_again() {
    let routes = tool(definition(&json!({"type": "object"})), String::new());
    let (console, token) = console(routes, Role::User);
    for _ in 0..2 {
        let form = format!("token={token}&page=1&add=arg.rows");
        let sent = send_form("/console/tools/up__big", "https://gate.example", form);
        assert_eq!(ask(&console, sent).await.0, StatusCode::OK);
    }
}

#[tokio::test]
async fn what_the_api_refuses_is_a_page_with_its_words() {
    let refusal = json!({"detail": "the registry is not open"});
    let code = StatusCode::SERVICE_UNAVAILABLE;
    let refuse = answer(move || std::future::ready((code, Json(refusal.clone()))));
    let (console, _) = console(Router::new().route("/api/servers/x", refuse), Role::User);
    let (status, _, text) = ask(&console, get_page("/console/servers/x")).await;
    assert_eq!(status, code);
    assert!(text.contains("The registry is not open."), "{text}");
    let (status, _, text) = ask(&console, get_page("/console/servers/y")).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert!(text.contains("Not found"), "{text}");
}

/// Returns a stub of the API with one tool, its definition and its result.
fn tool(definition: String, result: String) -> Router {
    let definition = answer(move || std::future::ready(definition.clone()));
    let result = take(move || std::future::ready(result.clone()));
    Router::new()
        .route("/api/tools/up__big", definition)
        .route("/api/tools/up__big/execute", result)
}

fn definition(schema: &Value) -> String {
    json!({"name": "up__big", "server": "up", "inputSchema": schema}).to_string()
}

/// Returns a value that is short as compact JSON but long when indented.
fn deep_list() -> Value {
    let mut deep = json!(vec![1; 100_000]);
    for _ in 0..58 {
        deep = json!([deep]);
    }
    deep
}

/// Calls the tool and returns the page with the result.
async fn call(console: &Router, token: &str) -> (StatusCode, String) {
    let form = format!("token={token}");
    let request = send_form("/console/tools/up__big", "https://gate.example", form);
    let (status, head, text) = ask(console, request).await;
    assert_eq!(status, StatusCode::SEE_OTHER, "{text}");
    let location = head.headers()[LOCATION].to_str().unwrap();
    let page = location.strip_suffix("#outcome").unwrap();
    // A slow call is on its page until it ends.
    loop {
        let (status, _, text) = ask(console, get_page(page)).await;
        if !text.contains("Running</span>") {
            return (status, text);
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn of_what_others_write_a_page_shows_a_bounded_part() {
    let parts: Vec<Value> = (0..10_000).map(|_| json!({"type": "text", "text": "x"})).collect();
    for result in [
        json!({"structuredContent": deep_list()}),
        json!({"content": [deep_list(), deep_list(), deep_list()]}),
        json!({"content": parts}),
    ] {
        let api = tool(definition(&deep_list()), result.to_string());
        let (console, token) = console(api, Role::User);
        let (status, text) = call(&console, &token).await;
        assert_eq!(status, StatusCode::OK);
        assert!(text.len() < 3 * MOST_SHOWN, "{}", text.len());
        assert!(text.contains("Answered"));
        let said = REST.trim_start().split('\'').next().unwrap();
        assert!(text.matches(said).count() >= 2, "of the schema and of the result");
    }
}

#[tokio::test]
async fn an_answer_beyond_what_pages_read_is_said_to_be() {
    for (more, title) in [(0, "Answered"), (1, "The answer of up__big is too large")] {
        let shell = json!({"content": [{"type": "text", "text": ""}]}).to_string().len();
        let words = "x".repeat((8 << 20) + more - shell);
        let result = json!({"content": [{"type": "text", "text": words}]}).to_string();
        let (console, token) = console(tool(definition(&json!({})), result), Role::User);
        let (status, text) = call(&console, &token).await;
        assert_eq!(status, StatusCode::OK);
        assert!(text.contains(title) && text.contains("too large") == (more == 1), "{more}");
    }
    let large = definition(&json!({"description": "x".repeat(8 << 20)}));
    let (console, _) = console(tool(large, String::new()), Role::User);
    let (status, _, text) = ask(&console, get_page("/console/tools/up__big")).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
    assert!(text.contains(TOO_MUCH) && text.contains("/api/tools/up__big"), "{text}");
}

#[tokio::test]
async fn a_page_counts_until_it_is_written_and_what_it_is_made_of_before_it_is_read() {
    let api = tool(definition(&deep_list()), String::new());
    let plenty = account(64 << 20);
    let (console, _) = console_within(api.clone(), Role::User, plenty.clone());
    let page = console.clone().oneshot(get_page("/console/tools/up__big")).await.unwrap();
    let used = plenty.budget.used();
    assert!((MOST_SHOWN..2 * MOST_SHOWN).contains(&used), "the page alone: {used}");
    drop(page);
    assert_eq!(plenty.budget.used(), 0);
    let little = account(1 << 20);
    let (console, _) = console_within(api, Role::User, little.clone());
    let (status, _, text) = ask(&console, get_page("/console/tools/up__big")).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "a tree of 6 MB");
    assert!(text.contains("There is not enough memory for this page now"), "{text}");
    assert_eq!(little.budget.used(), 0);
}
