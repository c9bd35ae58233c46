//! Tests of `life`.

use super::*;

#[test]
fn life_only_goes_forward() {
    let life = LifeCycle::new();
    assert_eq!(life.state(), State::Initializing);
    life.ready();
    assert_eq!(life.state(), State::Ready);
    life.shut_down();
    life.ready();
    assert_eq!(life.state(), State::ShuttingDown, "a late `ready` does not revive it");
    life.stop();
    life.shut_down();
    assert_eq!(life.state(), State::Stopped);
}
