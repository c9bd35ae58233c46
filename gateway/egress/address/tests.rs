//! Tests of `address`.

#![allow(clippy::unwrap_used)]

use super::*;

#[test]
fn the_operator_may_name_private_hosts_and_only_literally_the_dangerous_ones() {
    for text in ["127.0.0.1", "::1", "10.1.2.3", "192.168.0.9", "fd12::1", "8.8.8.8", "198.18.0.1"]
    {
        assert!(Policy::Operator.permits(text.parse().unwrap(), false), "{text}");
    }
    for text in [
        "169.254.169.254",
        "fe80::1",
        "168.63.129.16",
        "0.0.0.0",
        "::",
        "224.0.0.1",
        "64:ff9b::a9fe:a9fe",
    ] {
        assert!(!Policy::Operator.permits(text.parse().unwrap(), false), "{text}");
        assert!(Policy::Operator.permits(text.parse().unwrap(), true), "{text}");
    }
}

#[test]
fn the_public_policy_permits_global_addresses_alone_even_when_literal() {
    for text in [
        "127.0.0.1",
        "::1",
        "10.0.0.1",
        "169.254.169.254",
        "0.0.0.0",
        "198.18.0.1",
        "::ffff:10.0.0.1",
        "2002:a00:1::",
    ] {
        assert!(!Policy::Public.permits(text.parse().unwrap(), false), "{text}");
        assert!(!Policy::Public.permits(text.parse().unwrap(), true), "{text}");
    }
    assert!(Policy::Public.permits("2606:4700:4700::1111".parse().unwrap(), false));
}

#[test]
fn an_organisation_reaches_what_the_operator_allows_and_never_what_has_credentials() {
    let policies = [(false, false), (true, false), (false, true), (true, true)];
    let never = [
        "169.254.169.254",
        "169.254.170.23",
        "168.63.129.16",
        "100.100.100.200",
        "fd00:ec2::254",
        "fe80::a9fe:a9fe",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::a9fe:a9fe",
        "2002:a9fe:a9fe::",
        "0.0.0.0",
        "::",
        "224.0.0.1",
        "198.18.0.1",
    ];
    for (private, loopback) in policies {
        let policy = Policy::Organisation { private, loopback };
        for literal in [false, true] {
            let permits = |text: &str| policy.permits(text.parse().unwrap(), literal);
            for text in never {
                assert!(!permits(text), "{text} {policy:?}");
            }
            for text in ["10.1.2.3", "192.168.0.9", "100.64.0.1", "fd12::1", "::ffff:10.0.0.1"] {
                assert_eq!(permits(text), private, "{text} {policy:?}");
            }
            for text in ["127.0.0.1", "::1", "::ffff:127.0.0.1", "2002:7f00:1::"] {
                assert_eq!(permits(text), loopback, "{text} {policy:?}");
            }
            assert!(permits("8.8.8.8") && permits("2606:4700:4700::1111"), "{policy:?}");
        }
    }
}

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
