//! Tests of `snippets`.

use super::*;

#[test]
fn each_client_gets_the_address_and_the_key() {
    let snippets = make_snippets("My $desk`s", "https://g/mcp", Some("lk_1"), true);
    assert_eq!(
        snippets[0].text,
        "claude mcp add --transport http my-desk-s https://g/mcp --header \"Authorization: Bearer lk_1\""
    );
    let cursor: Value = serde_json::from_str(&snippets[1].text).unwrap();
    assert_eq!(cursor["mcpServers"]["my-desk-s"]["headers"]["Authorization"], "Bearer lk_1");
    let code: Value = serde_json::from_str(&snippets[2].text).unwrap();
    assert_eq!(code["servers"]["my-desk-s"]["type"], "http");
}

#[test]
fn a_key_is_named_only_where_one_is_needed() {
    for snippet in make_snippets("🔑", "http://g/mcp", None, false) {
        assert!(!snippet.text.contains("Authorization") && snippet.text.contains("lockgate"));
    }
    for snippet in make_snippets("a", "http://g/mcp", None, true) {
        assert!(snippet.text.contains("Bearer YOUR_KEY"), "{}", snippet.text);
    }
}
