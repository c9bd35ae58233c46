//! The limiter of gateways that share their rates. Combines local counts with the usage of all
//! gateways. While the store is unreachable, each policy's `when_away` applies.

use std::sync::Arc;
use std::time::Duration;

use lockgate_egress::Connector;
use lockgate_policy::{Allowance, HeldPermit, LimitKey, Limiter, Local, Reached, WhenAway};

use crate::Config;
use crate::connection::{Connection, RedisError, Report};
use crate::counts::Counts;

/// The wait reported while the store is unreachable; its return cannot be predicted.
const UNREACHABLE_WAIT: Duration = Duration::from_secs(1);

/// A limiter with rates shared between gateways and local concurrency limits.
pub struct Shared {
    /// Bounds this gateway to the full allowance, even if the store has lost its data.
    local: Local,
    counts: Arc<Counts>,
}

impl Shared {
    /// Starts reporting to the store for as long as the runtime runs. The store counts as away
    /// until its first reply.
    pub fn start(config: Config, connector: Arc<Connector>) -> Arc<Self> {
        let counts = Arc::new(Counts::new(config.key));
        tokio::spawn(keep_reporting(Arc::clone(&counts), connector, config));
        Arc::new(Self { local: Local::new(), counts })
    }

    /// Returns whether the store is unreachable.
    pub fn is_away(&self) -> bool {
        self.counts.is_away()
    }
}

impl Limiter for Shared {
    fn take(&self, of: Allowance<'_>, key: &LimitKey<'_>) -> Result<Option<HeldPermit>, Reached> {
        if of.quota.rate.is_none() {
            return self.local.take(of, key);
        }
        let is_away = self.is_away();
        match of.quota.when_away {
            WhenAway::Deny if is_away => return Err(Reached::Unavailable(UNREACHABLE_WAIT)),
            WhenAway::Allow if is_away => {
                let held = self.local.hold(of, key)?;
                self.counts.note(of, key);
                return Ok(held);
            }
            _ => {}
        }
        let held = self.local.take(of, key)?;
        if is_away {
            self.counts.note(of, key);
        } else if let Err(wait) = self.counts.take(of, key) {
            self.local.give_back(of, key);
            return Err(Reached::Rate(wait));
        }
        Ok(held)
    }

    fn give_back(&self, of: Allowance<'_>, key: &LimitKey<'_>) {
        self.local.give_back(of, key);
        self.counts.give_back(of, key);
    }

    fn sweep(&self) {
        self.local.sweep();
        self.counts.sweep();
    }
}

// Background reports of usage to the store, which replies with the remainders. Uses a single
// connection with a single report in flight, and reconnects without limit.

/// Allowances per report.
const MAX_ALLOWANCES: usize = 512;
/// Pause between reports, so that busy gateways report many requests at once.
const REPORT_INTERVAL: Duration = Duration::from_millis(2);
/// Interval of checks that the store is reachable, while there is nothing to report.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// Pauses between attempts to connect: initial and maximum.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const MAX_PAUSE: Duration = Duration::from_secs(2);

/// An unused allowance. Counting it checks that the script may write.
const PROBE: Report = Report { name: [0; 16], passed: 0, each: 1.0, burst: 1 };

/// Connects to the store and reports usage, forever.
async fn keep_reporting(counts: Arc<Counts>, connector: Arc<Connector>, config: Config) {
    let mut pause = FIRST_PAUSE;
    let mut logged = String::new();
    loop {
        let mut log = Log { last: &mut logged, has_reported: false };
        let ended = follow(&counts, &connector, &config, &mut log).await;
        let Err(trouble) = ended;
        if log.has_reported {
            // Reconnect at once after a connection that worked; only if that fails is the store
            // away.
            pause = FIRST_PAUSE;
            continue;
        }
        counts.set_away(true);
        log.away(&trouble);
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(MAX_PAUSE);
    }
}

/// The last logged state of the store, so that each change is logged once.
struct Log<'a> {
    /// The last error; empty while there is none.
    last: &'a mut String,
    has_reported: bool,
}

impl Log<'_> {
    fn away(&mut self, trouble: &RedisError) {
        let words = trouble.to_string();
        if words != *self.last {
            tracing::warn!(
                error = words,
                "the store of shared rates is unavailable: each policy's `when_away` applies"
            );
            *self.last = words;
        }
    }

    fn reported(&mut self) {
        self.has_reported = true;
        if !self.last.is_empty() {
            tracing::info!("the store of shared rates is available again");
            self.last.clear();
        }
    }
}

/// Reports on a connection until it fails.
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
        let (ids, reports): (Vec<u64>, Vec<Report>) =
            counts.collect(MAX_ALLOWANCES).into_iter().unzip();
        if reports.is_empty() {
            let waiting = counts.reporter.notified();
            if tokio::time::timeout(CHECK_INTERVAL, waiting).await.is_err() {
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
        tokio::time::sleep(REPORT_INTERVAL).await;
    }
}
