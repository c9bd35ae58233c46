//! Tests of `client_address`.

#![allow(clippy::unwrap_used)]

use http::HeaderValue;

use super::*;

fn proxies(header: ForwardedHeader) -> TrustedProxies {
    let networks = ["10.0.0.0/8", "fd00::/8"].map(|net| net.parse().unwrap()).to_vec();
    TrustedProxies { networks, header }
}

fn find(trusted: &TrustedProxies, remote: &str, lines: &[(&'static str, &str)]) -> String {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        headers.append(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    let (address, port) = trusted.find_client(remote.parse().unwrap(), &headers);
    format!("{address} {}", port.unwrap_or(0))
}

#[test]
fn only_what_trusted_proxies_say_is_believed() {
    const PROXY: &str = "10.0.0.1:9";
    let many = vec!["10.1.1.1"; 40].join(",");
    let mut far = vec!["6.6.6.6"];
    far.extend(vec!["10.1.1.1"; MAX_ENTRIES]);
    let far = far.join(",");
    for (remote, line, client) in [
        // No trusted proxy: the header is ignored.
        ("192.0.2.1:9", "6.6.6.6", "192.0.2.1 9"),
        ("[2001:db8::1]:9", "10.0.0.1, 6.6.6.6", "2001:db8::1 9"),
        ("[::ffff:192.0.2.1]:9", "6.6.6.6", "192.0.2.1 9"),
        // A single proxy, and two.
        (PROXY, "192.0.2.7", "192.0.2.7 0"),
        ("[::ffff:10.0.0.1]:9", "192.0.2.7", "192.0.2.7 0"),
        ("[fd00::1]:9", "2001:db8::7", "2001:db8::7 0"),
        (PROXY, "192.0.2.7, 10.0.0.2", "192.0.2.7 0"),
        (PROXY, "192.0.2.7 ,fd00::2,10.0.0.2", "192.0.2.7 0"),
        // Values made up by the client are left of the verified value.
        (PROXY, "6.6.6.6, 192.0.2.7", "192.0.2.7 0"),
        (PROXY, "10.0.0.3, 192.0.2.7, 10.0.0.2", "192.0.2.7 0"),
        (PROXY, "\"6.6.6.6, 192.0.2.7", "192.0.2.7 0"),
        // Ports, and IPv6 in the forms that proxies write.
        (PROXY, "192.0.2.7:4711", "192.0.2.7 4711"),
        (PROXY, "[2001:db8::7]:4711", "2001:db8::7 4711"),
        (PROXY, "[2001:db8::7]", "2001:db8::7 0"),
        (PROXY, "::ffff:192.0.2.7", "192.0.2.7 0"),
        // Unreadable entries: the proxy itself is the client.
        (PROXY, "", "10.0.0.1 9"),
        (PROXY, "unknown", "10.0.0.1 9"),
        (PROXY, "192.0.2.7, unknown", "10.0.0.1 9"),
        (PROXY, "192.0.2.7,", "10.0.0.1 9"),
        (PROXY, "192.0.2.7:99999", "10.0.0.1 9"),
        (PROXY, "192.0.2.07", "10.0.0.1 9"),
        (PROXY, "fe80::1%eth0", "10.0.0.1 9"),
        (PROXY, "[192.0.2.7]", "10.0.0.1 9"),
        (PROXY, "192.0.2.7, garbage, 10.0.0.2", "10.0.0.2 0"),
        (PROXY, "\u{fc}192.0.2.7", "10.0.0.1 9"),
        // More entries than are read.
        (PROXY, &many, "10.1.1.1 0"),
        (PROXY, &far, "10.1.1.1 0"),
    ] {
        let found = find(&proxies(ForwardedHeader::For), remote, &[("x-forwarded-for", line)]);
        assert_eq!(found, client, "{remote} {line}");
    }
}

#[test]
fn the_standard_header_is_read_where_it_was_chosen() {
    let trusted = proxies(ForwardedHeader::Standard);
    for (line, client) in [
        ("for=192.0.2.7", "192.0.2.7 0"),
        ("For=\"192.0.2.7:4711\";proto=https;by=10.0.0.1", "192.0.2.7 4711"),
        ("proto=http; for=\"[2001:db8::7]:4711\"", "2001:db8::7 4711"),
        ("for=6.6.6.6, for=192.0.2.7", "192.0.2.7 0"),
        ("for=\"6.6.6.6, for=192.0.2.7", "192.0.2.7 0"),
        ("for=192.0.2.7, for=10.0.0.2;proto=https", "192.0.2.7 0"),
        ("for=unknown", "10.0.0.1 9"),
        ("for=_hidden", "10.0.0.1 9"),
        ("by=192.0.2.7", "10.0.0.1 9"),
        ("192.0.2.7", "10.0.0.1 9"),
    ] {
        let found = find(&trusted, "10.0.0.1:9", &[("forwarded", line)]);
        assert_eq!(found, client, "{line}");
    }
    // The other header is the client's own.
    let spoofed = [("x-forwarded-for", "6.6.6.6"), ("forwarded", "for=192.0.2.7")];
    assert_eq!(find(&trusted, "10.0.0.1:9", &spoofed), "192.0.2.7 0");
    let plain = proxies(ForwardedHeader::For);
    assert_eq!(find(&plain, "10.0.0.1:9", &spoofed), "6.6.6.6 0");
}

#[test]
fn several_lines_are_one_list() {
    let trusted = proxies(ForwardedHeader::For);
    let lines = [("x-forwarded-for", "6.6.6.6, 192.0.2.7"), ("x-forwarded-for", "10.0.0.2")];
    assert_eq!(find(&trusted, "10.0.0.1:9", &lines), "192.0.2.7 0");
    let nobody = TrustedProxies::default();
    assert_eq!(find(&nobody, "10.0.0.1:9", &lines), "10.0.0.1 9");
}

#[test]
fn any_header_of_a_proxy_shows_one() {
    let local = IpAddr::from([127, 0, 0, 1]);
    let peer = |remote: IpAddr, name: &str| {
        let mut headers = HeaderMap::new();
        headers.insert("accept", "text/html".parse().unwrap());
        headers.insert(name.parse::<HeaderName>().unwrap(), "203.0.113.9".parse().unwrap());
        peer_of(remote, &headers)
    };
    for name in [
        "forwarded",
        "x-forwarded-for",
        "x-forwarded-proto",
        "x-original-forwarded-for",
        "via",
        "x-real-ip",
        "x-client-ip",
        "cf-connecting-ip",
        "cf-connecting-ipv6",
        "true-client-ip",
        "fly-client-ip",
        "x-azure-clientip",
        "x-envoy-external-address",
        "x-appengine-user-ip",
    ] {
        assert_eq!(peer(local, name), Peer::Forwarded(local), "{name}");
    }
    for name in ["host", "origin", "user-agent", "mcp-session-id", "x-shipping"] {
        assert_eq!(peer(local, name), Peer::Address(local), "{name}");
    }
    let far = IpAddr::from([192, 0, 2, 7]);
    assert_eq!(peer(far, "via"), Peer::Address(far));
}
