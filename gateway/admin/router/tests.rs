//! Tests of `router`.

use std::collections::BTreeMap;

use axum::body::{Body, to_bytes};
use axum::http::Request;
use tower::ServiceExt;

use super::*;
use crate::{Connected, Ready};

/// With a life cycle, the servers that it requires, and whether its secret differs.
struct Fake(LifeCycle, Ready, bool);

impl Health for Fake {
    fn state(&self) -> LifeState {
        self.0.state()
    }

    fn servers(&self) -> BTreeMap<&'static str, usize> {
        [("connected", 2), ("failed", 1)].into()
    }

    fn connected(&self) -> Connected {
        Connected { now: 2, of: 3 }
    }

    fn ready(&self) -> Ready {
        self.1
    }

    fn stores(&self) -> Option<bool> {
        Some(false)
    }

    fn lacks_store(&self) -> bool {
        false
    }

    fn has_other_secret(&self) -> bool {
        self.2
    }

    fn issuers_without_keys(&self) -> Vec<String> {
        vec!["https://login.example.com".into()]
    }

    fn shares_rates(&self) -> Option<bool> {
        Some(false)
    }

    fn metrics(&self, is_operator: bool) -> String {
        if is_operator { "lockgate_sessions 0\n".into() } else { "\n".into() }
    }
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
    let fake = Arc::new(Fake(LifeCycle::new(), Ready::Started, false));
    assert_eq!(ask(&fake, "GET", "/readyz").await.0, 503);
    assert_eq!(ask(&fake, "GET", "/healthz").await, (200, "ok\n".into()));
    fake.0.ready();
    let (status, body) = ask(&fake, "GET", "/readyz").await;
    let servers = r#"{"state":"ready","connected":"2 of 3","servers":{"connected":2,"failed":1}"#;
    let stores = r#""store":"unavailable""#;
    let rest = r#""issuersWithoutKeys":["https://login.example.com"],"rates":"unavailable"}"#;
    assert_eq!((status, body), (200, format!("{servers},{stores},{rest}")));
    fake.0.shut_down();
    assert_eq!(ask(&fake, "GET", "/readyz").await.0, 503);
    assert_eq!(ask(&fake, "GET", "/healthz").await.0, 200);
    fake.0.stop();
    assert_eq!(ask(&fake, "GET", "/healthz").await.0, 503);
}

#[tokio::test]
async fn a_gateway_with_another_secret_is_not_ready_and_says_why() {
    let fake = Arc::new(Fake(LifeCycle::new(), Ready::Started, true));
    fake.0.ready();
    let (status, body) = ask(&fake, "GET", "/readyz").await;
    assert_eq!(status, 503);
    assert!(body.contains(r#""state":"other_secret""#), "{body}");
    assert!(body.contains(r#""reason":"another gateway of this store uses a `secret`"#), "{body}");
}

#[tokio::test]
async fn only_what_is_there_is_served() {
    let fake = Arc::new(Fake(LifeCycle::new(), Ready::Started, false));
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
            let response = router(Arc::new(Fake(LifeCycle::new(), Ready::Started, false)))
                .oneshot(request)
                .await
                .unwrap();
            assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED, "{method} {path}");
            assert_eq!(response.headers()[header::ALLOW], "GET,HEAD", "{method} {path}");
        }
    }
}

#[tokio::test]
async fn metrics_are_not_on_the_health_router() {
    let request = Request::builder().uri("/metrics").body(Body::empty()).unwrap();
    let response = health_router(Arc::new(Fake(LifeCycle::new(), Ready::Started, false)))
        .oneshot(request)
        .await
        .unwrap();
    assert_eq!(response.status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn metrics_of_organisations_are_for_operators_alone() {
    let router = metrics_router(Arc::new(Fake(LifeCycle::new(), Ready::Started, false)));
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
        let fake = Arc::new(Fake(LifeCycle::new(), ready, false));
        assert_eq!(ask(&fake, "GET", "/readyz").await.0, 503, "{ready:?}");
        fake.0.ready();
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
    let life = LifeCycle::new();
    assert_eq!(life.state(), LifeState::Initializing);
    life.ready();
    assert_eq!(life.state(), LifeState::Ready);
    life.shut_down();
    life.ready();
    assert_eq!(life.state(), LifeState::ShuttingDown, "a late `ready` does not revive it");
    life.stop();
    life.shut_down();
    assert_eq!(life.state(), LifeState::Stopped);
}
