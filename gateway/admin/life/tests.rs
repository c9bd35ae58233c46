//! Tests of `life`.

use super::*;

#[test]
fn life_only_goes_forward() {
    let life = LifeCycle::new();
    assert_eq!(life.state(), LifeState::Initializing);
    life.ready();
    assert_eq!(life.state(), LifeState::Ready);
    life.shut_down();
    life.ready();
    assert_eq!(life.state(), LifeState::ShuttingDown, "a late `ready` does not revive it");
    life.stop();
    life.shut_down();
    assert_eq!(life.state(), LifeState::Stopped);
}
