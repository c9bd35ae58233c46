//! Vectors of tools and queries, from a server of embeddings. Those of tools are computed in the
//! background and cached by text. Without them, tools are found by words alone: no failure reaches
//! a caller.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ahash::{AHashMap, AHashSet};
use blake3::Hash;
use lockgate_admission::spawn;
use lockgate_search::Vector;
use lockgate_upstream::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::catalog::{MAX_TEXT, ToolIndex, ViewSearch};

/// Tools of the operator's servers, and cached vectors.
const MAX_TOOLS: usize = 10_000;
/// Tools of an organisation's servers.
const MAX_OWN_TOOLS: usize = 1_250;
/// Bytes of cached vectors.
const MAX_BYTES: usize = 64 * 1024 * 1024;
/// Texts of a request, and its timeout.
const BATCH: usize = 32;
const BATCH_TIMEOUT: Duration = Duration::from_secs(30);
/// Concurrent requests for vectors of queries.
const MAX_QUERIES: usize = 32;
/// Pause after a timeout, in which no search waits, and between attempts for the same tools.
const PAUSE: Duration = Duration::from_secs(10);
/// Shortest time between log lines about failures.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// A server of embeddings.
pub trait Embedder: Send + Sync + 'static {
    /// Returns a vector for each text, all with the same number of numbers.
    fn embed(
        &self,
        texts: Vec<String>,
        timeout: Duration,
    ) -> BoxFuture<'_, Result<Vec<Vector>, EmbeddingError>>;
}

/// The reason why texts have no vectors.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum EmbeddingError {
    #[error("no response within {} s", .0.as_secs())]
    TimedOut(Duration),
    #[error("{0}")]
    Failed(String),
    #[error("vectors of {0} numbers instead of {1}; if the model has changed, restart")]
    OtherLength(usize, usize),
    #[error("there are {0} tools; at most {1} have vectors")]
    TooManyTools(usize, usize),
    #[error("there are more vectors than {MAX_TOOLS}, or than {MAX_BYTES} bytes")]
    Full,
}

/// The vectors of a configured server.
pub(crate) struct Embeddings {
    /// Tells its vectors from those of other servers and models.
    pub(crate) source: u64,
    embedder: Arc<dyn Embedder>,
    /// Time for the vector of a query.
    timeout: Duration,
    known: Mutex<KnownVectors>,
    /// Admits one computation of vectors of tools at a time.
    filling: Semaphore,
    queries: Semaphore,
    trouble: Mutex<Trouble>,
}

#[derive(Default)]
struct KnownVectors {
    by_text: AHashMap<Hash, Vector>,
    /// The length of all vectors; 0 without any.
    length: usize,
}

#[derive(Default)]
struct Trouble {
    paused_until: Option<Instant>,
    logged: Option<Instant>,
}

impl Embeddings {
    pub(crate) fn new(embedder: Arc<dyn Embedder>, timeout: Duration) -> Arc<Self> {
        static SOURCES: AtomicU64 = AtomicU64::new(0);
        Arc::new(Self {
            source: SOURCES.fetch_add(1, Ordering::Relaxed),
            embedder,
            timeout,
            known: Mutex::default(),
            filling: Semaphore::new(1),
            queries: Semaphore::new(MAX_QUERIES),
            trouble: Mutex::default(),
        })
    }

    /// Begins to compute the vectors of a view's tools, unless that has begun or failed recently.
    pub(crate) fn fill(self: &Arc<Self>, search: &ViewSearch) {
        for index in search.indexes() {
            if !self.is_paused() && index.begin_filling() {
                spawn(Arc::clone(self).fill_index(Arc::clone(index)));
            }
        }
    }

    /// Returns the vector of a query, or `None` if it cannot be had in time.
    pub(crate) async fn embed_query(&self, query: &str) -> Option<Vector> {
        if self.is_paused() {
            return None;
        }
        let Ok(_turn) = self.queries.try_acquire() else { return None };
        let text = query[..query.floor_char_boundary(MAX_TEXT)].to_owned();
        let embedded = self.embedder.embed(vec![text], self.timeout).await;
        match embedded.and_then(|vectors| self.check_length(vectors)) {
            Ok(mut vectors) => vectors.pop(),
            Err(error) => {
                self.report(&error);
                None
            }
        }
    }

    fn check_length(&self, vectors: Vec<Vector>) -> Result<Vec<Vector>, EmbeddingError> {
        let known = self.known.lock().length;
        match vectors.first() {
            Some(first) if known > 0 && first.len() != known => {
                Err(EmbeddingError::OtherLength(first.len(), known))
            }
            _ => Ok(vectors),
        }
    }

