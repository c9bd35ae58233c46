//! Tests of `discovery`.

#![allow(clippy::unwrap_used)]
use super::*;

fn discovery() -> Discovery {
    Discovery {
        cards: true,
        registry: Registry::Public,
        host: "mcp.example.com".into(),
        origin: "https://mcp.example.com".into(),
        prefix: "/gate".into(),
    }
}

fn endpoints() -> Vec<ListedEndpoint> {
    let mut all = Vec::new();
    for (name, path) in
        [("mcp", "/mcp"), ("servers.a", "/servers/a/mcp"), ("servers.b", "/servers/b/mcp")]
    {
        all.push(ListedEndpoint { name: name.into(), path: path.into(), description: "d" });
    }
    all
}

fn names(page: &Value) -> Vec<&str> {
    let servers = page["servers"].as_array().unwrap().iter();
    servers.map(|entry| entry["server"]["name"].as_str().unwrap()).collect()
}

#[test]
fn documents_have_public_addresses() {
    let all = endpoints();
    let card = discovery().card(&all[1]);
    assert_eq!(card["name"], "com.example.mcp/servers.a");
    assert_eq!(card["remotes"][0]["url"], "https://mcp.example.com/gate/servers/a/mcp");
    let catalog = discovery().catalog(&all);
    let entry = &catalog["entries"][1];
    assert_eq!(entry["identifier"], "urn:air:mcp.example.com:servers.a");
    assert_eq!(entry["url"], "https://mcp.example.com/gate/servers/a/mcp/server-card");
}

#[test]
fn pages_follow_each_other() {
    let all = endpoints();
    let mut query = RegistryQuery { limit: Some("2".into()), ..RegistryQuery::default() };
    let first = discovery().page(&all, &query).unwrap();
    assert_eq!(names(&first), ["com.example.mcp/mcp", "com.example.mcp/servers.a"]);
    query.cursor = Some(first["metadata"]["nextCursor"].as_str().unwrap().to_owned());
    let second = discovery().page(&all, &query).unwrap();
    assert_eq!(names(&second), ["com.example.mcp/servers.b"]);
    assert_eq!(second["metadata"], json!({"count": 1}));
}

#[test]
fn pages_are_filtered_and_checked() {
    let all = endpoints();
    let ask = |change: fn(&mut RegistryQuery)| {
        let mut query = RegistryQuery::default();
        change(&mut query);
        discovery().page(&all, &query)
    };
    let found = ask(|query| query.search = Some("SERVERS.B".into())).unwrap();
    assert_eq!(names(&found), ["com.example.mcp/servers.b"]);
    assert_eq!(names(&ask(|query| query.version = Some("latest".into())).unwrap()).len(), 3);
    assert_eq!(names(&ask(|query| query.version = Some("9.9".into())).unwrap()).len(), 0);
    for limit in ["0", "101", "-1", "x"] {
        let query = RegistryQuery { limit: Some(limit.into()), ..RegistryQuery::default() };
        assert!(discovery().page(&all, &query).unwrap_err().contains("from 1 to 100"), "{limit}");
    }
    assert!(ask(|query| query.cursor = Some("x".into())).unwrap_err().contains("cursor"));
    assert_eq!(names(&ask(|query| query.limit = Some("100".into())).unwrap()).len(), 3);
}
