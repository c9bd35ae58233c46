//! Tests of `router`.

use axum::body::{Body, to_bytes};
use axum::http::Request;
use tower::ServiceExt;

use super::*;
use crate::{Connected, HealthReport, Ready};

/// With a life cycle, the servers that it requires, and whether its secret differs.
struct Fake(LifeCycle, Ready, bool);

impl Health for Fake {
    fn report(&self) -> HealthReport {
        HealthReport {
            state: self.0.state(),
            connected: Connected { now: 2, of: 3 },
            ready: self.1,
            servers: [("connected", 2), ("failed", 1)].into(),
            stores: Some(false),
            lacks_store: false,
            has_other_secret: self.2,
            issuers_without_keys: vec!["https://login.example.com".into()],
            shares_rates: Some(false),
        }
    }

    fn metrics(&self, is_operator: bool) -> String {
        if is_operator { "lockgate_sessions 0\n".into() } else { "\n".into() }
    }
}

fn started() -> Arc<Fake> {
    Arc::new(Fake(LifeCycle::default(), Ready::Started, false))
}

async fn ask(fake: &Arc<Fake>, method: &str, path: &str) -> (u16, String) {
    let router = health_router(Arc::clone(fake)).merge(metrics_router(Arc::clone(fake)));
    let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
    let response = router.oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    (
        status,
        String::from_utf8(to_bytes(response.into_body(), 65536).await.unwrap().to_vec()).unwrap(),
    )
}

#[tokio::test]
async fn readiness_follows_the_life_cycle() {
    let fake = started();
    assert_eq!(ask(&fake, "GET", "/readyz").await.0, 503);
    assert_eq!(ask(&fake, "GET", "/healthz").await, (200, "ok\n".into()));
    fake.0.reach(LifeState::Ready);
    let (status, body) = ask(&fake, "GET", "/readyz").await;
    let servers = r#"{"state":"ready","connected":"2 of 3","servers":{"connected":2,"failed":1}"#;
    let stores = r#""store":"unavailable""#;
    let rest = r#""issuersWithoutKeys":["https://login.example.com"],"rates":"unavailable"}"#;
    assert_eq!((status, body), (200, format!("{servers},{stores},{rest}")));
    fake.0.reach(LifeState::ShuttingDown);
    assert_eq!(ask(&fake, "GET", "/readyz").await.0, 503);
    assert_eq!(ask(&fake, "GET", "/healthz").await.0, 200);
    fake.0.reach(LifeState::Stopped);
    assert_eq!(ask(&fake, "GET", "/healthz").await.0, 503);
}

#[tokio::test]
async fn a_gateway_with_another_secret_is_not_ready_and_says_why() {
    let fake = Arc::new(Fake(LifeCycle::default(), Ready::Started, true));
    fake.0.reach(LifeState::Ready);
    let (status, body) = ask(&fake, "GET", "/readyz").await;
    assert_eq!(status, 503);
    assert!(body.contains(r#""state":"other_secret""#), "{body}");
    assert!(body.contains(r#""reason":"another gateway of this store uses a `secret`"#), "{body}");
}

#[tokio::test]
async fn only_what_is_there_is_served() {
    let fake = started();
    assert_eq!(ask(&fake, "GET", "/metrics").await, (200, "lockgate_sessions 0\n".into()));
    assert_eq!(ask(&fake, "HEAD", "/healthz").await.0, 200);
    assert_eq!(ask(&fake, "POST", "/metrics").await.0, 405);
    assert_eq!(ask(&fake, "GET", "/nothing").await, (404, r#"{"error":"not found"}"#.into()));
}

#[tokio::test]
async fn other_methods_are_refused_and_told_which_there_are() {
    for path in ["/healthz", "/readyz", "/metrics"] {
        for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
            let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
            let response = router(started()).oneshot(request).await.unwrap();
            assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED, "{method} {path}");
            assert_eq!(response.headers()[header::ALLOW], "GET,HEAD", "{method} {path}");
        }
    }
}

#[tokio::test]
async fn metrics_are_not_on_the_health_router() {
    let request = Request::builder().uri("/metrics").body(Body::empty()).unwrap();
    let response = health_router(started()).oneshot(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn metrics_of_organisations_are_for_operators_alone() {
    let router = metrics_router(started());
    let asking = |is_operator, is_of_default| Some(Asking { is_operator, is_of_default });
    for (asking, status, shown) in [
        (None, 200, true),
        (asking(true, false), 200, true),
        (asking(false, true), 200, false),
        (asking(false, false), 403, false),
    ] {
        let mut request = Request::builder().uri("/metrics").body(Body::empty()).unwrap();
        if let Some(asking) = asking {
            request.extensions_mut().insert(asking);
        }
        let response = router.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status(), status, "{asking:?}");
        let body = to_bytes(response.into_body(), 1024).await.unwrap();
        assert_eq!(body.starts_with(b"lockgate_sessions"), shown, "{asking:?}");
    }
}

#[tokio::test]
async fn what_counts_as_ready_is_a_setting() {
    for (ready, status, state) in [
        (Ready::Started, 200, "ready"),
        (Ready::Any, 200, "ready"),
        (Ready::All, 503, "waiting_for_servers"),
    ] {
        let fake = Arc::new(Fake(LifeCycle::default(), ready, false));
        assert_eq!(ask(&fake, "GET", "/readyz").await.0, 503, "{ready:?}");
        fake.0.reach(LifeState::Ready);
        let (code, body) = ask(&fake, "GET", "/readyz").await;
        assert_eq!(code, status, "{ready:?}");
        assert!(body.contains(&format!(r#""state":"{state}","connected":"2 of 3""#)), "{body}");
    }
    assert!(Ready::Any.is_met(Connected { now: 0, of: 0 }));
    assert!(!Ready::Any.is_met(Connected { now: 0, of: 2 }));
    assert!(Ready::All.is_met(Connected { now: 2, of: 2 }));
}

#[test]
fn life_only_goes_forward() {
    let life = LifeCycle::default();
    assert_eq!(life.state(), LifeState::Initializing);
    life.reach(LifeState::Ready);
    assert_eq!(life.state(), LifeState::Ready);
    life.reach(LifeState::ShuttingDown);
    life.reach(LifeState::Ready);
    assert_eq!(life.state(), LifeState::ShuttingDown, "a late `ready` does not revive it");
    life.reach(LifeState::Stopped);
    life.reach(LifeState::ShuttingDown);
    assert_eq!(life.state(), LifeState::Stopped);
}
