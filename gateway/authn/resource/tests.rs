//! Tests of `resource`.

use super::*;
use crate::config::{Scopes, ToolScopes};
use crate::token::tests::issuer;

const A_SERVER: Resource<'static> = Resource::Named { kind: "servers", name: "a" };

fn names(public_url: &str) -> Names {
    let config = Config {
        public_url: Some(public_url.parse().unwrap()),
        issuers: [("a".to_owned(), issuer("https://issuer.test"))].into(),
        scopes: Scopes {
            required: vec!["mcp:call".into()],
            tools: vec![ToolScopes {
                tools: vec!["*".into()],
                scopes: vec!["x".into(), "mcp:call".into()],
            }],
            ..Scopes::default()
        },
        ..Config::default()
    };
    Names::new(&config).unwrap()
}

#[test]
fn each_endpoint_is_its_own_audience() {
    let names = names("https://GW.example:443/team/");
    assert_eq!(names.url(Resource::All), "https://gw.example/team/mcp");
    assert_eq!(names.url(A_SERVER), "https://gw.example/team/servers/a/mcp");
    assert!(names.is("https://gw.example/team/mcp", Resource::All));
    assert!(names.is("HTTPS://GW.example/team/mcp", Resource::All));
    assert!(names.is("https://gw.example/team/servers/a/mcp", A_SERVER));
    let foreign = [
        "",
        "https://gw.example",
        "https://gw.example/mcp",
        "https://gw.example/team/mcp/",
        "https://gw.example/TEAM/mcp",
        "https://gw.example/team/servers/a/mcp",
        "http://gw.example/team/mcp",
        "https://gw.example/team/mcp#x",
        "https://gw.example.evil/team/mcp",
        "https://gw.example@evil/team/mcp",
        "é".repeat(20).as_str(),
    ]
    .map(str::to_owned);
    for audience in &foreign {
        assert!(!names.is(audience, Resource::All), "{audience}");
    }
    assert!(!names.is("https://gw.example/team/mcp", A_SERVER));
    assert!(!names.is("https://gw.example/team/servers/ab/mcp", A_SERVER));
    assert!(!names.is(
        "https://gw.example/team/servers/a/mcp",
        Resource::Named { kind: "agents", name: "a" }
    ));
    assert!(
        names.is(
            "https://gw.example/team/agents/a/mcp",
            Resource::Named { kind: "agents", name: "a" }
        )
    );
}

#[test]
fn documents_name_their_own_endpoint_wherever_a_proxy_puts_them() {
    let names = names("https://gw.example/team");
    let resource = |path: &str| {
        let document: serde_json::Value = serde_json::from_str(&names.document(path)?).unwrap();
        assert_eq!(document["authorization_servers"], json!(["https://issuer.test"]));
        assert_eq!(document["scopes_supported"], json!(["mcp:call", "x"]));
        assert_eq!(document["bearer_methods_supported"], json!(["header"]));
        Some(document["resource"].as_str()?.to_owned())
    };
    for all in ["", "/mcp", "/team/mcp", "/team"] {
        assert_eq!(
            resource(&format!("{WELL_KNOWN}{all}")).unwrap(),
            "https://gw.example/team/mcp",
            "{all}"
        );
    }
    for one in ["/servers/a-1/mcp", "/team/servers/a-1/mcp"] {
        assert_eq!(
            resource(&format!("{WELL_KNOWN}{one}")).unwrap(),
            "https://gw.example/team/servers/a-1/mcp"
        );
    }
    assert_eq!(
        resource(&format!("{WELL_KNOWN}/agents/Ag_1/mcp")).unwrap(),
        "https://gw.example/team/agents/Ag_1/mcp"
    );
    for none in [
        "/",
        "/agents//mcp",
        "/agents/a/b/mcp",
        "/mcp/",
        "/servers//mcp",
        "/servers/A/mcp",
        "/servers/a\"/mcp",
        "/servers/a/b/mcp",
        "/other",
    ] {
        assert_eq!(resource(&format!("{WELL_KNOWN}{none}")), None, "{none}");
    }
}

#[test]
fn challenges_say_where_to_go_on_and_what_to_ask_for() {
    let names = names("https://gw.example/team");
    let metadata =
        "resource_metadata=\"https://gw.example/.well-known/oauth-protected-resource/team/mcp\"";
    assert_eq!(
        names.challenge(None, None, Resource::All),
        format!("Bearer scope=\"mcp:call\", {metadata}")
    );
    let lacking =
        names.challenge(Some(("insufficient_scope", "more")), Some("mcp:call x"), Resource::All);
    let expected =
        "Bearer error=\"insufficient_scope\", error_description=\"more\", scope=\"mcp:call x\"";
    assert_eq!(lacking, format!("{expected}, {metadata}"));
}
