//! HTTP for operators and applications: is it alive, is it ready, how much does it do, what waits
//! for a person, and the API. It shows no names of servers but by `metrics`, `approvals` and the
//! API, which the composition root puts behind authentication.

mod api;
mod approvals;
mod config;
mod holder;
mod life;
mod router;

use std::collections::BTreeMap;

pub use api::{Operations, api_router, describe_refusal, is_public};
pub use approvals::{AnswerError, Approvals, approvals_router, page_router};
pub use config::{ApiConfig, Config, Webhook};
pub use holder::Holder;
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
