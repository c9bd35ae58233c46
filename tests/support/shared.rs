//! Process-wide state of the fixture: tasks, the changing parts of the lists, the `requestState`
//! key and the listeners for changes. Everything else is per session.

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
/// Limit on listen requests that await their acknowledgement.
const OPENING_HELD: usize = 64;

/// A change to announce to listeners.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    Tools,
    Prompts,
    Resources,
    Resource(String),
}

pub(crate) struct Shared {
    pub(crate) era: Era,
    pub(crate) page_size: usize,
    pub(crate) tasks: TaskManager,
    pub(crate) states: RequestStateCodec,
    pub(crate) extra_tool: AtomicBool,
    pub(crate) extra_prompt: AtomicBool,
    pub(crate) extra_resource: AtomicBool,
    /// Calls of `test_cancellation` that were cancelled.
    pub(crate) cancelled: AtomicUsize,
    changes: broadcast::Sender<Change>,
    /// Listeners that await their acknowledgement, by filter. They receive changes made before it.
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

    /// Registers a listen request before its acknowledgement.
    pub(crate) fn open(&self, filter: &SubscriptionFilter) {
        let mut opening = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        if opening.len() >= OPENING_HELD {
            opening.remove(0);
        }
        opening.push((filter.clone(), self.changes()));
    }

    /// Returns the changes since `open` for an acknowledged listen request.
    pub(crate) fn opened(&self, filter: &SubscriptionFilter) -> broadcast::Receiver<Change> {
        let mut opening = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        let at = opening.iter().position(|(wanted, _)| wanted == filter);
        at.map_or_else(|| self.changes(), |at| opening.remove(at).1)
    }

    /// Announces a change. A missing listener is not an error.
    pub(crate) fn announce(&self, change: Change) {
        let _ = self.changes.send(change);
    }

    /// Adds or removes the changing entry of a list, and announces the change.
    pub(crate) fn toggle(&self, entry: &AtomicBool, change: Change) -> bool {
        let present = !entry.fetch_xor(true, Ordering::SeqCst);
        self.announce(change);
        present
    }
}

/// State of a legacy session. Each modern request gets its own.
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

    /// Returns the log level: `info` until the client sends `logging/setLevel`.
    pub(crate) fn level(&self) -> LoggingLevel {
        self.level.lock().unwrap_or_else(PoisonError::into_inner).unwrap_or(LoggingLevel::Info)
    }

    /// Adds a subscription; returns false above the session's limit.
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
