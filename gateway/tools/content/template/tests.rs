//! Tests of `template`. The expansions are those of RFC 6570 for `var` = "value", `hello` = "Hello
//! World!", `path` = "/foo/bar", `x` = "1024", `y` = "768", `empty` = "", `list` = ("red", "green",
//! "blue").

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
        ("a:d{/var}", "a:d", vec![]),
        ("a:d/f{.var}{#x}{;y}", "a:d/f", vec![]),
        ("a:d/f{.var}{#x}{;y}", "a:d/f.value;y=768", vec![var, y]),
        ("a:d/f{.var}{#x}", "a:d/f#1024", vec![x]),
        ("a:{x}{/var,y}", "a:1024", vec![x]),
        ("a:{/var,x}/here", "a:/value/1024/here", vec![var, x]),
        ("a:{;x,y}", "a:;x=1024;y=768", vec![x, y]),
        ("a:{;x,y,empty}", "a:;x=1024;y=768;empty", vec![("empty", ""), x, y]),
        ("a:{?x,y}", "a:?x=1024&y=768", vec![x, y]),
        ("a:{?x,y}", "a:?y=768", vec![y]),
        ("a:{?x,y}", "a:", vec![]),
        ("a:{?x,empty}", "a:?x=1024&empty=", vec![("empty", ""), x]),
        ("a:?fixed=yes{&x}", "a:?fixed=yes&x=1024", vec![x]),
        ("a:{var:3}", "a:val", vec![("var", "val")]),
        ("a:{var:30}", "a:value", vec![var]),
        ("a:{var:1}{x}", "a:v1024", vec![("var", "v"), x]),
        ("a:{var:1}{x}", "a:%C3%B6%C3%B6", vec![("var", "ö"), ("x", "ö")]),
        ("a:{+path:6}/here", "a:/foo/b/here", vec![("path", "/foo/b")]),
        ("a:{;hello:5}", "a:;hello=Hello", vec![("hello", "Hello")]),
        ("a:{?var:3}", "a:?var=val", vec![("var", "val")]),
        ("a:{list*}", "a:red,green,blue", vec![("list", "red,green,blue")]),
        ("a:{+list*}", "a:red,green,blue", vec![("list", "red,green,blue")]),
        ("a:{/list*}", "a:/red/green/blue", vec![("list", "red/green/blue")]),
        (
            "a:{/list*,path:4}",
            "a:/red/green/blue/%2Ffoo",
            vec![("list", "red/green/blue"), ("path", "/foo")],
        ),
        ("a:X{.list*}", "a:X.red.green.blue", vec![("list", "red.green.blue")]),
        ("a:{;list*}", "a:;list=red;list=green;list=blue", vec![("list", "red,green,blue")]),
        ("a:{?list*}", "a:?list=red&list=green&list=blue", vec![("list", "red,green,blue")]),
    ] {
        let expected: Vec<_> =
            expected.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        assert_eq!(values(template, uri), Some(expected), "{template} {uri}");
    }
}

#[test]
fn what_was_not_expanded_from_it_is_not_found() {
    for (template, uri) in [
        ("a:{var}", "a:"),
        ("a:{+path}", "a:"),
        ("a:{x}{/var,y}", "a:1024/value"),
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
        ("a:{;x}", "a:;x=1;x=2"),
        ("a:{var:3}", "a:valu"),
        ("a:{?var:3}", "a:?var=valu"),
        ("a:{/list*}", "a:/red//blue"),
        ("a:{list*}", "a:red,green,"),
    ] {
        assert_eq!(values(template, uri), None, "{template} {uri}");
    }
    assert_eq!(values("a:{var}", &format!("a:{}", "x".repeat(2000))), None);
    assert_eq!(values("a:{var}", &format!("a:{}", "x".repeat(5000))), None);
}

#[test]
fn what_is_no_template_is_refused() {
    let expressions =
        "{ {} {a,} b {x}{x} {=x} {|x} {a-b} {x:0} {x:} {x:-1} {x:1025} {x:3*} {x**} {*} {:3}";
    for template in expressions.split(' ').chain(["{a b}", " b{x}"]).map(|rest| format!("a:{rest}"))
    {
        assert!(UriTemplate::parse(&template).is_err(), "{template}");
    }
    assert!(UriTemplate::parse(&format!("a:{}{{x}}", "y".repeat(1100))).is_err());
}

#[test]
fn ambiguous_templates_take_no_longer_than_others() {
    let template = UriTemplate::parse("a:{+a}{+b}{+c}{+d}{+e}{+f}{+g}!").unwrap();
    assert!(template.values(&format!("a:{}", "x".repeat(1000))).is_none());
}
