//! Tests of the limits on vectors, and of queries without them.

use std::sync::atomic::AtomicUsize;

use lockgate_search::normalize;

use super::*;

/// Counts requests, and answers each with the next of these results; with none left it never does.
struct Scripted {
    answers: Mutex<Vec<Result<usize, EmbeddingError>>>,
    asked: Mutex<Vec<String>>,
    open: AtomicUsize,
}

impl Scripted {
    fn new(answers: impl IntoIterator<Item = Result<usize, EmbeddingError>>) -> Arc<Self> {
        let mut answers: Vec<_> = answers.into_iter().collect();
        answers.reverse();
        Arc::new(Self { answers: Mutex::new(answers), asked: Mutex::default(), open: 0.into() })
    }

    fn embeddings(self: &Arc<Self>) -> Arc<Embeddings> {
        Embeddings::new(Arc::clone(self) as Arc<dyn Embedder>, Duration::from_secs(1))
    }
}

impl Embedder for Scripted {
    fn embed(
        &self,
        texts: Vec<String>,
        _: Duration,
    ) -> BoxFuture<'_, Result<Vec<Vector>, EmbeddingError>> {
        let count = texts.len();
        self.asked.lock().extend(texts);
        let answer = self.answers.lock().pop();
        Box::pin(async move {
            let Some(answer) = answer else {
                self.open.fetch_add(1, Ordering::SeqCst);
                return std::future::pending().await;
            };
            answer.map(|length| vec![vector(length); count])
        })
    }
}

fn vector(length: usize) -> Vector {
    normalize(vec![1.0; length]).unwrap()
}

fn failed() -> Result<usize, EmbeddingError> {
    Err(EmbeddingError::Failed("broken".into()))
}

fn hash(number: usize) -> Hash {
    blake3::hash(&number.to_le_bytes())
}

/// Adds vectors of their own, and returns those that a caller keeps.
fn add(known: &mut KnownVectors, numbers: std::ops::Range<usize>, length: usize) -> Vec<Vector> {
    let mut added = Vec::new();
    for number in numbers {
        let vector = vector(length);
        known.make_room(std::slice::from_ref(&vector)).unwrap();
        known.by_text.insert(hash(number), Arc::clone(&vector));
        added.push(vector);
    }
    added
}

#[tokio::test]
async fn a_failure_is_no_vector_and_a_timeout_pauses() {
    let timed_out = EmbeddingError::TimedOut(Duration::from_secs(1));
    let server = Scripted::new([Ok(3), failed(), Ok(3), Err(timed_out), Ok(3)]);
    let embeddings = server.embeddings();
    let mut lengths = Vec::new();
    for _ in 0..6 {
        lengths.push(embeddings.embed_query("q").await.map(|vector| vector.len()));
    }
    assert_eq!(lengths, [Some(3), None, Some(3), None, None, None]);
    assert_eq!(server.asked.lock().len(), 4, "the pause after the timeout asks nothing");
}

#[tokio::test]
async fn queries_are_cut_at_a_character() {
    let server = Scripted::new([Ok(1), Ok(1)]);
    let embeddings = server.embeddings();
    embeddings.embed_query(&"x".repeat(MAX_TEXT)).await.unwrap();
    embeddings.embed_query(&format!("{}é", "x".repeat(MAX_TEXT - 1))).await.unwrap();
    let lengths: Vec<usize> = server.asked.lock().iter().map(String::len).collect();
    assert_eq!(lengths, [MAX_TEXT, MAX_TEXT - 1]);
}

#[tokio::test]
async fn more_queries_at_once_go_without() {
    let server = Scripted::new([]);
    let embeddings = server.embeddings();
    let mut running = Vec::new();
    for _ in 0..MAX_QUERIES {
        let embeddings = Arc::clone(&embeddings);
        running.push(tokio::spawn(async move { embeddings.embed_query("q").await }));
    }
    while server.open.load(Ordering::SeqCst) < MAX_QUERIES {
        tokio::task::yield_now().await;
    }
    assert_eq!(embeddings.embed_query("q").await, None);
    assert_eq!(server.asked.lock().len(), MAX_QUERIES);
    running.pop().unwrap().abort();
    for task in running {
        task.abort();
    }
}

#[tokio::test]
async fn a_query_of_another_length_is_not_compared() {
    let server = Scripted::new([Ok(2), Ok(3)]);
    let embeddings = server.embeddings();
    let _kept = add(&mut embeddings.known.lock(), 0..1, 3);
    assert_eq!(embeddings.embed_query("q").await, None);
    assert_eq!(embeddings.embed_query("q").await.map(|vector| vector.len()), Some(3));
}

#[test]
fn tools_are_counted_by_owner() {
    for (most, is_of_organisation) in [(MAX_TOOLS, false), (MAX_OWN_TOOLS, true)] {
        assert_eq!(check_count(most, is_of_organisation), Ok(()));
        let refused = Err(EmbeddingError::TooManyTools(most + 1, most));
        assert_eq!(check_count(most + 1, is_of_organisation), refused);
    }
}

#[test]
fn vectors_have_a_number_and_bytes() {
    let long = MAX_BYTES / size_of::<f32>() / 4096;
    for (most, length) in [(MAX_TOOLS, 1), (long, 4096)] {
        let mut known = KnownVectors::default();
        let kept = add(&mut known, 0..most, length);
        let more = [vector(length)];
        assert_eq!(known.make_room(&more), Err(EmbeddingError::Full), "{most}");
        drop(kept);
        assert_eq!(known.make_room(&more), Ok(()), "unused vectors make room");
        assert!(known.by_text.is_empty());
    }
}

#[test]
fn equal_and_known_texts_are_not_asked_for() {
    let mut known = KnownVectors::default();
    let kept = add(&mut known, 0..2, 1);
    let texts = [0, 7, 1, 7, 8].map(|number| (hash(number), number.to_string()));
    let (found, missing) = known.find(&texts);
    assert!(Arc::ptr_eq(&found[&hash(1)], &kept[1]) && found.len() == 2);
    assert_eq!(missing.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>(), ["7", "8"]);
}
