//! Tests of `context`.

#![allow(clippy::unwrap_used)]

use http::HeaderValue;
use http::header::AUTHORIZATION;

use super::*;
use crate::tests::fake::{config, echo};

/// Other paths for callers read credentials in the same way.
#[tokio::test]
async fn other_paths_let_in_whom_the_gateway_lets_in() {
    let handler = echo();
    let remote = Remote(Arc::new(ConnectionContext {
        listener: Arc::new(ListenerState::new(config())),
        handler: Arc::clone(&handler),
        fallback: fallback(tower::service_fn(|_| async { Ok(Response::new(String::new())) })),
        state: ConnectionState::untracked(),
        remote: "127.0.0.1:9".parse().unwrap(),
        local: [127, 0, 0, 1].into(),
        certificate: None,
        is_encrypted: false,
        host: OnceLock::new(),
    }));
    for (sent, expected) in [
        (&[][..], None),
        (&["bearer ada"], None),
        (&["bEARER stranger"], Some(401)),
        (&["Bearer ada", "Bearer ada"], Some(400)),
    ] {
        let mut headers = HeaderMap::new();
        for value in sent {
            headers.append(AUTHORIZATION, HeaderValue::from_static(value));
        }
        let answer = remote.admit(&mut headers).await.err();
        assert_eq!(answer.map(|answer| answer.status().as_u16()), expected, "{sent:?}");
    }
    assert_eq!(handler.record_rejection.lock().unwrap().len(), 1);
}
