//! Tests of `guard`.

use super::*;

fn is_foreign(headers: &[(&'static str, &'static str)]) -> bool {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.insert(*name, value.parse().unwrap());
    }
    is_of_other_origin(&Uri::from_static("/api/servers"), &map)
}

#[test]
fn pages_of_other_origins_are_turned_away_and_programs_are_not() {
    assert!(!is_foreign(&[("host", "localhost:3001")]));
    assert!(!is_foreign(&[("host", "localhost:3001"), ("origin", "http://localhost:3001")]));
    assert!(!is_foreign(&[("host", "a.example"), ("origin", "https://A.example")]));
    assert!(!is_foreign(&[("host", "a.example"), ("sec-fetch-site", "same-origin")]));
    for other in [
        [("host", "localhost:3001"), ("origin", "http://localhost:8080")],
        [("host", "localhost:3001"), ("origin", "http://127.0.0.1:3001")],
        [("host", "localhost:3001"), ("origin", "null")],
        [("host", "localhost:3001"), ("origin", "https://evil.example")],
        [("host", "localhost:3001"), ("sec-fetch-site", "cross-site")],
        [("host", "localhost:3001"), ("sec-fetch-site", "same-site")],
    ] {
        assert!(is_foreign(&other), "{other:?}");
    }
}
