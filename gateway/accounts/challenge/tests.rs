//! Tests of challenges as servers send them.

use super::Challenge;

fn read(headers: &[&str]) -> Option<Challenge> {
    Challenge::read(headers.iter().copied())
}

fn parts(headers: &[&str]) -> (Option<String>, Option<String>, Option<String>) {
    let found = read(headers).unwrap();
    (found.resource_metadata, found.scope, found.error)
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[test]
fn challenges_are_read_in_every_form() {
    let url = "https://a.example/.well-known/oauth-protected-resource";
    let both = (some(url), some("a b"), None);
    let quoted = format!("Bearer resource_metadata=\"{url}\", scope=\"a b\"");
    assert_eq!(parts(&[&quoted]), both);
    let spaced = format!("bEARER  scope = \"a b\" ,, resource_metadata = {url}");
    assert_eq!(parts(&[&spaced]), both);
    let several = format!("Basic realm=\"x, Bearer scope=\\\"no\\\"\", {quoted}");
    assert_eq!(parts(&[&several]), both);
    let after = format!("Negotiate YWJj==, Digest a=b, {quoted}");
    assert_eq!(parts(&[&after]), both);
    assert_eq!(parts(&["Negotiate", &quoted]), both);
    let first = format!("{quoted}, Bearer scope=\"other\", error=\"invalid_token\"");
    assert_eq!(parts(&[&first]), (some(url), some("a b"), some("invalid_token")));
}

#[test]
fn other_schemes_and_garbage_are_no_bearer_challenge() {
    for header in ["", ",", "Basic realm=\"Bearer\"", "Negotiate YWJj", "=x", "\"Bearer\"", "Ä"] {
        assert_eq!(read(&[header]), None, "{header}");
    }
    assert_eq!(read(&["Bearer"]), Some(Challenge::default()));
    assert_eq!(read(&["Bearer scope=\"open"]), Some(Challenge::default()));
    let long = format!("Bearer {}", "a=b, ".repeat(10_000));
    assert_eq!(read(&[&long]), Some(Challenge::default()));
}

#[test]
fn scopes_are_split() {
    let found = read(&["Bearer error=insufficient_scope, scope=\" x  y \""]).unwrap();
    assert_eq!(found.scopes(), ["x", "y"]);
    assert!(found.is_insufficient_scope());
    assert!(!Challenge::default().is_insufficient_scope());
}

#[test]
fn long_acr_values_are_not_passed_on() {
    for (length, is_kept) in [(512, true), (513, false)] {
        let values = "x".repeat(length);
        let error = "insufficient_user_authentication";
        let header = format!("Bearer error=\"{error}\", acr_values=\"{values}\"");
        let step_up = read(&[&header]).unwrap().step_up().unwrap();
        assert_eq!(step_up.acr_values.is_some(), is_kept, "{length}");
    }
}
