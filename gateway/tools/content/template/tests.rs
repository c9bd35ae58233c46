//! Tests of `template`. Expansions are those of RFC 6570 for `var` = "value", `hello` = "Hello World!", `path` = "/foo/bar",
//! `x` = "1024", `y` = "768", `empty` = "".

use super::*;

fn values(template: &str, uri: &str) -> Option<Vec<(String, String)>> {
    UriTemplate::parse(template).unwrap().values(uri).map(|values| values.into_iter().collect())
}

#[test]
fn what_was_expanded_is_found_again() {
    let (var, x, y) = (("var", "value"), ("x", "1024"), ("y", "768"));
    for (template, uri, expected) in [
        ("a:{var}", "a:value", vec![var]),
        ("a:{hello}", "a:Hello%20World%21", vec![("hello", "Hello World!")]),
        ("a:{+hello}", "a:Hello%20World!", vec![("hello", "Hello World!")]),
        ("a:{+path}/here", "a:/foo/bar/here", vec![("path", "/foo/bar")]),
        ("a:here?ref={+path}", "a:here?ref=/foo/bar", vec![("path", "/foo/bar")]),
        ("a:X{#var}", "a:X#value", vec![var]),
        ("a:map?{x,y}", "a:map?1024,768", vec![x, y]),
        ("a:{x,hello,y}", "a:1024,Hello%20World%21,768", vec![("hello", "Hello World!"), x, y]),
        ("a:{+path,x}/here", "a:/foo/bar,1024/here", vec![("path", "/foo/bar"), x]),
        ("a:{#x,hello,y}", "a:#1024,Hello%20World!,768", vec![("hello", "Hello World!"), x, y]),
        ("a:X{.var}", "a:X.value", vec![var]),
        ("a:X{.x,y}", "a:X.1024.768", vec![x, y]),
        ("a:{/var}", "a:/value", vec![var]),
        ("a:{/var,x}/here", "a:/value/1024/here", vec![var, x]),
        ("a:{;x,y}", "a:;x=1024;y=768", vec![x, y]),
        ("a:{;x,y,empty}", "a:;x=1024;y=768;empty", vec![x, y]),
        ("a:{?x,y}", "a:?x=1024&y=768", vec![x, y]),
        ("a:{?x,y}", "a:?y=768", vec![y]),
        ("a:{?x,y}", "a:", vec![]),
        ("a:{?x,empty}", "a:?x=1024&empty=", vec![("empty", ""), x]),
        ("a:?fixed=yes{&x}", "a:?fixed=yes&x=1024", vec![x]),
    ] {
        let expected: Vec<_> = expected.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        assert_eq!(values(template, uri), Some(expected), "{template} {uri}");
    }
}

#[test]
fn what_was_not_expanded_from_it_is_not_found() {
    for (template, uri) in [
        ("a:{var}", "a:"),
        ("a:{var}", "a:x/y"),
        ("a:{var}", "a:x?y"),
        ("a:{var}", "b:x"),
        ("a:{var}", "a:%zz"),
        ("a:{var}", "a:%ff"),
        ("a:{var}", "a:%00"),
        ("a:{var}", "a:x\ny"),
        ("a:{var}", "a:x\n"),
        ("a:{+path}", "a:x y"),
        ("a:X{.x,y}", "a:X.1.2.3"),
        ("a:{?x}", "a:?x=1&x=2"),
        ("a:{?x}", "a:?z=1"),
    ] {
        assert_eq!(values(template, uri), None, "{template} {uri}");
    }
    assert_eq!(values("a:{var}", &format!("a:{}", "x".repeat(2000))), None);
    assert_eq!(values("a:{var}", &format!("a:{}", "x".repeat(5000))), None);
}

#[test]
fn templates_beyond_level_three_are_refused() {
    for template in
        ["a:{var:3}", "a:{list*}", "a:{", "a:{}", "a:{a,}", "a:{a b}", "a:b", "a:{x}{x}", "a b{x}", "a:{=x}", "a:{|x}"]
    {
        assert!(UriTemplate::parse(template).is_err(), "{template}");
    }
    assert!(UriTemplate::parse(&format!("a:{}{{x}}", "y".repeat(1100))).is_err());
}

#[test]
fn ambiguous_templates_take_no_longer_than_others() {
    let template = UriTemplate::parse("a:{+a}{+b}{+c}{+d}{+e}{+f}{+g}!").unwrap();
    assert!(template.values(&format!("a:{}", "x".repeat(1000))).is_none());
}
