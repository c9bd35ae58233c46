//! Tests of `page`.

use super::*;

fn cut(query: &PageQuery) -> (Vec<String>, usize, Option<String>) {
    let all: Vec<String> = ["d", "b", "a", "c"].map(str::to_owned).into();
    let page = query.cut(all, String::as_str).unwrap();
    (page.items, page.total, page.next_cursor)
}

#[test]
fn pages_go_through_a_list_once_in_order() {
    let mut query = PageQuery { limit: Some(3), ..PageQuery::default() };
    let (items, total, next) = cut(&query);
    assert_eq!((items.concat().as_str(), total, next.as_deref()), ("abc", 4, Some("c")));
    query.cursor = next;
    let (items, total, next) = cut(&query);
    assert_eq!((items.concat().as_str(), total, next), ("d", 4, None));
    let search = PageQuery { search: Some("b".into()), ..PageQuery::default() };
    assert_eq!(cut(&search), (vec!["b".to_owned()], 1, None));
}

#[test]
fn a_page_has_a_bounded_size() {
    for limit in [0, 201, usize::MAX] {
        let query = PageQuery { limit: Some(limit), ..PageQuery::default() };
        assert!(query.cut(vec![String::new()], String::as_str).is_err(), "{limit}");
    }
}
