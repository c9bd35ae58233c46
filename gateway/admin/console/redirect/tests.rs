//! Tests of `redirect`.

use super::*;

#[test]
fn names_stay_within_their_segment_and_their_parameter() {
    let path = PagePath::new(&["tools", "a/b ?#é", "..", "."]);
    assert_eq!(path.as_str(), "/console/tools/a%2Fb%20%3F%23%C3%A9");
    let path = PagePath::new(&[]).with("q", "").with("q", "a&b=c").with("r", "1 2");
    assert_eq!(path.as_str(), "/console?q=a%26b%3Dc&r=1+2");
    assert_eq!(path.with("after", "é").into_text(), "/console?q=a%26b%3Dc&r=1+2&after=%C3%A9");
}

fn cut(count: usize, page: &str) -> ListPart<usize> {
    let path = PagePath::new(&["list"]).with("q", "a");
    ListPart::cut((1..=count).collect(), page, &path)
}

#[test]
fn parts_are_adjacent_and_bounded() {
    let part = cut(250, "2");
    assert_eq!((part.first, part.last(), part.total), (101, 200, 250));
    assert_eq!(part.items.first(), Some(&101));
    assert_eq!(part.previous.as_deref(), Some("/console/list?q=a&page=1"));
    assert_eq!(part.next.as_deref(), Some("/console/list?q=a&page=3"));
    let last = cut(250, "99");
    assert_eq!((last.first, last.last(), last.next), (201, 250, None));
    let only = cut(100, "x");
    assert_eq!((only.previous, only.next), (None, None));
    assert!(cut(0, "").items.is_empty());
}
