//! Tests of `config`: the patterns of an agent.

#![allow(clippy::unwrap_used)]
use super::*;

fn items(pattern: &str, count: usize) -> Items {
    let list = vec![pattern.to_owned(); count];
    Items { tools: list.clone(), prompts: list.clone(), resources: list, ..Items::default() }
}

#[test]
fn patterns_and_wildcards_of_an_agent_are_bounded_per_list() {
    for (pattern, count, is_permitted) in [
        ("a/b", 100, true),
        ("a/b", 101, false),
        ("a/*", 100, true),
        ("a/?[bc]", 50, true),
        ("a/?[bc]", 51, false),
        ("a/{b,c}*", 51, false),
        (&*"?".repeat(101), 1, false),
    ] {
        let given = items(pattern, count);
        assert!(given.check().is_ok(), "{pattern}: the operator's may have more");
        let stored = serde_json::to_string(&given).unwrap();
        let is_read = *Compose::read(&stored) != Compose::default();
        assert_eq!(is_read, is_permitted, "{pattern} {count}");
        let mistakes = given.check_agent().err().unwrap_or_default();
        let members: Vec<&str> = mistakes.iter().map(|mistake| mistake.member).collect();
        let expected: &[&str] = if is_permitted { &[] } else { &["tools", "prompts", "resources"] };
        assert_eq!(members, expected, "{pattern} {count}");
        assert!(mistakes.iter().all(|mistake| mistake.what.contains("100 wildcards (`*`")));
    }
}
