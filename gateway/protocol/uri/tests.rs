//! Tests of `uri`.

#![allow(clippy::unwrap_used)]
use proptest::prelude::*;

use super::*;

#[test]
fn each_form_is_rewritten_by_its_rule_and_back() {
    let table = [
        ("wiki", "file:///a/b", "wiki+file:///a/b"),
        ("wiki", "page://home", "wiki+page://home"),
        ("wiki", "git+ssh://h/x", "wiki+git+ssh://h/x"),
        ("wiki", "urn:isbn:1", "wiki+urn:isbn:1"),
        ("wiki", "FILE:///a", "wiki+FILE:///a"),
        ("wiki", "a:", "wiki+a:"),
        ("wiki", "http:no-slashes", "wiki+http:no-slashes"),
        ("wiki", "ui:opaque", "wiki+ui:opaque"),
        ("wiki", "ui://app/main.html", "ui://wiki+app/main.html"),
        ("wiki", "UI://app", "UI://wiki+app"),
        ("wiki", "ui://", "ui://wiki+"),
        ("wiki", "ui://a+b", "ui://wiki+a+b"),
        ("9-lives", "ui://a", "ui://9-lives+a"),
        ("wiki", "skill://a/SKILL.md", "skill://wiki/a/SKILL.md"),
        ("9-lives", "skill://a", "skill://9-lives/a"),
        ("wiki", "skill://{+path}", "skill://wiki/{+path}"),
        ("wiki", "skill://", "skill://wiki/"),
        ("wiki", "SKILL://a", "wiki+SKILL://a"),
        ("wiki", "file:///{path}{?q*}", "wiki+file:///{path}{?q*}"),
        ("wiki", "{scheme}://{+path}", "wiki+:{scheme}://{+path}"),
        ("wiki", "notes/today", "wiki+:notes/today"),
        ("wiki", "/etc/motd", "wiki+:/etc/motd"),
        ("wiki", "", "wiki+:"),
        ("wiki", ":a", "wiki+::a"),
        ("wiki", "::a", "wiki+:::a"),
        ("wiki", "1a:b", "wiki+:1a:b"),
        ("wiki", "ä:b", "wiki+:ä:b"),
        ("9-lives", "file:///a", "x-9-lives+file:///a"),
        ("-a", "file:///a", "x--a+file:///a"),
        ("x-a", "file:///a", "x-x-a+file:///a"),
        ("x-", "file:///a", "x-x-+file:///a"),
        ("x", "file:///a", "x+file:///a"),
        ("xa", "file:///a", "xa+file:///a"),
        ("9", "a/b", "x-9+:a/b"),
        ("http", "s://x", "http+s://x"),
        ("ui", "a://b", "ui+a://b"),
        ("wiki", "wiki+file:///a", "wiki+wiki+file:///a"),
    ];
    for (slug, uri, exposed) in table {
        assert_eq!(expose(slug, uri), exposed);
        assert_eq!(own(exposed), Some((slug, Cow::Borrowed(uri))), "{exposed}");
    }
}

#[test]
fn web_uris_stay_as_they_are() {
    for uri in ["https://h/a?b#c", "http://h", "HTTPS://H/", "https://", "https://h/{id}"] {
        assert!(matches!(expose("wiki", uri), Cow::Borrowed(same) if same == uri));
        assert_eq!(own(uri), None);
    }
}

#[test]
fn what_expose_never_gives_has_no_owner() {
    for text in [
        "",
        "a",
        "file:///a",
        "Wiki+file:///a",
        "wi_ki+file:///a",
        "+file:///a",
        "9+file:///a",
        "x-wiki+file:///a",
        "x-+a:b",
        "wiki+https://h/a",
        "wiki+HTTP://h/a",
        "wiki+ui://a",
        "wiki+skill://a",
        "skill://wiki",
        "skill://W/a",
        "wiki+",
        "wiki",
        "ui://wiki",
        "ui://+a",
        "ui://W+a",
        "ui:wiki+a",
        "wiki+:file:///a",
        "wiki+:ui://a",
        "wiki+:https://h",
    ] {
        let exposed_again = own(text).map(|(slug, uri)| expose(slug, &uri).into_owned());
        assert_eq!(exposed_again, None, "{text}");
    }
}

