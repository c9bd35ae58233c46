//! Tests of `target`.

#![allow(clippy::unwrap_used)]

use super::*;

fn check(policy: Policy, text: &str) -> Result<(), RefusedUrl> {
    policy.check_url(&Url::parse(text).unwrap())
}

const PUBLIC: Policy = Policy::Organisation { private: false, loopback: false };
const PRIVATE: Policy = Policy::Organisation { private: true, loopback: false };
const LOCAL: Policy = Policy::Organisation { private: false, loopback: true };

#[test]
fn every_spelling_of_this_machine_is_told_from_others() {
    for host in [
        "localhost",
        "LOCALHOST.",
        "app.localhost",
        "127.0.0.1",
        "127.1",
        "127.0.0.1.",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "0x7f.1",
        "\u{ff11}27.0.0.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
    ] {
        let url = format!("http://{host}:3000/mcp");
        for policy in [PUBLIC, PRIVATE, Policy::Public] {
            let refused = check(policy, &url).unwrap_err();
            assert!(refused.message.contains("own machine"), "{host}: {refused}");
        }
        assert_eq!(check(LOCAL, &url), Ok(()), "{host}");
    }
}

#[test]
fn private_networks_are_told_from_what_nobody_may_reach() {
    for host in ["10.0.0.1", "192.168.1.1", "0xa.1", "[fd12::1]", "[::ffff:10.0.0.1]"] {
        let url = format!("https://{host}/mcp");
        assert_eq!(check(PRIVATE, &url), Ok(()), "{host}");
        let refused = check(LOCAL, &url).unwrap_err();
        assert!(refused.way_out.contains("egress.organisations: private"), "{host}: {refused}");
    }
    for host in [
        "169.254.169.254",
        "2852039166",
        "0xa9fea9fe",
        "0251.0376.0251.0376",
        "[::ffff:a9fe:a9fe]",
        "[fd00:ec2::254]",
        "[fe80::1]",
        "100.100.100.200",
        "0.0.0.0",
        "0",
        "[::]",
    ] {
        let all = Policy::Organisation { private: true, loopback: true };
        let refused = check(all, &format!("http://{host}/")).unwrap_err();
        assert!(!refused.way_out.contains("egress"), "{host}: {refused}");
    }
}

#[test]
fn names_and_public_addresses_pass_until_they_are_looked_up() {
    for url in ["https://mcp.example.com/mcp", "http://8.8.8.8/", "https://localhost.example.com"] {
        assert_eq!(check(PUBLIC, url), Ok(()), "{url}");
    }
    for url in ["ftp://example.com/", "https://user@example.com/", "https://example.com:0/"] {
        assert!(check(PUBLIC, url).is_err(), "{url}");
    }
}
