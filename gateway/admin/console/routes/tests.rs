//! Tests of `routes`: the permissions in the table.

use super::*;
use crate::console::routes::PageRoute;

#[test]
fn nothing_but_the_way_in_is_public() {
    let table = table();
    let open = |page: &&PageRoute| page.permission == Permission::Public;
    let public: Vec<_> = table.pages.iter().filter(open).map(|page| page.path).collect();
    assert_eq!(public, ["/sign-in", "/sign-in", "/assets/{digest}/{name}"]);
    assert!(table.pages.iter().any(|page| page.method == "post"));
    for path in ["/console", "/console/servers", "/console/sign-in/x", "/api"] {
        assert!(!is_public(path), "{path}");
    }
}
