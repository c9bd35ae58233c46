//! A stream of a legacy session: its latest messages, numbered, so that a client can resume the
//! stream after a lost connection.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;

use lockgate_admission::budget::{Budget, Full, Hold, MAX_SMALL_MESSAGE};
use lockgate_proxy::client_channel::LogPace;
use lockgate_proxy::transport::{Outgoing, Text};

/// How long a finished stream can be resumed.
const RESUME_PERIOD: Duration = Duration::from_secs(60);
/// Time for a client to resume the lost stream of its call, while others wait for the call's permit
/// or are asked to approve the call.
pub(crate) const ABSENCE_GRACE_PERIOD: Duration = Duration::from_secs(10);
/// Bytes kept per stream besides the newest message.
const MAX_BYTES: usize = 4 * 1024 * 1024;

pub(crate) struct Log {
    pub(crate) number: u64,
    /// Rate limit for log messages of servers.
    pub(crate) pace: LogPace,
    max: usize,
    inner: Mutex<Inner>,
    wake: Notify,
}

struct Inner {
    events: VecDeque<(u64, Text)>,
    bytes: usize,
    /// The reservation of these bytes in the shared budget.
    held: Hold,
    next: u64,
    /// The newest message taken by a reader.
    delivered: u64,
    /// The number of the response, and its replacement for when memory is scarce.
    answer: Option<(u64, Text)>,
    finished: Option<Instant>,
    /// The number of the newest progress message.
    progress: Option<u64>,
    /// Set if the first reader ends once there is nothing to read, because the client polls for
    /// the rest: its delay in milliseconds, 0 if the server sets none.
    polling: Option<u64>,
    /// Number of readers ever attached; only the newest reads.
    readers: usize,
    attached: usize,
    /// When the last reader detached.
    left: Option<Instant>,
}

impl Log {
    pub(crate) fn new(number: u64, max: usize, budget: Arc<Budget>) -> Self {
        let inner = Inner {
            events: VecDeque::new(),
            bytes: 0,
            held: Hold::none(budget),
            next: 1,
            delivered: 0,
            answer: None,
            finished: None,
            progress: None,
            polling: None,
            readers: 0,
            attached: 0,
            left: None,
        };
        Self {
            number,
            pace: LogPace::default(),
            max,
            inner: Mutex::new(inner),
            wake: Notify::new(),
        }
    }

    /// Adds an optional message, which is dropped while memory is scarce. Displaces the oldest
    /// messages beyond the limit.
    pub(crate) fn push(&self, text: Text) {
        if self.add(text, Hold::grow_spare).is_err() {
            tracing::debug!(
                "not enough memory (limits.bytes_in_flight): a message for a client was dropped"
            );
        }
    }

    /// Adds a progress message. Replaces the newest message if that is unread progress.
    pub(crate) fn push_progress(&self, text: Bytes) {
        let mut inner = self.inner.lock();
        inner.drop_unread_progress();
        if inner.add(text.into(), self.max, Hold::grow_spare).is_ok() {
            inner.progress = Some(inner.next - 1);
        }
        drop(inner);
        self.wake.notify_waiters();
    }

    /// Adds an awaited message, unless an identical message is unread.
    pub(crate) fn push_once(&self, text: Bytes) -> Result<(), Full> {
        let unread = {
            let inner = self.inner.lock();
            inner.events.iter().any(|(number, event)| {
                *number > inner.delivered && event.chunks() == [text.clone()]
            })
        };
        if unread { Ok(()) } else { self.push_awaited(text.into()) }
    }

    /// Adds a message that the receiver waits for.
    pub(crate) fn push_awaited(&self, text: Text) -> Result<(), Full> {
        self.add(text, Hold::admit)
    }

    fn add(&self, text: Text, hold: fn(&mut Hold, usize) -> Result<(), Full>) -> Result<(), Full> {
        self.inner.lock().add(text, self.max, hold)?;
        self.wake.notify_waiters();
        Ok(())
    }

    /// Adds the response and ends the stream. Adds `instead` if there is no memory for the
    /// response. A response without a reader may use only half of the budget.
    pub(crate) fn finish(&self, text: Option<Text>, instead: Text) {
        let mut inner = self.inner.lock();
        let awaited = inner.attached > 0;
        if let Some(text) = text {
            let hold = if awaited || text.len() <= MAX_SMALL_MESSAGE {
                Hold::admit
            } else {
                Hold::grow_spare
            };
            inner.answer = Some((inner.next, instead.clone()));
            // A shared part is already in the budget, so the reservation below covers the rest
            // only.
            let fits = awaited || text.own_len() == text.len() || !inner.held.by().is_scarce();
            if !fits || inner.add(text, self.max, hold).is_err() {
                // Small, and therefore always accepted.
                let _ = inner.add(instead, self.max, Hold::admit);
            }
        }
        inner.finished = Some(Instant::now());
        drop(inner);
        self.wake.notify_waiters();
    }

    /// Ends the stream of the first reader, but keeps the log. `pause` is the client's reconnect
    /// delay, capped so that the client returns before it counts as gone.
    pub(crate) fn poll_from_now_on(&self, pause: Option<Duration>) {
        let pause = pause.unwrap_or_default().min(ABSENCE_GRACE_PERIOD / 2);
        let ms = u64::try_from(pause.as_millis()).unwrap_or(0);
        self.inner.lock().polling = Some(ms);
        self.wake.notify_waiters();
    }

    /// Returns the newest message taken by a reader, 0 if none was.
    pub(crate) fn delivered(&self) -> u64 {
        self.inner.lock().delivered
    }

