//! Tests of the guard of addresses.

use crate::guarded_client::*;

fn guard(networks: &[&str]) -> Guard {
    Guard::new(networks.iter().map(|text| text.parse().unwrap()).collect())
}

#[test]
fn public_addresses_alone_are_open_by_default() {
    let default = Guard::default();
    for (address, open) in [
        ("93.184.216.34", true),
        ("2606:2800:220:1::1", true),
        ("127.0.0.1", false),
        ("10.0.0.1", false),
        ("169.254.169.254", false),
        ("168.63.129.16", false),
        ("0.0.0.0", false),
        ("192.0.2.1", false),
        ("::1", false),
        ("::ffff:127.0.0.1", false),
        ("64:ff9b::a00:1", false),
        ("2002:7f00:1::", false),
        ("fd00::1", false),
    ] {
        assert_eq!(default.permits(address.parse().unwrap()), open, "{address}");
    }
}

#[test]
fn a_network_that_is_named_opens_no_more_than_itself() {
    let named = guard(&["127.0.0.0/8", "10.1.0.0/16"]);
    assert!(
        named.permits("127.0.0.2".parse().unwrap()) && named.permits("10.1.2.3".parse().unwrap())
    );
    for address in ["10.2.0.1", "::1", "::ffff:127.0.0.1", "192.168.0.1"] {
        assert!(!named.permits(address.parse().unwrap()), "{address}");
    }
}

#[test]
fn metadata_services_have_to_be_named_alone() {
    let around = guard(&["0.0.0.0/0", "::/0"]);
    for address in [
        "169.254.169.254",
        "168.63.129.16",
        "100.100.100.200",
        "0.0.0.0",
        "fd00:ec2::254",
        "fe80::1",
        "224.0.0.1",
    ] {
        assert!(!around.permits(address.parse().unwrap()), "{address}");
    }
    assert!(around.permits("10.0.0.1".parse().unwrap()));
    assert!(guard(&["169.254.169.254/32"]).permits("169.254.169.254".parse().unwrap()));
}
