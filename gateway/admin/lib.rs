//! HTTP for operators and applications: is it alive, is it ready, how much does it do, what waits
//! for a person, the API, and the console that stands on it. It shows no names of servers but by
//! `metrics`, `approvals`, the API and the console, which the composition root puts behind
//! authentication.

mod api;
mod applications;
mod approvals;
mod config;
pub mod console;
mod headers;
mod life;
mod router;
mod trpc;

use std::collections::BTreeMap;

pub use api::{
    ApprovalError, ApprovedPin, Candidate, EffectiveSetting, KeyChange, KeyChangeError, Offered,
    Operations, ProbeFailure, ProbeStage, Switch,
};
pub use applications::{Applications, HeldBody, answer_refusal, describe_rejection, is_public};
pub use approvals::{AnswerError, Approvals, approvals_router, page_router};
pub use config::{ApiConfig, ClientsAddress, Config, Connected, Ready, ScrapeToken, Webhook};
pub use life::{LifeCycle, State};
pub use router::{Asking, health_router, metrics_router, router};

/// What operators may look at.
pub trait Health: Send + Sync + 'static {
    /// Where the process is in its life.
    fn state(&self) -> State;
    /// How many servers of the configuration are connected.
    fn connected(&self) -> Connected;
    /// How many have to be.
    fn ready(&self) -> Ready;
    /// Returns the state that `/readyz` shows while something is missing that the gateway needs.
    fn missing(&self) -> Option<&'static str> {
        if self.lacks_store() {
            return Some("waiting_for_store");
        }
        (!self.ready().is_met(self.connected())).then_some("waiting_for_servers")
    }
    /// How many servers are in which state.
    fn servers(&self) -> BTreeMap<&'static str, usize>;
    /// Whether what people change is stored; `None` where nobody can change anything.
    fn stores(&self) -> Option<bool>;
    /// Returns whether the store is required and has not been read since the start.
    fn lacks_store(&self) -> bool;
    /// Returns the issuers of tokens without keys.
    fn issuers_without_keys(&self) -> Vec<String>;
    /// Whether rates are shared with other gateways now; `None` where they never are.
    fn shares_rates(&self) -> Option<bool>;
    /// Metrics as Prometheus text: for an operator with those of servers.
    fn metrics(&self, is_operator: bool) -> String;
}