#[test]
fn validation_refuses_what_servers_could_misread() {
    use UriError::{Character, DotSegment, Empty, Nul, TooLong};
    let long = format!("file:///{}", "a".repeat(MAX_URI));
    let table = [
        ("file:///a/b..c/.d/e.", Ok(())),
        ("file:///a/.../b", Ok(())),
        ("https://h/a/../b", Err(DotSegment)),
        ("https://h/a/%2e%2e/b", Err(DotSegment)),
        ("https://h/a/b?c=../d&e=%2e%2e#..", Ok(())),
        ("db://t?q=../x", Ok(())),
        ("ä://ö", Ok(())),
        ("a:%", Ok(())),
        ("a:%zz%2", Ok(())),
        ("a:%ff%fe", Ok(())),
        ("ui://wiki+app/main.html", Ok(())),
        ("wiki+:notes/today", Ok(())),
        ("", Err(Empty)),
        (&long, Err(TooLong)),
        ("file:///a b", Err(Character)),
        ("file:///a\n", Err(Character)),
        ("file:///a\0", Err(Character)),
        ("file:///a\u{7f}", Err(Character)),
        ("file:///a\u{85}", Err(Character)),
        ("file:///a\u{a0}", Err(Character)),
        ("file:///a\u{2028}", Err(Character)),
        ("file:///../a", Err(DotSegment)),
        ("file:///a/./b", Err(DotSegment)),
        ("file:///a/..", Err(DotSegment)),
        ("file:..", Err(DotSegment)),
        ("..", Err(DotSegment)),
        ("../a", Err(DotSegment)),
        ("page://../a", Err(DotSegment)),
        ("file:///a\\..\\b", Err(DotSegment)),
        ("file:///a/%2e%2E/b", Err(DotSegment)),
        ("file:///a/.%2e/b", Err(DotSegment)),
        ("file:///a%2f..%2fb", Err(DotSegment)),
        ("file:///a%5c..%5Cb", Err(DotSegment)),
        ("file:///a/%252e%252e/b", Err(DotSegment)),
        ("file:///a/%25252e./b", Err(DotSegment)),
        ("file:///a?x/../b", Err(DotSegment)),
        ("file:///a/..#b", Err(DotSegment)),
        ("wiki+:../a", Err(DotSegment)),
        ("wiki+file:///../a", Err(DotSegment)),
        ("ui://wiki+../a", Err(DotSegment)),
        ("http:../a", Err(DotSegment)),
        ("file:///a%00b", Err(Nul)),
        ("file:///a%2500b", Err(Nul)),
    ];
    for (uri, expected) in table {
        assert_eq!(validate(uri, MAX_URI), expected, "{uri:?}");
    }
    assert_eq!(validate("a:bc", 4), Ok(()));
    assert_eq!(validate("a:bcd", 4), Err(TooLong));
}

