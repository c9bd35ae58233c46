//! Tests of `address`.

#![allow(clippy::unwrap_used)]

use super::*;

fn class(text: &str) -> Class {
    classify(text.parse().unwrap())
}

#[test]
fn every_range_has_its_class_up_to_its_edges() {
    let cases = [
        ("8.8.8.8", Class::Global),
        ("1.1.1.1", Class::Global),
        ("0.0.0.0", Class::Unspecified),
        ("0.1.2.3", Class::Unspecified),
        ("127.0.0.1", Class::Loopback),
        ("127.255.255.255", Class::Loopback),
        ("10.0.0.1", Class::Private),
        ("172.15.255.255", Class::Global),
        ("172.16.0.0", Class::Private),
        ("172.31.255.255", Class::Private),
        ("172.32.0.0", Class::Global),
        ("192.168.1.1", Class::Private),
        ("100.63.255.255", Class::Global),
        ("100.64.0.1", Class::Private),
        ("100.127.255.255", Class::Private),
        ("100.128.0.0", Class::Global),
        ("100.100.100.200", Class::Metadata),
        ("169.254.0.1", Class::LinkLocal),
        ("169.254.169.254", Class::LinkLocal),
        ("168.63.129.16", Class::Metadata),
        ("168.63.129.17", Class::Global),
        ("192.0.0.192", Class::Metadata),
        ("192.0.0.8", Class::Reserved),
        ("192.0.2.1", Class::Reserved),
        ("192.0.3.1", Class::Global),
        ("192.88.99.1", Class::Reserved),
        ("198.17.255.255", Class::Global),
        ("198.18.0.1", Class::Reserved),
        ("198.19.255.255", Class::Reserved),
        ("198.51.100.7", Class::Reserved),
        ("203.0.113.7", Class::Reserved),
        ("224.0.0.1", Class::Multicast),
        ("239.255.255.255", Class::Multicast),
        ("240.0.0.1", Class::Reserved),
        ("255.255.255.255", Class::Multicast),
        ("::", Class::Unspecified),
        ("::1", Class::Loopback),
        ("fe80::1", Class::LinkLocal),
        ("febf::1", Class::LinkLocal),
        ("fec0::1", Class::Private),
        ("fc00::1", Class::Private),
        ("fdff::1", Class::Private),
        ("fd00:ec1::254", Class::Private),
        ("fd00:ec2::23", Class::Metadata),
        ("fd00:ec2::254", Class::Metadata),
        ("fd20:ce::254", Class::Metadata),
        ("fd20:ce::253", Class::Private),
        ("ff02::1", Class::Multicast),
        ("100::1", Class::Reserved),
        ("2001::1", Class::Reserved),
        ("2001:1ff::1", Class::Reserved),
        ("2001:200::1", Class::Global),
        ("2001:db8::1", Class::Reserved),
        ("3fff:fff::1", Class::Reserved),
        ("3fff:1000::1", Class::Global),
        ("5f00::1", Class::Reserved),
        ("2606:4700:4700::1111", Class::Global),
        ("64:ff9b:1::1", Class::Reserved),
    ];
    for (text, expected) in cases {
        assert_eq!(class(text), expected, "{text}");
    }
    assert_eq!(cases.len(), 58);
}

#[test]
fn an_ipv4_address_inside_an_ipv6_one_is_seen() {
    for (text, expected) in [
        ("::ffff:127.0.0.1", Class::Loopback),
        ("::ffff:169.254.169.254", Class::LinkLocal),
        ("::ffff:8.8.8.8", Class::Global),
        ("::ffff:0:10.0.0.1", Class::Private),
        ("::127.0.0.1", Class::Loopback),
        ("::0.0.0.2", Class::Unspecified),
        ("64:ff9b::169.254.169.254", Class::LinkLocal),
        ("64:ff9b::8.8.8.8", Class::Global),
        ("2002:7f00:1::", Class::Loopback),
        ("2002:a9fe:a9fe::1", Class::LinkLocal),
        ("2002:a83f:8110::", Class::Metadata),
        ("2002:808:808::1", Class::Global),
    ] {
        assert_eq!(class(text), expected, "{text}");
    }
}

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
