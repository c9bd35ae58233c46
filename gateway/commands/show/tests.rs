//! Tests of `show`.

use super::*;

#[test]
fn foreign_text_commands_no_terminal() {
    let foreign = "a\u{1b}]52;c;Zm9v\u{7}b\u{9b}2J\u{202e}c\r\nid  connected  forged";
    let row = json!({"name": foreign});
    let out = table(&["name", "state"], &[vec![cell(&row, "name"), foreign.to_owned()]]);
    assert_eq!(out.lines().count(), 2, "{out:?}");
    let shown = for_terminal(&format!("{out}\n{foreign}\n\u{1b}[32mconnected\u{1b}[0m"));
    let unseen = shown.replace("\u{1b}[32m", "").replace("\u{1b}[0m", "").replace('\n', "");
    assert!(!unseen.chars().any(is_unseen), "{shown:?}");
    assert!(shown.contains("\\u001b]52") && shown.ends_with("\u{1b}[32mconnected\u{1b}[0m"));
}

#[test]
fn what_is_plain_stays_as_it_is() {
    let text = "Grüße, 世界 🙂 \t tab\nline";
    assert_eq!(for_terminal(text), text);
    assert_eq!(plain("Grüße, 世界 🙂"), "Grüße, 世界 🙂");
}

#[test]
fn an_address_is_shown_without_secrets() {
    for (url, shown) in [
        ("http://127.0.0.1:3001", "http://127.0.0.1:3001"),
        ("https://gate.example/team/mcp", "https://gate.example/team/mcp"),
        ("https://gate.example/mcp?key=canary#canary", "https://gate.example/mcp"),
        ("https://user:canary@gate.example/", "https://gate.example"),
    ] {
        assert_eq!(address(url), shown, "{url}");
    }
}
