//! Tests of `render`: excerpts, and the memory of results and of pages.

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::get;
use lockgate_admission::Bounds;
use lockgate_authn::{Identity, LOCAL, Principal};
use serde_json::json;
use tower::ServiceExt;

use super::*;

#[test]
fn what_fits_is_shown_whole_and_the_rest_is_said_to_be_elsewhere() {
    let whole = "x".repeat(MOST_SHOWN);
    assert_eq!(show_text(&whole), whole);
    assert_eq!(show_text(&format!("{whole}y")), format!("{whole}{REST}"));
    assert_eq!(show_json(&json!({"a": [1]})), "{\n  \"a\": [\n    1\n  ]\n}");
}

#[test]
fn no_character_is_cut_in_two() {
    let shown = show_text(&format!("x{}", "ü".repeat(MOST_SHOWN / 2)));
    let text = shown.strip_suffix(REST).unwrap();
    assert_eq!(text.len(), MOST_SHOWN - 1);
    assert!(text.ends_with('ü'));
}

#[test]
fn a_value_that_grows_as_it_is_written_is_written_no_further_than_shown() {
    let mut deep = json!(vec![1; 100_000]);
    for _ in 0..58 {
        deep = json!([deep]);
    }
    let shown = show_json(&deep);
    assert_eq!(shown.len(), MOST_SHOWN + REST.len());
    assert!(shown.ends_with(REST));
    let most: Value = json!("x".repeat(MOST_SHOWN - 2));
    assert_eq!(show_json(&most).len(), MOST_SHOWN, "with its quotes");
}

fn account(bytes: usize) -> PageAccount {
    let cpu_pool = CpuPool::new(Bounds { running: 1, waiting: 8 });
    PageAccount { budget: Arc::new(Budget::new(bytes)), cpu_pool: Arc::new(cpu_pool) }
}

#[tokio::test]
async fn a_result_has_a_limit_and_is_counted_before_it_is_parsed() {
    let caller = Principal::new(Identity::new(LOCAL, "user")).caller_id();
    let shell = json!([""]).to_string().len();
    for (more, is_read) in [(0, true), (1, false)] {
        let text = json!(["x".repeat(MAX_RESULT + more - shell)]).to_string();
        let read = account(64 << 20).read(caller, text.into(), "/api/tools/t/execute").await;
        let code = read.as_ref().err().map(Problem::code);
        assert_eq!(read.is_ok(), is_read, "{code:?}");
        assert!(is_read || code == Some(TOO_LARGE));
    }
    let little = account(1 << 20);
    let text = json!(vec![1; 100_000]).to_string();
    let refused = little.read(caller, text.into(), "").await.map(|_| ()).unwrap_err();
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE, "a tree of 6 MB");
    assert_eq!(little.budget.used(), 0);
}

#[tokio::test]
async fn a_page_counts_until_it_is_written() {
    let plenty = account(64 << 20);
    let pages = Router::new()
        .route("/", get(|| async { "x".repeat(1 << 20) }))
        .layer(from_fn_with_state(plenty.clone(), count_page));
    let mut request = Request::new(Body::empty());
    let visitor = Visitor::of_connection(Principal::new(Identity::new(LOCAL, "user")));
    request.extensions_mut().insert(visitor);
    let page = pages.oneshot(request).await.unwrap();
    assert!(plenty.budget.used() >= 1 << 20, "{}", plenty.budget.used());
    drop(page);
    assert_eq!(plenty.budget.used(), 0);
}

#[tokio::test]
async fn a_page_that_shows_a_new_key_is_not_replaced_when_memory_is_short() {
    let pages = Router::new()
        .route("/new", get(|| async { (StatusCode::CREATED, "x".repeat(1 << 16)) }))
        .route("/other", get(|| async { "x".repeat(1 << 16) }))
        .layer(from_fn_with_state(account(1 << 10), count_page));
    for (path, status) in
        [("/new", StatusCode::CREATED), ("/other", StatusCode::SERVICE_UNAVAILABLE)]
    {
        let mut request = Request::new(Body::empty());
        *request.uri_mut() = axum::http::Uri::from_static(path);
        let visitor = Visitor::of_connection(Principal::new(Identity::new(LOCAL, "user")));
        request.extensions_mut().insert(visitor);
        assert_eq!(pages.clone().oneshot(request).await.unwrap().status(), status, "{path}");
    }
}
