//! Tests of `names`: possible names are accepted, impossible names are reported.

use super::*;

#[test]
fn a_principal_has_a_bar_or_a_pattern_that_may_stand_for_one() {
    for good in [
        "key|ci",
        "*",
        "key*",
        "key?ci",
        "https://a.example|*",
        "{key|ci,key|cd}",
        "key[|]ci",
        "key[!a]ci",
    ] {
        assert_eq!(principal(good), None, "{good}");
    }
    for bad in ["ci", "", "{ci,cd}", "ci-[0-9]", "ci-[]a]"] {
        assert!(principal(bad).is_some(), "{bad}");
    }
}

#[test]
fn an_endpoint_is_one_of_two_paths() {
    for good in [
        "/mcp",
        "*",
        "/*",
        "/mc?",
        "{/mcp,/servers/a/mcp}",
        "/servers/db/mcp",
        "/endpoints/ops/mcp",
        "/endpoints/*/mcp",
        "/servers/*/mcp",
        "/servers/*",
        "*/mcp",
        "/servers/{a,b}/mcp",
        "/servers/db[0-9]/mcp",
        "/servers/db*",
    ] {
        assert_eq!(endpoint(good), None, "{good}");
    }
    for bad in [
        "mcp",
        "",
        "/servers/db",
        "/server/*/mcp",
        "servers/*",
        "/mcp/",
        "/mcp/*",
        "/servers/mcp",
        "/servers//mcp",
    ] {
        assert!(endpoint(bad).is_some(), "{bad}");
    }
}

#[test]
fn categories_and_certificates_are_of_known_kinds() {
    for good in ["file", "*", "f*", "{file,web}"] {
        assert_eq!(category(good), None, "{good}");
    }
    for bad in ["files", "nonsense", "f", ""] {
        assert!(category(bad).is_some(), "{bad}");
    }
    for good in ["dns:*.ci.example", "sha256:00", "*", "{dns:a,uri:b}", "uri*", "cn:a", "email:a@b"]
    {
        assert_eq!(certificate(good), None, "{good}");
    }
    for bad in ["ci.example", "dns", "ip:1", "x*"] {
        assert!(certificate(bad).is_some(), "{bad}");
    }
}