    /// Returns whether this number has been assigned; 0 is the position before the first message.
    pub(crate) fn has_numbered(&self, number: u64) -> bool {
        number < self.inner.lock().next
    }

    pub(crate) fn has_reader(&self) -> bool {
        self.inner.lock().attached > 0
    }

    /// Returns whether the last reader detached more than [`ABSENCE_GRACE_PERIOD`] ago.
    pub(crate) fn is_abandoned(&self) -> bool {
        let inner = self.inner.lock();
        let left = inner.left.filter(|_| inner.attached == 0);
        left.is_some_and(|left| left.elapsed() >= ABSENCE_GRACE_PERIOD)
    }

    /// Returns whether the stream finished too long ago to be resumed.
    pub(crate) fn is_stale(&self) -> bool {
        matches!(self.inner.lock().finished, Some(at) if at.elapsed() > RESUME_PERIOD)
    }

    /// Attaches a reader after message `after`. An earlier reader ends, because each message goes
    /// to a single stream.
    pub(crate) fn read(self: &Arc<Self>, after: u64) -> Reader {
        let mut inner = self.inner.lock();
        inner.readers += 1;
        inner.attached += 1;
        let turn = inner.readers;
        drop(inner);
        self.wake.notify_waiters();
        Reader { log: Arc::clone(self), after, turn, told_retry: 0 }
    }
}

pub(crate) struct Reader {
    log: Arc<Log>,
    after: u64,
    turn: usize,
    /// The last delay sent to the client.
    told_retry: u64,
}

impl Reader {
    pub(crate) fn is_of_call(&self) -> bool {
        self.log.number > 0
    }

    /// Returns the event id of message `n`.
    pub(crate) fn event_id(&self, n: u64) -> String {
        format!("{}-{n}", self.log.number)
    }

    /// Returns the server's reconnect delay, unless it was already returned.
    pub(crate) fn take_retry(&mut self) -> Option<u64> {
        self.log.inner.lock().take_retry(&mut self.told_retry)
    }

    /// Returns the next message, or `None` when the stream has ended or a newer reader has
    /// attached. Cancel safe.
    pub(crate) async fn next(&mut self) -> Option<Outgoing> {
        loop {
            let woken = self.log.wake.notified();
            {
                let mut inner = self.log.inner.lock();
                if inner.readers != self.turn {
                    return None;
                }
                let next = inner.events.iter().find(|(n, _)| *n > self.after).cloned();
                if let Some((number, text)) = next {
                    self.after = number;
                    inner.delivered = inner.delivered.max(number);
                    inner.make_room();
                    return Some(Outgoing {
                        id: Some(self.event_id(number)),
                        data: text,
                        retry: None,
                    });
                }
                if inner.finished.is_some() {
                    return None;
                }
                if self.turn == 1 && inner.polling.is_some() {
                    let retry = Some(inner.take_retry(&mut self.told_retry)?);
                    let id = Some(self.event_id(self.after));
                    return Some(Outgoing { id, data: Text::default(), retry });
                }
            }
            woken.await;
        }
    }
}

impl Inner {
    fn add(
        &mut self,
        text: Text,
        max: usize,
        hold: fn(&mut Hold, usize) -> Result<(), Full>,
    ) -> Result<(), Full> {
        hold(&mut self.held, text.own_len())?;
        let number = self.next;
        self.next += 1;
        self.bytes += text.len();
        self.events.push_back((number, text));
        while self.events.len() > max.max(1) || self.bytes > MAX_BYTES && self.events.len() > 1 {
            self.drop_oldest();
        }
        Ok(())
    }

    /// Returns the server's reconnect delay, unless it equals `told`.
    fn take_retry(&self, told: &mut u64) -> Option<u64> {
        let ms = self.polling.unwrap_or(0);
        if std::mem::replace(told, ms) == ms { None } else { Some(ms) }
    }

    /// Numbers are not reused: the next message has a higher number.
    fn drop_unread_progress(&mut self) {
        let Some((newest, _)) = self.events.back() else { return };
        if Some(*newest) == self.progress
            && *newest > self.delivered
            && let Some((_, old)) = self.events.pop_back()
        {
            self.bytes -= old.len();
            self.held.shrink(old.len());
        }
    }

    fn drop_oldest(&mut self) {
        if let Some((_, old)) = self.events.pop_front() {
            self.bytes -= old.len();
            self.held.shrink(old.own_len());
        }
    }

    /// Frees delivered large messages, which are kept only for resumption, while memory is scarce.
    /// The response is replaced, so that a resuming client is informed of the loss.
    fn make_room(&mut self) {
        if !self.held.by().is_scarce() {
            return;
        }
        let Self { events, bytes, held, delivered, answer, .. } = self;
        events.retain_mut(|(number, text)| {
            if *number > *delivered || text.len() <= MAX_SMALL_MESSAGE {
                return true;
            }
            *bytes -= text.len();
            held.shrink(text.own_len());
            match answer {
                Some((answer, instead)) if answer == number => {
                    // Small, and therefore always accepted.
                    let _ = held.admit(instead.len());
                    *bytes += instead.len();
                    *text = instead.clone();
                    true
                }
                _ => false,
            }
        });
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut inner = self.log.inner.lock();
        inner.left = Some(Instant::now());
        inner.attached -= 1;
    }
}

/// Parses an event id into stream and message number.
pub(crate) fn parse_event_id(id: &str) -> Option<(u64, u64)> {
    let (stream, message) = id.split_once('-')?;
    Some((stream.parse().ok()?, message.parse().ok()?))
}

#[cfg(test)]
mod tests;
