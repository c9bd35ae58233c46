//! The routes of approvers: forwarding of decisions, and the status of rejected ones.

use axum::body::{Body, to_bytes};
use axum::http::Request;
use parking_lot::Mutex;
use tower::ServiceExt;

use super::*;

#[derive(Default)]
struct Fake(Mutex<Vec<(String, String, bool)>>);

impl Approvals for Fake {
    type Approver = String;

    fn list(&self, approver: &String) -> Vec<Value> {
        vec![json!({"id": "1", "for": approver})]
    }

    fn find(&self, approver: &String, id: &str) -> Option<Value> {
        (id == "1").then(|| json!({"id": "1", "for": approver}))
    }

    fn opens(&self, id: &str, token: &str) -> bool {
        (id, token) == ("1", "good")
    }

    fn answer(&self, approver: &String, id: &str, approve: bool) -> Result<Value, AnswerError> {
        self.0.lock().push((approver.clone(), id.to_owned(), approve));
        match id {
            "1" => Ok(json!({"state": "approved"})),
            other => Err(AnswerError { words: "no".into(), is_unknown: other == "2" }),
        }
    }
}

async fn ask(fake: &Arc<Fake>, method: &str, path: &str) -> (u16, String) {
    let router = approvals_router(Arc::clone(fake));
    let mut request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
    request.extensions_mut().insert("ann".to_owned());
    let response = router.oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    let body = to_bytes(response.into_body(), 65536).await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn answers_go_where_they_are_meant_to() {
    let fake = Arc::new(Fake::default());
    let listed = ask(&fake, "GET", "/approvals").await;
    assert_eq!(listed, (200, r#"{"approvals":[{"id":"1","for":"ann"}]}"#.into()));
    let done = ask(&fake, "POST", "/approvals/1/approve").await;
    assert_eq!(done, (200, r#"{"state":"approved"}"#.into()));
    assert_eq!(ask(&fake, "POST", "/approvals/2/deny").await, (404, r#"{"error":"no"}"#.into()));
    assert_eq!(ask(&fake, "POST", "/approvals/3/approve").await.0, 409);
    // `GET` decides nothing, and there are only two decisions.
    assert_eq!(ask(&fake, "GET", "/approvals/1/approve").await.0, 405);
    assert_eq!(ask(&fake, "POST", "/approvals").await.0, 405);
    assert_eq!(ask(&fake, "POST", "/approvals/1/perhaps").await.0, 404);
    let ann = "ann".to_owned();
    let wanted = [("1", true), ("2", false), ("3", true)];
    let wanted = wanted.map(|(id, approve)| (ann.clone(), id.to_owned(), approve));
    assert_eq!(*fake.0.lock(), wanted);
}

#[tokio::test]
async fn one_call_is_shown_to_its_approvers() {
    let fake = Arc::new(Fake::default());
    let found = ask(&fake, "GET", "/approvals/1").await;
    assert_eq!(found, (200, r#"{"id":"1","for":"ann"}"#.into()));
    assert_eq!(ask(&fake, "GET", "/approvals/2").await.0, 404);
}

#[tokio::test]
async fn the_page_opens_with_the_token_of_its_link_and_shows_nothing_of_the_call() {
    let open = async |path: &str| {
        let request = Request::builder().uri(path).body(Body::empty()).unwrap();
        let response = page_router(Arc::new(Fake::default())).oneshot(request).await.unwrap();
        let policy = response.headers().get(header::CONTENT_SECURITY_POLICY).cloned();
        let status = response.status().as_u16();
        let body = to_bytes(response.into_body(), 65536).await.unwrap();
        (status, policy.is_some(), String::from_utf8(body.to_vec()).unwrap())
    };
    let (status, is_guarded, page) = open("/approvals/1/open?token=good").await;
    assert_eq!((status, is_guarded), (200, true));
    assert!(page.contains("../page.js") && !page.contains("ann"), "{page}");
    for path in ["/approvals/1/open", "/approvals/1/open?token=bad", "/approvals/2/open?token=good"]
    {
        assert_eq!(open(path).await.0, 404, "{path}");
    }
    let (status, is_guarded, script) = open("/approvals/page.js").await;
    assert_eq!((status, is_guarded), (200, true));
    // Call data is never parsed as markup, and nothing is stored.
    for word in ["innerHTML", "insertAdjacent", "eval", "Storage", "cookie"] {
        assert!(!script.contains(word), "{word}");
    }
}
