use super::*;

const CALLER: Subject<'static> = Subject {
    key: 1,
    issuer: "key",
    subject: "caller",
    organisation: None,
    roles: &[],
    scopes: &[],
    agent: None,
    certificate: None,
};

fn class() -> Class {
    Class::new(BitSet::new(), Vec::new(), Box::default(), 1, None)
}

#[test]
fn a_class_is_found_once_for_each_caller_and_endpoint() {
    let classes = Classes::new();
    let first = classes.get(&CALLER, "/mcp", class);
    let again = classes.get(&CALLER, "/mcp", || panic!("found twice"));
    assert!(Arc::ptr_eq(&first, &again));
    let elsewhere = classes.get(&CALLER, "/servers/a/mcp", class);
    assert!(!Arc::ptr_eq(&first, &elsewhere));
    let roles = ["admin".into()];
    let renewed = classes.get(&Subject { roles: &roles, ..CALLER }, "/mcp", class);
    assert!(!Arc::ptr_eq(&first, &renewed));
}

#[test]
fn the_cache_is_bounded() {
    let classes = Classes::new();
    for number in 0..=MAX_KNOWN {
        let subject = number.to_string();
        classes.get(&Subject { subject: &subject, ..CALLER }, "/mcp", class);
        assert!(classes.known.len() <= MAX_KNOWN);
    }
    assert_eq!(classes.known.len(), 1);
}
