//! What passed goes to the store behind the requests, and what is left comes back: one connection,
//! one report after the other, begun anew for as long as it takes.

use std::sync::Arc;
use std::time::Duration;

use lockgate_egress::Connector;

use crate::config::Config;
use crate::connection::{Connection, RedisError, Report};
use crate::counts::Counts;

/// Allowances in one report.
const MOST: usize = 512;
/// Between two reports, so that busy gateways report many requests at once.
const PACE: Duration = Duration::from_millis(2);
/// Without anything to report, this shows that the store is there.
const QUIET: Duration = Duration::from_secs(5);
/// Pauses between attempts: the first, and the longest.
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// An allowance that nobody has: asking for it shows that the script may write.
const PROBE: Report = Report { name: [0; 16], passed: 0, each: 1.0, burst: 1 };

/// Looks for the store and reports to it, for ever.
pub(crate) async fn keep_reporting(counts: Arc<Counts>, connector: Arc<Connector>, config: Config) {
    let mut pause = PAUSE;
    let mut logged = String::new();
    loop {
        let mut log = Log { last: &mut logged, has_reported: false };
        let ended = follow(&counts, &connector, &config, &mut log).await;
        let Err(trouble) = ended;
        if log.has_reported {
            // One that worked until now is opened anew at once: until that fails, nobody is away.
            pause = PAUSE;
            continue;
        }
        counts.set_away(true);
        log.away(&trouble);
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// What was said of the store last, so that it is said once.
struct Log<'a> {
    /// The trouble; empty while there is none.
    last: &'a mut String,
    has_reported: bool,
}

impl Log<'_> {
    fn away(&mut self, trouble: &RedisError) {
        let words = trouble.to_string();
        if words != *self.last {
            tracing::warn!(
                error = words,
                "the store of shared rates is away: each policy's `when_away` holds"
            );
            *self.last = words;
        }
    }

    fn reported(&mut self) {
        self.has_reported = true;
        if !self.last.is_empty() {
            tracing::info!("the store of shared rates is back");
            self.last.clear();
        }
    }
}

/// Reports on one connection until it fails.
async fn follow(
    counts: &Counts,
    connector: &Connector,
    config: &Config,
    log: &mut Log<'_>,
) -> Result<std::convert::Infallible, RedisError> {
    let mut connection = Connection::open(connector, config).await?;
    connection.report(&config.prefix, &[PROBE]).await?;
    counts.set_away(false);
    loop {
        let (ids, reports): (Vec<u64>, Vec<Report>) = counts.collect(MOST).into_iter().unzip();
        if reports.is_empty() {
            let waiting = counts.reporter.notified();
            if tokio::time::timeout(QUIET, waiting).await.is_err() {
                connection.ping().await?;
                log.reported();
            }
            continue;
        }
        match connection.report(&config.prefix, &reports).await {
            Ok(left) => {
                for (id, left) in ids.into_iter().zip(left) {
                    counts.answer(id, left);
                }
                log.reported();
            }
            Err(trouble) => {
                for id in ids {
                    counts.restore(id);
                }
                return Err(trouble);
            }
        }
        tokio::time::sleep(PACE).await;
    }
}
