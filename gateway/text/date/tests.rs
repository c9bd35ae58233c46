//! Tests of `date`.

use super::*;

#[test]
fn dates_are_those_of_the_calendar() {
    for (seconds, date) in [
        (0, "1970-01-01T00:00:00Z"),
        (951_782_399, "2000-02-28T23:59:59Z"),
        (951_782_400, "2000-02-29T00:00:00Z"),
        (1_700_000_000, "2023-11-14T22:13:20Z"),
        (4_102_444_800, "2100-01-01T00:00:00Z"),
        (-1, "1969-12-31T23:59:59Z"),
    ] {
        assert_eq!(of_seconds(seconds), date);
    }
}
