//! Tests of `page`.

use serde_json::json;

use super::*;

fn cut(query: &PageQuery) -> (Vec<String>, usize, Option<String>) {
    let all: Vec<String> = ["d", "b", "a", "c"].map(str::to_owned).into();
    let page = query.cut(all, String::as_str).unwrap();
    (page.items, page.total, page.next_cursor)
}

#[test]
fn pages_go_through_a_list_once_in_order() {
    let mut query = PageQuery::default();
    query.part.limit = Some(3);
    let (items, total, next) = cut(&query);
    assert_eq!((items.concat().as_str(), total, next.as_deref()), ("abc", 4, Some("c")));
    query.part.cursor = next;
    let (items, total, next) = cut(&query);
    assert_eq!((items.concat().as_str(), total, next), ("d", 4, None));
    let search: PageQuery = serde_json::from_value(json!({"search": "b"})).unwrap();
    assert_eq!(cut(&search), (vec!["b".to_owned()], 1, None));
}

#[test]
fn items_of_the_registry_are_sorted_by_name_or_time_in_pages() {
    let all = [("delta", 1, 9), ("Alpha", 2, 8), ("char|ie", 3, 7), ("Bravo", 4, 6)];
    for (sort, is_descending, expected) in [
        (StoredSort::Name, false, "Alpha Bravo char|ie delta"),
        (StoredSort::Name, true, "delta char|ie Bravo Alpha"),
        (StoredSort::CreatedAt, false, "delta Alpha char|ie Bravo"),
        (StoredSort::UpdatedAt, false, "Bravo char|ie Alpha delta"),
    ] {
        let mut part = PartQuery { limit: Some(3), cursor: None };
        let mut found = Vec::new();
        loop {
            let placed = all.map(|(name, created, updated)| {
                (sort.place(name, &format!("int_{created}"), (created, updated)), name)
            });
            let page = part.cut_placed(placed.into(), is_descending).unwrap();
            assert_eq!(page.total, 4);
            found.extend(page.items);
            match page.next_cursor {
                Some(next) => part.cursor = Some(next),
                None => break,
            }
        }
        assert_eq!(found.join(" "), expected, "{sort:?} {is_descending}");
    }
    let part = PartQuery { limit: None, cursor: Some("x".to_owned()) };
    assert!(part.cut_placed(vec![((Some(String::new()), String::new()), ())], false).is_err());
}

#[test]
fn a_page_has_a_bounded_size() {
    for limit in [0, 201, usize::MAX] {
        let part = PartQuery { limit: Some(limit), cursor: None };
        assert!(part.cut(None, vec![String::new()], String::as_str).is_err(), "{limit}");
    }
}

#[test]
fn the_part_and_the_filter_are_told_apart_and_mistakes_are_named() {
    let query: PageQuery = serde_json::from_value(json!({"limit": "7", "search": "b"})).unwrap();
    assert_eq!((query.part.limit, query.filter.search.as_deref()), (Some(7), Some("b")));
    for (wrong, name) in [(json!({"limit": "x"}), "`limit`"), (json!({"other": "x"}), "`other`")] {
        let error = serde_json::from_value::<PageQuery>(wrong).unwrap_err().to_string();
        assert!(error.contains(name), "{error}");
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct GivenQuery {
    #[serde(default, deserialize_with = "number")]
    limit: Option<u32>,
    #[serde(default)]
    name: Option<String>,
}

fn read(text: &str) -> Result<GivenQuery, Problem> {
    parse(form_urlencoded::parse(text.as_bytes()))
}

#[test]
fn parameters_are_known_once_and_well_formed() {
    let given: GivenQuery = read("limit=7&name=a%20b").unwrap();
    assert_eq!((given.limit, given.name.as_deref()), (Some(7), Some("a b")));
    assert!(read("").is_ok());
    for wrong in ["limit=x", "limit=-1", "limit=1&limit=2", "other=1", "limit=99999999999"] {
        let problem = read(wrong).unwrap_err();
        assert_eq!(problem.code(), "INVALID_QUERY", "{wrong}");
    }
}

#[test]
fn empty_values_are_left_out() {
    let Query(given) = query::<GivenQuery>(&[("limit", ""), ("name", "a b")]).unwrap();
    assert_eq!((given.limit, given.name.as_deref()), (None, Some("a b")));
    assert!(query::<GivenQuery>(&[("limit", "x")]).is_err());
}
