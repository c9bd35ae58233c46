//! Tests of `origin_check`.

#![allow(clippy::unwrap_used)]

use super::*;

fn gate(listen: &str, hosts: &[&str], origins: &[&str]) -> OriginCheck {
    let http = crate::HttpSettings {
        hosts: hosts.iter().map(ToString::to_string).collect(),
        origins: origins.iter().map(ToString::to_string).collect(),
        ..crate::HttpSettings::default()
    };
    OriginCheck::new(&Config {
        listen: listen.parse().unwrap(),
        http,
        ..crate::tests::fake::config()
    })
}

fn ask(
    gate: &OriginCheck,
    target: &str,
    headers: &[(&'static str, &str)],
) -> Result<bool, ListenerError> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(*name, HeaderValue::from_str(value).unwrap());
    }
    let local = "10.1.2.3".parse().unwrap();
    let passed = OnceLock::new();
    let first = gate
        .check_request(&target.parse().unwrap(), &map, local, &passed)
        .map(|origin| origin.is_some());
    let again = gate
        .check_request(&target.parse().unwrap(), &map, local, &passed)
        .map(|origin| origin.is_some());
    assert_eq!(first, again);
    first
}

#[test]
fn host_table() {
    let gate = gate("192.168.7.7:8080", &["Gate.Example", "mcp.test:8443"], &[]);
    let accepted = [
        "localhost",
        "localhost:1",
        "LOCALHOST:8080",
        "localhost.",
        "127.0.0.1",
        "127.9.9.9:80",
        "[::1]",
        "[::1]:8080",
        "192.168.7.7:8080",
        "10.1.2.3",
        "10.1.2.3:9",
        "gate.example",
        "GATE.EXAMPLE:99",
        "mcp.test:8443",
        "[::ffff:127.0.0.1]",
    ];
    for host in accepted {
        assert_eq!(ask(&gate, "/mcp", &[("host", host)]), Ok(false), "{host}");
    }
    let refused = [
        "evil.example",
        "evil.example:8080",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "10.1.2.4",
        "mcp.test",
        "mcp.test:8444",
        "gate.example.",
        "user@localhost",
        "localhost:",
        "localhost:x",
        "localhost:99999",
        "[::1",
        "[::1]x",
        "::1",
        "",
        ":80",
        "127.1",
        "0x7f000001",
        "0.0.0.0",
    ];
    for host in refused {
        assert_eq!(ask(&gate, "/mcp", &[("host", host)]), Err(ListenerError::Host), "{host}");
    }
}

#[test]
fn a_request_names_exactly_one_host() {
    let gate = gate("127.0.0.1:0", &[], &[]);
    assert_eq!(ask(&gate, "/mcp", &[]), Err(ListenerError::NoHost));
    assert_eq!(
        ask(&gate, "/mcp", &[("host", "localhost"), ("host", "localhost")]),
        Err(ListenerError::NoHost)
    );
    assert_eq!(ask(&gate, "http://localhost/mcp", &[]), Ok(false));
    assert_eq!(ask(&gate, "http://evil.example/mcp", &[]), Err(ListenerError::Host));
    assert_eq!(
        ask(&gate, "http://localhost/mcp", &[("host", "evil.example")]),
        Err(ListenerError::Host)
    );
    assert_eq!(
        ask(&gate, "http://evil.example/mcp", &[("host", "localhost")]),
        Err(ListenerError::Host)
    );
}

#[test]
fn a_star_accepts_any_host_but_still_wants_one() {
    let gate = gate("0.0.0.0:80", &["*"], &[]);
    assert_eq!(ask(&gate, "/mcp", &[("host", "anything.example:1")]), Ok(false));
    assert_eq!(ask(&gate, "/mcp", &[]), Err(ListenerError::NoHost));
}

#[test]
fn origin_table() {
    let gate = gate(
        "127.0.0.1:80",
        &[],
        &["https://App.example", "http://dev.example:3000", "https://port.example:443"],
    );
    let accepted = [
        "http://localhost",
        "https://localhost:5173",
        "http://127.0.0.1:6274",
        "http://[::1]:1",
        "https://app.example",
        "https://APP.example:443",
        "http://dev.example:3000",
        "https://port.example",
    ];
    for origin in accepted {
        assert_eq!(
            ask(&gate, "/mcp", &[("host", "localhost"), ("origin", origin)]),
            Ok(true),
            "{origin}"
        );
    }
    let refused = [
        "null",
        "",
        "https://evil.example",
        "http://app.example",
        "https://app.example:444",
        "http://dev.example",
        "https://app.example.evil",
        "http://localhost.evil",
        "file://localhost",
        "localhost",
        "http://user@localhost",
        "http://localhost/path",
        "https://sub.app.example",
        "chrome-extension://localhost",
    ];
    for origin in refused {
        let asked = ask(&gate, "/mcp", &[("host", "localhost"), ("origin", origin)]);
        assert_eq!(asked, Err(ListenerError::Origin), "{origin}");
    }
    let two =
        [("host", "localhost"), ("origin", "http://localhost"), ("origin", "http://localhost")];
    assert_eq!(ask(&gate, "/mcp", &two), Err(ListenerError::Origin));
}

#[test]
fn a_preflight_grants_only_what_mcp_has() {
    let mut request = HeaderMap::new();
    let names = "authorization, content-type, mcp-protocol-version,Mcp-Param-Tenant , x-other, last-event-id, cookie";
    request.insert(ACCESS_CONTROL_REQUEST_HEADERS, HeaderValue::from_static(names));
    let mut headers = HeaderMap::new();
    add_preflight_headers(&mut headers, &request, "POST");
    assert_eq!(
        headers.get(ACCESS_CONTROL_ALLOW_HEADERS).unwrap(),
        "authorization, content-type, mcp-protocol-version, Mcp-Param-Tenant, last-event-id"
    );
    let mut headers = HeaderMap::new();
    add_preflight_headers(&mut headers, &HeaderMap::new(), "POST");
    assert!(!headers.contains_key(ACCESS_CONTROL_ALLOW_HEADERS));
}

#[test]
fn a_host_that_passed_does_not_open_the_gate_for_another() {
    let gate = gate("127.0.0.1:0", &[], &[]);
    let (passed, uri) = (OnceLock::new(), Uri::from_static("/mcp"));
    for (host, expected) in
        [("localhost", true), ("evil.example", false), ("127.0.0.1", true), ("localhost", true)]
    {
        let headers = HeaderMap::from_iter([(HOST, HeaderValue::from_static(host))]);
        let admitted = gate.check_request(&uri, &headers, "127.0.0.1".parse().unwrap(), &passed);
        assert_eq!(admitted.is_ok(), expected, "{host}");
    }
}