#[test]
fn one_resource_has_one_canonical_form() {
    for uri in [
        "https://docs.example.com/private/plan?a='b'&c=d%20e%2Ff#d",
        "https://docs.example.com:8443/private/pl%C3%A4n%20a",
        "https://docs.example.com/",
        "https://[::1]:80/a",
        "file:///srv/a%2Bb/c!$&'()*,=:@d",
        "file:///srv/folder/",
        "file:///C:/a",
        "file:///",
        "postgres://user@host:5432/table/schema",
        "note://private/a",
        "note://me@private:80/a/b",
        "note:///private/a",
        "note:private/a",
        "note:/private/a",
        "note://a:b/c",
        "memo://insights",
        "ui://",
        "db://t?q=SELECT%20%22a%22%3B%0A%20%5C",
        "urn:isbn:1",
        "a:100%25",
        "notes/today",
        "/srv/private/plan",
        "",
    ] {
        assert_eq!(form(uri), Form::Canonical, "{uri}");
    }
    for uri in [
        "repo://o/r/refs/heads/feature%2Fx/contents",
        "note://h/what%3F",
        "note://h/a%2F",
        "note://h/a%23b",
        "greeting://Alice",
        "user://a%40b.c/profile",
        "note://Jos%C3%A9",
    ] {
        assert_eq!(form(uri), Form::Expanded, "{uri}");
    }
    for uri in [
        "https:/docs.example.com/private/plan",
        "https:docs.example.com:443/private/plan",
        "https:\\\\docs.example.com\\private\\plan",
        "https://docs.example.com\\private/plan",
        "https:///docs.example.com/private/plan",
        "https://docs.example.com:443/private/plan",
        "https://docs.example.com:0443/private/plan",
        "https://docs.example.com:/private/plan",
        "https://docs.example.com./private/plan",
        "https://DOCS.example.com/private/plan",
        "HTTPS://docs.example.com/private/plan",
        "https://docs\u{3002}example.com/private/plan",
        "https://do\u{ad}cs.example.com/private/plan",
        "https://u:p@docs.example.com/private/plan",
        "https://u@docs.example.com/private/plan",
        "https://@docs.example.com/private/plan",
        "https://docs.example.com",
        "https://docs.example.com/pri\tvate/plan",
        "https://docs.example.com/x/../private/plan",
        "https://docs.example.com/x/%2e%2E/private/plan",
        "https://docs.example.com/private/pla%6e;%2fx",
        "https://docs.example.com/a//..;/private/plan",
        "https://docs.example.com/private/plan;v=1",
        "https://docs.example.com/private/plan%3Bv=1",
        "https://docs.example.com/private//plan",
        "https://docs.example.com/private/plan//",
        "https://docs.example.com/private/a+plan",
        "https://docs.example.com/a?q=b+c",
        "https://docs.example.com/private/plan.",
        "https://docs.example.com/private/plan%20",
        "https://docs.example.com/private%5Cplan",
        "https://docs.example.com/private%2fplan",
        "https://docs.example.com/private%252Fplan",
        "https://docs.example.com/private/pl%09an",
        "https://docs.example.com/private/pl%C2%85an",
        "https://docs.example.com/private/pl%61n",
        "https://docs.example.com/private/pl%c3%a4n",
        "https://docs.example.com/private/pl\u{e4}n",
        "https://docs.example.com/private/pla%CC%88n",
        "https://docs.example.com/private%C0%AFplan",
        "https://docs.example.com/private/%E0%80%AFplan",
        "https://docs.example.com/private/%",
        "https://docs.example.com/private/{x}",
        "https://docs.example.com/private/[x]",
        "http:",
        "wss:a",
        "file://server/share/a",
        "file:/srv/private/plan",
        "file:srv/private/plan",
        "file:////srv/private/plan",
        "file://localhost/srv/private/plan",
        "file:\\\\\\srv\\private\\plan",
        "file:///srv\\private/plan",
        "file:///c|/a",
        "file://c:/a",
        "file://c|/a",
        "file:c:/a",
        "FILE:///srv/private/plan",
        "Note://private/a",
        "note:////private/a",
        "note://@private/a",
        "note://private:/a",
        "note://private:080/a",
        "note://private./a",
        "note://u@/private/a",
        "note://:80/private/a",
        "note://u%40/private/a",
        "note://private.%3A80/a",
        "note://private/x/../a",
        "note://h/a%2F%2Fb",
        "note://h/a%2F/b",
        "//srv/private/plan",
        "a//b",
    ] {
        assert_eq!(form(uri), Form::Other, "{uri}");
    }
}

fn uri() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{1,3}[+.a-z0-9-]{0,6}:[ -~]{0,20}",
        "(ui|UI|http|https|x-|x)[:+/]{0,3}[a-z+:/{}?]{0,12}",
        "\\PC{0,20}",
        ".{0,10}",
    ]
}

fn slug() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z0-9-]{1,64}", "(x-|x|-|ui|http|https|9){1,3}"]
}

proptest! {
    #[test]
    fn own_undoes_expose(slug in slug(), uri in uri()) {
        let exposed = expose(&slug, &uri);
        if matches!(exposed, Cow::Borrowed(_)) {
            prop_assert_eq!(own(&exposed), None);
        } else {
            prop_assert_eq!(own(&exposed), Some((&*slug, Cow::Borrowed(&*uri))));
            prop_assert!(split(&exposed).is_some(), "an exposed URI has a scheme");
        }
    }

    #[test]
    fn expose_undoes_own(text in uri()) {
        if let Some((slug, uri)) = own(&text) {
            prop_assert_eq!(expose(slug, &uri), &*text);
        }
    }

    #[test]
    fn a_valid_own_uri_is_valid_when_exposed(slug in slug(), uri in uri()) {
        if validate(&uri, MAX_URI).is_ok() && !uri.contains("+.") && !uri.contains(":.") {
            prop_assert_eq!(validate(&expose(&slug, &uri), 2 * MAX_URI), Ok(()));
        }
    }
}
