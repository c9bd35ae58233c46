//! Tests of `template`: the expansions of the operators of RFC 6570, and nothing else.

use super::*;

fn describes(template: &str, uri: &str) -> bool {
    super::describes(template, uri, &mut Steps::of_request())
}

#[test]
fn a_template_describes_what_it_expands_to() {
    let fits: &[(&str, &[&str])] = &[
        ("a://x", &["a://x"]),
        (
            "db+row://{table}/{id}",
            &["db+row://users/5", "db+row://users/5%2F6", "db+row:///", "db+row://us%C3%A9rs/a~b"],
        ),
        // Lists and maps are values too.
        ("a:{x}", &["a:", "a:red,green,blue", "a:semi,%3B,dot,."]),
        ("a:{x,y}", &["a:1024,768", "a:768"]),
        ("a:{x*}", &["a:red,green", "a:semi=%3B,dot=."]),
        ("a:{x:3}", &["a:val", "a:v", "a:", "a:%C3%A9%C3%A9%C3%A9"]),
        ("a:{x:3,y}", &["a:val,anything", "a:anything"]),
        ("file:///{+path}", &["file:///a/b.md", "file:///a?b#c[d]@e", "file:///", "file:///%FF"]),
        ("a:{+x,y}z", &["a:1024,768z", "a:/foo/barz", "a:z"]),
        ("a:{+x:2}", &["a:/f", "a:%20%20"]),
        ("a:x{#y,z}", &["a:x", "a:x#/foo,1024", "a:x#"]),
        ("a:x{.y,z}", &["a:x", "a:x.com", "a:x.example.com", "a:x.a,b"]),
        ("a:x{.y*}", &["a:x.red.green", "a:x.semi=%3B.dot=."]),
        ("a:x{/y,z}", &["a:x", "a:x/1", "a:x/1/2", "a:x/1,2", "a:x//"]),
        ("a:x{/y*}", &["a:x/red/green/blue", "a:x/semi=%3B/comma=%2C"]),
        ("a:x{/y:1,z}", &["a:x/v/value"]),
        ("a:x{;y,z}", &["a:x", "a:x;y=1;z=2", "a:x;y", "a:x;z=2", "a:x;y;z"]),
        ("a:x{;y*}", &["a:x;y=red;y=green", "a:x;semi=%3B;dot=.", "a:x;k"]),
        (
            "log://all{?day,level}",
            &["log://all", "log://all?day=1", "log://all?level=", "log://all?day=1&level=a,b"],
        ),
        ("a:x{?y*}", &["a:x?y=red&y=green", "a:x?semi=%3B&comma=%2C"]),
        ("a:x{?y:3}", &["a:x?y=val"]),
        ("a:x?fixed=yes{&y,z}", &["a:x?fixed=yes", "a:x?fixed=yes&y=1&z=2"]),
        ("a://{x}{y}", &["a://", "a://xy"]),
        // Literals that are not allowed in a URI are escaped by some clients only.
        ("a://ü/{x}", &["a://%C3%BC/1", "a://%c3%bc/1", "a://ü/1"]),
        ("a://%20/{x}", &["a://%20/1"]),
        // Characters that JavaScript's `encodeURIComponent` leaves unescaped.
        ("a://{x}", &["a://it's(1)!*"]),
        ("a://{user-id}/{a.b}", &["a://1/2"]),
    ];
    for (template, uris) in fits {
        for uri in *uris {
            assert!(describes(template, uri), "{template} {uri}");
        }
    }
}

