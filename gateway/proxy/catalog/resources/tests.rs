//! Tests of `resources`: what a template may stand for.

use super::*;

#[test]
fn a_template_stands_for_what_has_its_text_in_order() {
    let fits = [
        ("db+row://{table}/{id}", "db+row://users/5"),
        ("test://template/{id}/data", "test://template/a/b/data"),
        ("file:///{+path}", "file:///a/b.md"),
        ("log://all{?day,level}", "log://all"),
        ("a://{x}{y}", "a://"),
        ("a://x", "a://x"),
    ];
    for (template, uri) in fits {
        assert!(may_describe(template, uri), "{template} {uri}");
    }
    let misfits = [
        ("db+row://{table}/{id}", "db+secret://users/5"),
        ("db+row://{table}/{id}", "row://users/5"),
        ("test://template/{id}/data", "test://template/a"),
        ("a://x", "a://x/"),
        ("a://{x", "a://y"),
        ("", "a://y"),
    ];
    for (template, uri) in misfits {
        assert!(!may_describe(template, uri), "{template} {uri}");
    }
}
