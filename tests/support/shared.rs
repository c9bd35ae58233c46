//! What outlives one request: tasks, the parts of the lists that change, the key of `requestState`,
//! and who wants to hear of changes. One per process; everything else is rebuilt per session.

use std::{
    collections::HashSet,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use anyhow::Context as _;
use rmcp::{
    model::{LoggingLevel, RequestStateCodec, SubscriptionFilter},
    task_manager::TaskManager,
};
use tokio::sync::broadcast;

use crate::era::Era;

const CHANGES_HELD: usize = 64;
const SUBSCRIPTIONS_PER_SESSION: usize = 64;
/// Listens between their request and their acknowledgement.
const OPENING_HELD: usize = 64;

/// Something that listeners may be told of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    Tools,
    Prompts,
    Resources,
    Resource(String),
}

/// State of the whole process.
pub(crate) struct Shared {
    pub(crate) era: Era,
    pub(crate) page_size: usize,
    pub(crate) tasks: TaskManager,
    pub(crate) states: RequestStateCodec,
    pub(crate) extra_tool: AtomicBool,
    pub(crate) extra_prompt: AtomicBool,
    pub(crate) extra_resource: AtomicBool,
    /// Calls of `test_cancellation` that their clients have cancelled.
    pub(crate) cancelled: AtomicUsize,
    changes: broadcast::Sender<Change>,
    /// Listens that are being acknowledged, by what they ask for: they hear of changes from before
    /// their acknowledgement on.
    opening: Mutex<Vec<(SubscriptionFilter, broadcast::Receiver<Change>)>>,
}

impl Shared {
    pub(crate) fn new(era: Era, page_size: usize) -> anyhow::Result<Self> {
        let mut key = [0_u8; 32];
        getrandom::fill(&mut key).context("no randomness for the requestState key")?;
        Ok(Self {
            era,
            page_size,
            tasks: TaskManager::new(),
            states: RequestStateCodec::new(key),
            extra_tool: AtomicBool::new(false),
            extra_prompt: AtomicBool::new(false),
            extra_resource: AtomicBool::new(false),
            cancelled: AtomicUsize::new(0),
            changes: broadcast::channel(CHANGES_HELD).0,
            opening: Mutex::default(),
        })
    }

    pub(crate) fn changes(&self) -> broadcast::Receiver<Change> {
        self.changes.subscribe()
    }

    /// A listen is about to be acknowledged.
    pub(crate) fn open(&self, filter: &SubscriptionFilter) {
        let mut opening = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        if opening.len() >= OPENING_HELD {
            opening.remove(0);
        }
        opening.push((filter.clone(), self.changes()));
    }

    /// A listen was acknowledged: the changes since.
    pub(crate) fn opened(&self, filter: &SubscriptionFilter) -> broadcast::Receiver<Change> {
        let mut opening = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        let at = opening.iter().position(|(wanted, _)| wanted == filter);
        at.map_or_else(|| self.changes(), |at| opening.remove(at).1)
    }

    /// Nobody listening is not an error.
    pub(crate) fn announce(&self, change: Change) {
        let _ = self.changes.send(change);
    }

    /// Adds or removes the changing entry of a list and says so.
    pub(crate) fn toggle(&self, entry: &AtomicBool, change: Change) -> bool {
        let present = !entry.fetch_xor(true, Ordering::SeqCst);
        self.announce(change);
        present
    }
}

/// State of one legacy session. A modern request gets a fresh one and cannot tell.
#[derive(Default)]
pub(crate) struct Session {
    level: Mutex<Option<LoggingLevel>>,
    subscribed: Mutex<HashSet<String>>,
    signed_in: AtomicBool,
}

impl Session {
    pub(crate) fn sign_in(&self, is_signed_in: bool) {
        self.signed_in.store(is_signed_in, Ordering::SeqCst);
    }

    pub(crate) fn is_signed_in(&self) -> bool {
        self.signed_in.load(Ordering::SeqCst)
    }

    pub(crate) fn set_level(&self, level: LoggingLevel) {
        *self.level.lock().unwrap_or_else(PoisonError::into_inner) = Some(level);
    }

    /// A legacy server decides alone what to send before `logging/setLevel`: here, `info` and
    /// above.
    pub(crate) fn level(&self) -> LoggingLevel {
        self.level.lock().unwrap_or_else(PoisonError::into_inner).unwrap_or(LoggingLevel::Info)
    }

    /// False when the session holds too many subscriptions.
    pub(crate) fn subscribe(&self, uri: String) -> bool {
        let mut held = self.subscribed.lock().unwrap_or_else(PoisonError::into_inner);
        (held.len() < SUBSCRIPTIONS_PER_SESSION || held.contains(&uri)) && {
            held.insert(uri);
            true
        }
    }

    pub(crate) fn unsubscribe(&self, uri: &str) {
        self.subscribed.lock().unwrap_or_else(PoisonError::into_inner).remove(uri);
    }

    pub(crate) fn is_subscribed(&self, uri: &str) -> bool {
        self.subscribed.lock().unwrap_or_else(PoisonError::into_inner).contains(uri)
    }
}
