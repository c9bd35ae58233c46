//! Tests of `scope`.

use super::*;
use crate::config::ToolScopes;

fn needs() -> Needs {
    let list = |all: &[&str]| all.iter().map(ToString::to_string).collect::<Vec<_>>();
    Needs::compile(&Scopes {
        required: list(&["mcp"]),
        tools: vec![
            ToolScopes { tools: list(&["billing__*"]), scopes: list(&["billing:read"]) },
            ToolScopes {
                tools: list(&["billing/pay", "*/delete_*"]),
                scopes: list(&["billing:write", "mcp"]),
            },
        ],
        implies: [
            ("admin".to_owned(), list(&["mcp", "billing:write"])),
            ("billing:write".to_owned(), list(&["billing:read", "admin"])),
        ]
        .into(),
    })
    .unwrap()
}

fn holder(granted: &[&str]) -> Identity {
    let mut identity = Identity::new("key", "a");
    identity.scopes = needs().scopes.expand(granted);
    identity
}

#[test]
fn a_broad_scope_implies_narrow_ones_also_in_circles() {
    let scopes = |granted: &[&str]| {
        holder(granted).scopes.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(scopes(&["admin"]), ["admin", "billing:read", "billing:write", "mcp"]);
    assert_eq!(scopes(&["mcp", "mcp", "other"]), ["mcp", "other"]);
    let many: Vec<String> = (0..10_000).map(|n| n.to_string()).collect();
    assert!(needs().scopes.expand(&many).len() <= MAX_SCOPES);
}

#[test]
fn a_challenge_names_everything_that_the_call_needs() {
    let needs = needs();
    let lacking = |granted: &[&str], slug, own| needs.lacking(&holder(granted), slug, own);
    assert_eq!(lacking(&["mcp"], "time", "now"), None);
    assert_eq!(lacking(&["mcp"], "billing", "list"), Some(vec!["mcp", "billing:read"]));
    assert_eq!(lacking(&["mcp", "billing:read"], "billing", "list"), None);
    let all = Some(vec!["mcp", "billing:read", "billing:write"]);
    assert_eq!(lacking(&["mcp", "billing:read"], "billing", "pay"), all);
    assert_eq!(lacking(&["admin"], "billing", "pay"), None);
    assert_eq!(lacking(&["mcp"], "files", "delete_all"), Some(vec!["mcp", "billing:write"]));
    assert!(needs.base(&holder(&["admin"])) && !needs.base(&holder(&["billing:read"])));
    assert_eq!(needs.lacking(&Identity::new("local", "user"), "billing", "pay"), None);
}

#[test]
fn scopes_are_what_a_header_can_carry() {
    for good in ["mcp:call", "a", "https://x/y.z", "!#[]"] {
        assert!(is_scope(good), "{good}");
    }
    for bad in ["", "a b", "a\"b", "a\\b", "ä", "a\n", &"x".repeat(129)] {
        assert!(!is_scope(bad), "{bad}");
    }
}
