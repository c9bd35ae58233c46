//! Tests of `list_part`.

use super::*;

fn cut(count: usize, page: &str) -> ListPart<usize> {
    let path = PagePath::new(&["list"]).with("q", "a");
    ListPart::cut((1..=count).collect(), page, &path)
}

#[test]
fn parts_are_adjacent_and_bounded() {
    let part = cut(250, "2");
    assert_eq!((part.first, part.last(), part.total), (101, 200, 250));
    assert_eq!(part.items.first(), Some(&101));
    assert_eq!(part.previous.as_deref(), Some("/list?q=a&page=1"));
    assert_eq!(part.next.as_deref(), Some("/list?q=a&page=3"));
    let last = cut(250, "99");
    assert_eq!((last.first, last.last(), last.next), (201, 250, None));
    let only = cut(100, "x");
    assert_eq!((only.previous, only.next), (None, None));
    assert!(cut(0, "").items.is_empty());
}
