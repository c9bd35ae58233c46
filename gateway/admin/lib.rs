//! HTTP for operators: is it alive, is it ready, how much does it do, what waits for a person. It
//! decides nothing and shows no names of servers without `metrics` and `approvals`, which the
//! composition root puts behind authentication.

mod approvals;
mod config;
mod life;
mod router;

use std::collections::BTreeMap;

pub use approvals::{AnswerError, Approvals, approvals_router, page_router};
pub use config::{Config, Webhook};
pub use life::{LifeCycle, State};
pub use router::{health_router, metrics_router, router};

/// What operators may look at.
pub trait Health: Send + Sync + 'static {
    /// Where the process is in its life.
    fn state(&self) -> State;
    /// How many servers are in which state.
    fn servers(&self) -> BTreeMap<&'static str, usize>;
    /// All metrics as Prometheus text.
    fn metrics(&self) -> String;
}
