//! Entries of a registry as integrations, with values, mistakes and entries that cannot be added.

use lockgate_registry::Origin;
use serde_json::json;

use super::*;

fn read(remote: &Value) -> Result<RegistryServer, String> {
    let server = json!({"name": "com.example/files", "version": "1.2.0", "title": "Files",
        "remotes": [{"type": "sse", "url": "https://old"}, remote]});
    RegistryServer::read("com.example/files", &server)
}

fn given(inputs: &Value) -> NewRegistryIntegration {
    serde_json::from_value(json!({"server": "com.example/files", "version": "1.2.0",
        "inputs": inputs}))
    .unwrap()
}

fn remote() -> Value {
    json!({"type": "streamable-http", "url": "https://{tenant}.example.com/mcp?r={region}",
        "variables": {"tenant": {"description": "Your tenant"},
            "region": {"default": "eu", "choices": ["eu", "us"]}},
        "headers": [{"name": "Authorization", "value": "Bearer {token}",
            "variables": {"token": {"isSecret": true}}}, {"name": "X-Optional"}]})
}

#[test]
fn a_remote_becomes_an_integration() {
    let found = read(&remote()).unwrap();
    let names: Vec<&str> = found.inputs.iter().map(|input| input.name.as_str()).collect();
    assert_eq!(names, ["tenant", "region", "token"]);
    assert!(found.inputs[2].is_secret && found.inputs[1].choices == ["eu", "us"]);
    let new = found.fill(given(&json!({"tenant": "acme", "token": "{tenant}-secret"})));
    let new = new.map_err(|problem| problem.detail().to_owned()).unwrap().read();
    let new = new.map_err(|problem| problem.detail().to_owned()).unwrap();
    let Origin::Custom { url, auth } = &new.origin else { panic!("{new:?}") };
    assert_eq!(url, "https://acme.example.com/mcp?r=eu");
    assert_eq!((new.name.as_deref(), auth.method()), (Some("Files"), "bearer_token"));
    assert_eq!(new.credentials.unwrap().expose(), "{tenant}-secret", "values are no templates");
    assert_eq!(new.source.as_deref(), Some("com.example/files@1.2.0"));
    let mut header = remote();
    header["headers"] = json!([{"name": "X-Key", "isRequired": true, "isSecret": true}]);
    let new = read(&header).unwrap();
    let new = new.fill(given(&json!({"tenant": "acme", "X-Key": "a-long-key"})));
    let new = new.map_err(|problem| problem.detail().to_owned()).unwrap();
    let Origin::Custom { auth, .. } = new.read().ok().unwrap().origin else { panic!() };
    assert_eq!(auth.header(), Some("X-Key"));
}

#[test]
fn wrong_values_are_named() {
    for (inputs, pointer, words) in [
        (json!({"token": "t"}), "/inputs/tenant", "is required"),
        (json!({"tenant": "a", "token": ""}), "/inputs/token", "is required"),
        (json!({"tenant": "evil.com/", "token": "t"}), "/inputs/tenant", "part of an address"),
        (json!({"tenant": "a", "token": "t", "region": "x"}), "/inputs/region", "one of eu, us"),
        (json!({"tenant": "a", "token": "t", "a/b": "x"}), "/inputs/a~1b", "not a value"),
    ] {
        let problem = read(&remote()).unwrap().fill(given(&inputs)).err().unwrap();
        assert_eq!(problem.pointer(), pointer);
        assert!(problem.detail().contains(words), "{}", problem.detail());
    }
}

#[test]
fn an_address_that_has_changed_is_not_added() {
    let values = json!({"tenant": "acme", "token": "t"});
    for (url, is_added) in [
        (None, true),
        (Some("https://{tenant}.example.com/mcp?r={region}"), true),
        (Some("https://{tenant}.example.com/mcp"), false),
        (Some(""), false),
    ] {
        let mut new = given(&values);
        new.url = url.map(str::to_owned);
        match read(&remote()).unwrap().fill(new).err() {
            None => assert!(is_added, "{url:?}"),
            Some(problem) => {
                assert!(!is_added, "{}", problem.detail());
                assert_eq!((problem.pointer(), problem.status().as_u16()), ("/url", 400));
            }
        }
    }
}

/// Returns a template with this number of variables.
fn template(count: usize) -> String {
    (0..count).map(|at| format!("{{v{at}}}")).collect()
}

/// Returns a remote with a variable in its address, and a header of this template.
fn with_header(value: &str) -> Value {
    json!({"type": "streamable-http", "url": "https://{tenant}.example.com/mcp",
        "headers": [{"name": "X-Key", "value": value}]})
}

#[test]
fn values_and_templates_are_bounded() {
    assert_eq!(read(&with_header(&template(31))).unwrap().inputs.len(), 32);
    let mut required = with_header("");
    required["url"] = format!("https://a/{}", template(32)).into();
    required["headers"] = json!([{"name": "X-Key", "isRequired": true}]);
    for remote in [with_header(&template(32)), required] {
        assert_eq!(read(&remote).err().unwrap(), "requires more than 32 values");
    }
    assert!(read(&with_header(&"x".repeat(2048))).is_ok());
    let long = read(&with_header(&"{a}".repeat(20_000))).err().unwrap();
    assert_eq!(long, "has a template of more than 2048 bytes");
}

#[test]
fn entries_that_cannot_be_added_say_why() {
    let mut secret = remote();
    secret["variables"]["tenant"]["isSecret"] = true.into();
    let mut two = remote();
    two["headers"][1]["isRequired"] = true.into();
    let mut open = remote();
    open["url"] = "https://{tenant".into();
    for (remote, words) in [
        (json!({"type": "stdio", "command": "sh"}), "may be a program"),
        (secret, "secret in its address"),
        (two, "several headers"),
        (open, "closing brace"),
    ] {
        let reason = read(&remote).err().unwrap();
        assert!(reason.contains(words), "{reason}");
    }
    let other = RegistryServer::read("com.example/files", &json!({"name": "com.example/other"}));
    assert!(other.err().unwrap().contains("another server"));
}
