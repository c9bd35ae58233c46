//! Tests of `redirect`.

use super::*;

#[test]
fn names_stay_within_their_segment_and_their_parameter() {
    let path = PagePath::new(&["console", "tools", "a/b ?#é", "..", "."]);
    assert_eq!(path.as_str(), "/console/tools/a%2Fb%20%3F%23%C3%A9");
    let path = PagePath::new(&["console"]).with("q", "").with("q", "a&b=c").with("r", "1 2");
    assert_eq!(path.as_str(), "/console?q=a%26b%3Dc&r=1+2");
    assert_eq!(path.after(Some("é")).as_deref(), Some("/console?q=a%26b%3Dc&r=1+2&after=%C3%A9"));
    assert_eq!(PagePath::new(&["console"]).after(None), None);
}
