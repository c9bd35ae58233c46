//! Tests of `routes`: the permissions in the table.

use super::*;

#[test]
fn nothing_but_the_way_in_and_out_is_public() {
    let table = table();
    let mut public = table.pages;
    public.retain(|(_, permission)| *permission == Permission::Public);
    let public: Vec<_> = public.into_iter().map(|(path, _)| path).collect();
    assert_eq!(public, ["/sign-in", "/sign-in", "/assets/{digest}/{name}", "/sign-out"]);
    for path in ["/console", "/console/servers", "/console/sign-in/x", "/api"] {
        assert!(!is_public(path), "{path}");
    }
}
