//! Recent calls, summed over all servers with statistics that the caller may see.

use std::time::Duration;

use lockgate_telemetry::RecentCalls;
use lockgate_upstream::Upstream;

use super::figures::{RecentStep, may_see_figures};
use super::operation::*;
use super::servers::visible_servers;

/// Outcomes of recent calls at several servers.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub(crate) struct Figures {
    /// The number of servers counted.
    pub(crate) servers: usize,
    /// Calls that ended in the last half hour, in steps of 30 s from the oldest to the current one.
    /// Empty before the first call.
    pub(crate) recent: Vec<RecentStep>,
}

/// Calls of several servers within a step.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    calls: u64,
    failed: u64,
    /// The number of calls with a duration, and the sum of their durations.
    timed: u32,
    time: Duration,
}

impl Sum {
    fn add(&mut self, step: RecentCalls) {
        let RecentCalls { calls, failed, average } = step;
        self.calls += calls;
        self.failed += failed;
        if let Some(average) = average {
            let count = u32::try_from(calls).unwrap_or(u32::MAX);
            self.timed = self.timed.saturating_add(count);
            self.time = self.time.saturating_add(average.saturating_mul(count));
        }
    }

    fn finish(self) -> RecentCalls {
        let Self { calls, failed, timed, time } = self;
        RecentCalls { calls, failed, average: time.checked_div(timed) }
    }
}

/// Returns the outcomes of recent calls.
///
/// The sum over all servers with figures that the caller may see: those of its organisation, and
/// for operators also those of the configuration.
#[cfg_attr(test, utoipa::path(
    get, path = "/figures", tag = "servers", params(OrganisationQuery),
    responses((status = 200, body = Figures)),
))]
pub(crate) async fn show_figures(By { state, caller, .. }: By<User>) -> Json<Figures> {
    let servers: Vec<Arc<dyn Upstream>> = visible_servers(&state, &caller);
    let mut counted = Vec::new();
    for server in &servers {
        if may_see_figures(&caller, &**server) {
            counted.push(state.gateway.recent_calls_of(&**server));
        }
    }
    let servers = counted.len();
    let recent: Vec<_> = add_up(counted).into_iter().map(RecentStep::from).collect();
    Json(Figures { servers, recent })
}

/// Sums the steps of several servers. All lists end with the current step.
fn add_up(all: Vec<Vec<RecentCalls>>) -> Vec<RecentCalls> {
    let longest = all.iter().map(Vec::len).max().unwrap_or(0);
    let mut sums = vec![Sum::default(); longest];
    for steps in all {
        let first = longest - steps.len();
        for (sum, step) in sums[first..].iter_mut().zip(steps) {
            sum.add(step);
        }
    }
    sums.into_iter().map(Sum::finish).collect()
}

#[cfg(test)]
mod tests;
