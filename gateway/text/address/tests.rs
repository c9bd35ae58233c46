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
