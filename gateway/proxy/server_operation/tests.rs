//! Tests of the trace context of requests.

#![allow(clippy::unwrap_used)]

use http::HeaderValue;

use super::*;

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn read(headers: &[(&'static str, &'static str)]) -> Option<TraceContext> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(*name, HeaderValue::from_static(value));
    }
    trace_of_exchange(&map)
}

#[test]
fn headers_are_read_as_w3c_says() {
    let plain = TraceContext::parse(PARENT, None);
    let with = |state| TraceContext::parse(PARENT, Some(state));
    assert!(plain.is_some());
    for (headers, expected) in [
        (vec![("traceparent", PARENT)], plain.clone()),
        (vec![("traceparent", PARENT), ("tracestate", "a=1")], with("a=1")),
        (
            vec![("traceparent", PARENT), ("tracestate", "a=1"), ("tracestate", "b=2")],
            with("a=1,b=2"),
        ),
        (vec![("traceparent", PARENT), ("tracestate", "?")], plain),
        (vec![("traceparent", PARENT), ("traceparent", PARENT)], None),
        (vec![("traceparent", "00-0-0-01")], None),
        (vec![("tracestate", "a=1")], None),
        (vec![], None),
    ] {
        assert_eq!(read(&headers), expected, "{headers:?}");
    }
}