    async fn fill_index(self: Arc<Self>, index: Arc<ToolIndex>) {
        let Ok(turn) = self.filling.acquire().await else { return };
        match self.embed_tools(&index).await {
            Ok(Some(vectors)) => index.set_vectors(self.source, vectors),
            Ok(None) => {}
            Err(error) => {
                self.report(&error);
                let is_final =
                    matches!(error, EmbeddingError::TooManyTools(..) | EmbeddingError::Full);
                if !is_final {
                    // A replaced index is not kept for the pause.
                    let waiting = Arc::downgrade(&index);
                    drop((turn, index));
                    tokio::time::sleep(PAUSE).await;
                    if let Some(index) = waiting.upgrade() {
                        index.retry_filling();
                    }
                }
            }
        }
    }

    /// Returns the vectors of the tools of an index, by number; `None` if it was replaced.
    async fn embed_tools(
        &self,
        index: &Arc<ToolIndex>,
    ) -> Result<Option<Vec<Vector>>, EmbeddingError> {
        check_count(index.tools.len(), index.is_of_organisation())?;
        let describing = Arc::clone(index);
        let texts = tokio::task::spawn_blocking(move || describing.describe_tools()).await;
        let texts = texts.map_err(|error| EmbeddingError::Failed(error.to_string()))?;
        let (mut found, missing) = self.known.lock().find(&texts);
        for batch in missing.chunks(BATCH) {
            // No catalog has the index any longer.
            if Arc::strong_count(index) == 1 {
                return Ok(None);
            }
            let batch_texts = batch.iter().map(|(_, text)| (*text).clone()).collect();
            let vectors = self.embedder.embed(batch_texts, BATCH_TIMEOUT).await?;
            let vectors = self.check_length(vectors)?;
            let mut known = self.known.lock();
            known.make_room(&vectors)?;
            for ((hash, _), vector) in batch.iter().zip(vectors) {
                known.by_text.insert(*hash, Arc::clone(&vector));
                found.insert(*hash, vector);
            }
        }
        if !missing.is_empty() {
            tracing::info!(tools = texts.len(), asked = missing.len(), "tools have vectors");
        }
        let vectors = texts.iter().filter_map(|(hash, _)| found.get(hash).cloned());
        Ok(Some(vectors.collect()))
    }

    fn is_paused(&self) -> bool {
        self.trouble.lock().paused_until.is_some_and(|until| Instant::now() < until)
    }

    /// Logs a failure, unless one was logged recently. Pauses after a timeout.
    fn report(&self, error: &EmbeddingError) {
        let now = Instant::now();
        let mut trouble = self.trouble.lock();
        if matches!(error, EmbeddingError::TimedOut(_)) {
            trouble.paused_until = Some(now + PAUSE);
        }
        if trouble.logged.is_some_and(|logged| now < logged + LOG_INTERVAL) {
            return;
        }
        trouble.logged = Some(now);
        drop(trouble);
        tracing::warn!(%error, "tools are found by words alone, because embeddings failed");
    }
}

fn check_count(tools: usize, is_of_organisation: bool) -> Result<(), EmbeddingError> {
    let most = if is_of_organisation { MAX_OWN_TOOLS } else { MAX_TOOLS };
    if tools > most { Err(EmbeddingError::TooManyTools(tools, most)) } else { Ok(()) }
}

impl KnownVectors {
    /// Returns the known vectors of texts, and the texts without, each once.
    fn find<'a>(
        &self,
        texts: &'a [(Hash, String)],
    ) -> (AHashMap<Hash, Vector>, Vec<(Hash, &'a String)>) {
        let mut found = AHashMap::new();
        let mut missing = Vec::new();
        let mut seen = AHashSet::new();
        for (hash, text) in texts {
            if !seen.insert(*hash) {
                continue;
            }
            match self.by_text.get(hash) {
                Some(vector) => drop(found.insert(*hash, Arc::clone(vector))),
                None => missing.push((*hash, text)),
            }
        }
        (found, missing)
    }

    /// Makes room for more vectors; evicts those that no index uses.
    fn make_room(&mut self, vectors: &[Vector]) -> Result<(), EmbeddingError> {
        self.length = vectors.first().map_or(self.length, |first| first.len());
        if !self.has_room(vectors.len()) {
            self.by_text.retain(|_, vector| Arc::strong_count(vector) > 1);
        }
        if self.has_room(vectors.len()) { Ok(()) } else { Err(EmbeddingError::Full) }
    }

    fn has_room(&self, more: usize) -> bool {
        let count = self.by_text.len() + more;
        count <= MAX_TOOLS && count * self.length * size_of::<f32>() <= MAX_BYTES
    }
}

#[cfg(test)]
mod tests;
