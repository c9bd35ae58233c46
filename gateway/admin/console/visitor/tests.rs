//! Tests of `visitor`.

use super::*;

fn headers(host: &'static str, cookies: &'static str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(HOST, host.parse().unwrap());
    headers.insert(COOKIE, cookies.parse().unwrap());
    headers
}

#[test]
fn a_cookie_without_the_prefix_counts_on_this_machine_alone() {
    for host in ["localhost:3001", "127.0.0.1:3001", "127.8.8.8", "[::1]:3001", "LOCALHOST"] {
        assert_eq!(find_cookie(&headers(host, "a=b; lockgate=x")), Some("x"), "{host}");
    }
    for host in ["gate.example", "localhost.example", "10.0.0.1", "[::2]:3001", "127.0.0.1.nip.io"]
    {
        assert_eq!(find_cookie(&headers(host, "lockgate=x")), None, "{host}");
        assert_eq!(find_cookie(&headers(host, "__Host-lockgate=y; lockgate=x")), Some("y"));
    }
}
