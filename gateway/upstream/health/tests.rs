//! Tests of `health`.

use super::*;

#[test]
fn a_server_that_was_ended_for_its_silence_gets_twice_the_time_until_it_answers() {
    let health = |seconds| Health {
        interval: Duration::from_secs(15),
        timeout: Duration::from_secs(seconds),
    };
    let ends = SilentEnds::default();
    let mut given = Vec::new();
    for _ in 0..7 {
        given.push(ends.timeout(&health(10)).as_secs());
        ends.record();
    }
    assert_eq!(given, [10, 20, 40, 80, 160, 300, 300]);
    assert_eq!(ends.timeout(&health(600)).as_secs(), 600, "a longer time that is configured stays");
    for _ in 0..100 {
        ends.record();
    }
    assert_eq!(ends.timeout(&health(10)).as_secs(), 300);
    ends.reset();
    assert_eq!(ends.timeout(&health(10)).as_secs(), 10);
}
