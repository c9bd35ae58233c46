//! The load generator: a closed loop with one request in flight per connection. Every response is
//! checked; wrong responses are counted and the first fault is kept.

use std::time::{Duration, Instant};

use anyhow::Context;
use bytes::Bytes;
use http::header::HeaderValue;
use tokio::task::JoinSet;

use crate::peer::Peer;
use crate::wire::{Era, Face, Template, expect_echo};

/// Wrong responses after which a connection stops.
const MAX_WRONG_RESPONSES: u64 = 20;
/// Limit on the latencies that a connection keeps per window.
const MAX_KEPT_LATENCIES: u64 = 4_000_000;
/// Time beyond its limit after which a window counts as hung.
const GRACE_PERIOD: Duration = Duration::from_secs(30);

/// The end of a window: a duration or a number of calls, whichever is reached first.
#[derive(Clone, Copy)]
pub struct Limit {
    pub time: Duration,
    pub calls: u64,
}

/// The results of a window of load.
#[derive(Default)]
pub struct Window {
    /// Latencies of correct responses in nanoseconds, ascending.
    pub nanos: Vec<u64>,
    pub wrong: u64,
    pub fault: Option<String>,
    pub elapsed: Duration,
}

/// Open connections, each with its own session in the legacy era.
pub struct Fleet {
    face: Face,
    text: Bytes,
    lanes: Vec<Lane>,
}

struct Lane {
    peer: Peer,
    session: Option<HeaderValue>,
    template: Template,
}

impl Fleet {
    pub async fn connect(
        face: &Face,
        era: Era,
        connections: usize,
        text: &Bytes,
    ) -> anyhow::Result<Self> {
        let mut lanes = Vec::with_capacity(connections);
        for _ in 0..connections {
            let mut peer = Peer::connect(face.address).await?;
            let session = match era {
                Era::Legacy => Some(peer.open_session(face).await?),
                Era::Modern => None,
            };
            let template = Template::call(face, era, session.as_ref(), text)?;
            lanes.push(Lane { peer, session, template });
        }
        Ok(Self { face: face.clone(), text: text.clone(), lanes })
    }

    /// Sends calls on every connection until the limit.
    pub async fn drive(&mut self, limit: Limit) -> anyhow::Result<Window> {
        let began = Instant::now();
        let deadline = began + limit.time;
        let quota = limit.calls.div_ceil(self.lanes.len().max(1) as u64).min(MAX_KEPT_LATENCIES);
        let mut running = JoinSet::new();
        for lane in self.lanes.drain(..) {
            running.spawn(lane.loop_until(deadline, quota, self.text.clone()));
        }
        let mut window = Window::default();
        let all = async {
            while let Some(done) = running.join_next().await {
                let (lane, part) = done.context("a connection's loop ended")?;
                self.lanes.push(lane);
                window.nanos.extend(part.nanos);
                window.wrong += part.wrong;
                window.fault = window.fault.take().or(part.fault);
            }
            anyhow::Ok(())
        };
        tokio::time::timeout(limit.time + GRACE_PERIOD, all).await.context("calls hang")??;
        window.elapsed = began.elapsed();
        window.nanos.sort_unstable();
        Ok(window)
    }

    /// Ends the sessions and closes the connections.
    pub async fn close(self) -> anyhow::Result<()> {
        for mut lane in self.lanes {
            if let Some(session) = lane.session {
                lane.peer.end_session(&self.face, &session).await?;
            }
        }
        Ok(())
    }
}

impl Lane {
    async fn loop_until(mut self, deadline: Instant, quota: u64, text: Bytes) -> (Self, Window) {
        let mut window = Window::default();
        let mut now = Instant::now();
        while now < deadline
            && window.wrong < MAX_WRONG_RESPONSES
            && (window.nanos.len() as u64) < quota
        {
            let id = self.peer.fresh_id();
            let request = self.template.request(id);
            let began = Instant::now();
            let answer = self.peer.send(request).await;
            now = Instant::now();
            match answer.and_then(|answer| expect_echo(&answer, id, &text)) {
                Ok(()) => {
                    window.nanos.push(u64::try_from((now - began).as_nanos()).unwrap_or(u64::MAX))
                }
                Err(error) => {
                    window.wrong += 1;
                    window.fault.get_or_insert_with(|| format!("{error:#}"));
                }
            }
        }
        (self, window)
    }
}

/// Returns a quantile (`share` 0 to 1) of ascending values by nearest rank; 0 for none.
pub fn quantile(ascending: &[u64], share: f64) -> u64 {
    let rank = (ascending.len() as f64 * share).ceil() as usize;
    ascending.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests;