#[test]
fn and_nothing_else() {
    let misfits: &[(&str, &[&str])] = &[
        ("a://x", &["a://x/", "a://", "A://x"]),
        (
            "db+row://{table}/{id}",
            &[
                "db+secret://users/5",
                "row://users/5",
                "db+row://a/b/c",
                "db+row://a/b?c",
                "db+row://a/b#c",
            ],
        ),
        (
            "test://template/{id}/data",
            &["test://template/a", "test://template/a/b/data", "test://template/a/data/data"],
        ),
        (
            "a:{x}",
            &[
                "a:b/c", "a:b:c", "a:b@c", "a:b;c", "a:b=c", "a:b&c", "a:b+c", "a:b$c", "a:b c",
                "a:bäc", "a:b\"c",
            ],
        ),
        // Each escape is a whole character.
        ("a:{x}", &["a:%", "a:%2", "a:%2G", "a:%C3", "a:%C3x", "a:%FF", "a:%C0%80", "a:%ED%A0%80"]),
        ("a:{x:3}", &["a:value", "a:v,a", "a:%C3%A9%C3%A9%C3%A9%C3%A9"]),
        ("a:{x*}", &["a:k=v,red", "a:red,k=v", "a:k=v=w", "a:=v"]),
        ("a:{+x:2}", &["a:/fo"]),
        ("a:{+x}", &["a:%", "a:%2", "a:ä", "a:\"", "a:{x}"]),
        ("a:x{#y}", &["a:xy", "a:x#a#\u{e4}"]),
        ("a:x{.y}", &["a:xcom", "a:x/com", "a:x.a/b"]),
        ("a:x{/y}", &["a:x/1/2", "a:xy", "a:x?y"]),
        ("a:x{/y,z}", &["a:x/1/2/3"]),
        ("a:x{;y,z}", &["a:x;z=2;y=1", "a:x;w=1", "a:x;y=", "a:x;y=1;y=2", "a:xy=1", "a:x;"]),
        (
            "log://all{?day,level}",
            &[
                "log://all?",
                "log://all?day",
                "log://all?level=1&day=2",
                "log://all?secret=1",
                "log://all?day=1&day=2",
            ],
        ),
        (
            "log://all{?day}",
            &[
                "log://all?day=1&level=2",
                "log://all?day=a/b",
                "log://all?day=1#x",
                "log://all&day=1",
            ],
        ),
        ("a:x?fixed=yes{&y}", &["a:x?fixed=yes?y=1", "a:x?fixed=no&y=1"]),
        ("a:x{?y*}", &["a:x?y", "a:x?=v"]),
        // Templates that cannot be parsed match nothing.
        ("a://{x", &["a://y", "a://{x", "a://"]),
        ("a://x}", &["a://x}", "a://x"]),
        ("a://{}", &["a://", "a://x"]),
        ("a://{=x}", &["a://", "a://x"]),
        ("a://{!x}", &["a://", "a://x"]),
        ("a://{x,}", &["a://", "a://x"]),
        ("a://{x:0}", &["a://", "a://x"]),
        ("a://{x:10000}", &["a://", "a://x"]),
        ("a://{x:3*}", &["a://", "a://x"]),
        ("", &["a://y"]),
    ];
    for (template, uris) in misfits {
        for uri in *uris {
            assert!(!describes(template, uri), "{template} {uri}");
        }
    }
}

#[test]
fn no_template_and_no_uri_take_long() {
    let began = std::time::Instant::now();
    let uri = format!("a:{}", "a".repeat(8000));
    for expression in ["{+x}", "{x*}", "{x:9999}", "{+x}a"] {
        let template = format!("a:{}b", expression.repeat(MAX_VARIABLES));
        assert!(!describes(&template, &uri), "{template}");
    }
    assert!(!describes(&format!("a:{}", "{+x}".repeat(MAX_VARIABLES + 1)), &uri));
    assert!(!describes(&format!("a:{{+x}}{}b", "a".repeat(TEMPLATE_BYTES - 8)), &uri));
    assert!(!describes("a:{+x}", &format!("a:{}", "a".repeat(2 * MAX_URI))));
    assert!(began.elapsed() < std::time::Duration::from_secs(20), "{:?}", began.elapsed());
}

/// Beyond a request's budget nothing matches, not even URIs that otherwise would.
#[test]
fn many_templates_together_do_not_take_long() {
    let began = std::time::Instant::now();
    let (templates, uri) =
        (vec!["d://{a,b,c,d}{?e}"; 1000], format!("d://{}/zz", "a".repeat(8000)));
    let mut steps = Steps::of_request();
    assert!(!templates.iter().any(|template| super::describes(template, &uri, &mut steps)));
    assert!(!super::describes("d://{a}", "d://a", &mut steps));
    assert!(describes("d://{a}", "d://a"));
    assert!(began.elapsed() < std::time::Duration::from_secs(4), "{:?}", began.elapsed());
    // Templates that differ at an end are cheap, unless they share a long prefix with the URI.
    let mut steps = Steps::of_request();
    for n in 0..1000 {
        assert!(!super::describes(&format!("d://{{a,b,c,d}}/t{n}"), &uri, &mut steps));
        assert!(!super::describes(&format!("d{n}://{{a,b,c,d}}"), &uri, &mut steps));
    }
    assert_eq!(steps.0, Steps::OF_REQUEST - 2000);
    let (mut steps, long) = (Steps(600), format!("d://{}", "a".repeat(2000)));
    for _ in 0..3 {
        assert!(!super::describes(&format!("{long}b"), &format!("{long}c"), &mut steps));
    }
    assert!(!super::describes("d://a", "d://a", &mut steps), "nothing is left");
}
