//! Tests of `query`.

use super::*;

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
