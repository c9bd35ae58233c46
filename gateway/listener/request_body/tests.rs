//! Tests of `request_body`.

#![allow(clippy::unwrap_used)]

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Context;

use http_body::{Frame, SizeHint};
use http_body_util::Full;

use super::*;

/// A body of given chunks that may declare its length, hang or break at the end.
struct Chunks {
    chunks: VecDeque<&'static str>,
    declared: Option<u64>,
    end: End,
}

#[derive(Clone, Copy)]
enum End {
    Clean,
    Hang,
    Break,
}

impl Body for Chunks {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match (self.chunks.pop_front(), self.end) {
            (Some(chunk), _) => {
                Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(chunk.as_bytes())))))
            }
            (None, End::Clean) => Poll::Ready(None),
            (None, End::Hang) => Poll::Pending,
            (None, End::Break) => Poll::Ready(Some(Err("broken"))),
        }
    }

    fn size_hint(&self) -> SizeHint {
        self.declared.map(SizeHint::with_exact).unwrap_or_default()
    }
}

/// The incomplete bodies of one principal on one connection.
struct Account {
    all: UnfinishedBodies,
    connection: ConnectionUsage,
}

impl Account {
    fn new(bytes_per_connection: usize) -> Self {
        let settings = HttpSettings {
            body_bytes: 0,
            body_rate: 2,
            slow_bodies_per_connection: 1,
            slow_bodies_per_principal: 10,
            unfinished_bytes_per_connection: bytes_per_connection,
            unfinished_bytes_per_principal: 1000,
            ..HttpSettings::default()
        };
        Self { all: UnfinishedBodies::new(settings), connection: ConnectionUsage::default() }
    }

    fn bounds(&self, bytes: usize, time: u64) -> BodyBounds<'_> {
        BodyBounds {
            bytes,
            time: Duration::from_secs(time),
            unfinished: &self.all,
            connection: &self.connection,
            principal: 1,
        }
    }
}

async fn take(
    chunks: &[&'static str],
    declared: Option<u64>,
    end: End,
    budget: &Arc<Budget>,
) -> Result<Bytes, ListenerError> {
    let body = Chunks { chunks: chunks.iter().copied().collect(), declared, end };
    let account = Account::new(100);
    read_body(body, account.bounds(8, 5), Arc::clone(budget)).await.map(|(bytes, _)| bytes)
}

#[tokio::test]
async fn the_limit_is_inclusive_declared_or_not() {
    let budget = Arc::new(Budget::new(100));
    assert_eq!(take(&["1234", "5678"], None, End::Clean, &budget).await.unwrap(), "12345678");
    assert_eq!(take(&["12345678"], Some(8), End::Clean, &budget).await.unwrap(), "12345678");
    assert_eq!(
        take(&["1234", "56789"], None, End::Clean, &budget).await,
        Err(ListenerError::TooLarge { limit: 8 })
    );
    assert_eq!(
        take(&[], Some(9), End::Hang, &budget).await,
        Err(ListenerError::TooLarge { limit: 8 })
    );
    assert_eq!(take(&[], None, End::Clean, &budget).await.unwrap(), "");
    assert_eq!(take(&["", "ab", "", "c"], None, End::Clean, &budget).await.unwrap(), "abc");
    assert_eq!(budget.used(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_slow_or_broken_body_is_refused() {
    let budget = Arc::new(Budget::new(100));
    assert_eq!(take(&["12"], None, End::Hang, &budget).await, Err(ListenerError::Slow));
    assert_eq!(take(&["12"], Some(4), End::Break, &budget).await, Err(ListenerError::Broken));
    assert_eq!(budget.used(), 0);
}

fn long(bytes: usize) -> Full<Bytes> {
    Full::new(Bytes::from(vec![b'x'; bytes]))
}

#[tokio::test(start_paused = true)]
async fn bodies_share_one_budget() {
    let budget = Arc::new(Budget::new(100_000));
    let account = Account::new(100);
    let bounds = account.bounds(200_000, 5);
    let held = read_body(long(60_000), bounds, Arc::clone(&budget)).await.unwrap();
    let refused = |result: Result<(Bytes, Hold<Arc<Budget>>), ListenerError>| {
        assert_eq!(result.err(), Some(ListenerError::Memory))
    };
    // Medium bodies are rejected at once, large bodies after no memory was freed.
    for bytes in [50_000, 70_000, 100_001] {
        refused(read_body(long(bytes), bounds, Arc::clone(&budget)).await);
        let text: &'static str = Box::leak("x".repeat(bytes / 2).into_boxed_str());
        let chunks = Chunks { chunks: [text, text, "x"].into(), declared: None, end: End::Clean };
        refused(read_body(chunks, bounds, Arc::clone(&budget)).await);
    }
    let small = read_body(long(4096), bounds, Arc::clone(&budget)).await.unwrap();
    assert_eq!(budget.used(), 64_096);
    drop((held, small));
    assert_eq!(
        read_body(long(100_000), bounds, Arc::clone(&budget)).await.unwrap().0.len(),
        100_000
    );
    assert_eq!(budget.used(), 0);
}

#[tokio::test]
async fn a_body_in_one_piece_is_not_copied() {
    let budget = Arc::new(Budget::new(100));
    let bytes = Bytes::from(vec![b'x'; 8]);
    let at = bytes.as_ptr();
    let account = Account::new(100);
    let (read, _held) =
        read_body(Full::new(bytes), account.bounds(8, 5), Arc::clone(&budget)).await.unwrap();
    assert_eq!(read.as_ptr(), at);
}

/// Returns a body with frames that the test sends.
fn sent() -> (
    tokio::sync::mpsc::UnboundedSender<&'static str>,
    impl Body<Data = Bytes, Error = ListenerError> + Unpin,
) {
    let (sender, mut frames) = tokio::sync::mpsc::unbounded_channel::<&'static str>();
    let stream = futures_util::stream::poll_fn(move |cx| {
        let frame = |text: &'static str| Ok(Frame::data(Bytes::from_static(text.as_bytes())));
        frames.poll_recv(cx).map(|text| text.map(frame))
    });
    (sender, http_body_util::StreamBody::new(stream))
}

#[tokio::test(start_paused = true)]
async fn a_body_has_to_keep_a_pace_over_five_seconds() {
    for (piece, expected, after) in
        [("123", Ok(()), 12), ("1", Err(ListenerError::Pace), 5), ("", Err(ListenerError::Pace), 5)]
    {
        let (budget, account) = (Arc::new(Budget::new(100)), Account::new(100));
        let (sender, body) = sent();
        let feed = async move {
            for _ in 0..12 {
                let _ = sender.send(piece);
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        let began = Instant::now();
        let reading = async {
            let result =
                read_body(body, account.bounds(100, 30), Arc::clone(&budget)).await.map(drop);
            (result, began.elapsed().as_secs())
        };
        let (result, ()) = tokio::join!(reading, feed);
        assert_eq!(result, (expected, after), "{piece:?}");
        assert_eq!(budget.used(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn only_what_has_come_of_an_unfinished_body_counts() {
    let (budget, account) = (Arc::new(Budget::new(100)), Account::new(3));
    let hanging =
        |chunk: &'static str, declared| Chunks { chunks: [chunk].into(), declared, end: End::Hang };
    {
        let mut reading =
            pin!(read_body(hanging("12", Some(90)), account.bounds(100, 5), Arc::clone(&budget)));
        assert!(
            std::future::poll_fn(|cx| Poll::Ready(reading.as_mut().poll(cx).is_pending())).await
        );
        assert_eq!(budget.used(), 2);
        // The second body raises the connection to four bytes, and the limit is three.
        let second =
            read_body(hanging("34", None), account.bounds(100, 5), Arc::clone(&budget)).await;
        assert_eq!(second.map(drop), Err(ListenerError::ConnectionBytes));
        // A complete body is not counted.
        let whole = Full::new(Bytes::from_static(b"12345"));
        assert_eq!(
            read_body(whole, account.bounds(100, 5), Arc::clone(&budget)).await.unwrap().0,
            "12345"
        );
    }
    assert_eq!(budget.used(), 0);
}

#[tokio::test(start_paused = true)]
async fn one_slow_body_too_many_is_refused_after_a_second() {
    let (budget, account) = (Arc::new(Budget::new(100)), Account::new(100));
    let body = || Chunks { chunks: ["12345678901"].into(), declared: None, end: End::Hang };
    let began = Instant::now();
    let (one, two) = tokio::join!(
        read_body(body(), account.bounds(100, 4), Arc::clone(&budget)),
        read_body(body(), account.bounds(100, 4), Arc::clone(&budget)),
    );
    let refused = [one.map(drop).unwrap_err(), two.map(drop).unwrap_err()];
    let too_many = ListenerError::ConnectionBodies { retry_after: Duration::from_secs(3) };
    assert!(refused.contains(&ListenerError::Slow) && refused.contains(&too_many), "{refused:?}");
    assert_eq!(began.elapsed().as_secs(), 4);
}

fn account() -> UnfinishedBodies {
    UnfinishedBodies::new(HttpSettings {
        body_bytes: 0,
        slow_bodies_per_connection: 2,
        slow_bodies_per_principal: 3,
        unfinished_bytes_per_connection: 100,
        unfinished_bytes_per_principal: 150,
        ..HttpSettings::default()
    })
}

const TIME: Duration = Duration::from_secs(30);

#[tokio::test(start_paused = true)]
async fn slow_bodies_are_bounded_per_connection_and_per_principal() {
    let (all, one, two) = (account(), ConnectionUsage::default(), ConnectionUsage::default());
    let mut bodies: Vec<_> = [(&one, 1), (&one, 1), (&one, 2)]
        .map(|(connection, who)| all.begin(connection, who))
        .into();
    let slow = |body: &mut UnfinishedBody<'_>| body.mark_slow(Instant::now() + TIME);
    for body in bodies.iter_mut().take(2) {
        assert_eq!(slow(body), Ok(()));
        tokio::time::advance(Duration::from_secs(5)).await;
    }
    // Ten of the first body's thirty seconds have passed.
    let retry_after = Duration::from_secs(20);
    assert_eq!(slow(&mut bodies[2]), Err(ListenerError::ConnectionBodies { retry_after }));
    drop(bodies.pop());
    let mut third = all.begin(&two, 1);
    assert_eq!((slow(&mut third), slow(&mut third)), (Ok(()), Ok(())));
    let mut fourth = all.begin(&two, 1);
    assert_eq!(slow(&mut fourth), Err(ListenerError::PrincipalBodies { retry_after }));
    drop(bodies.swap_remove(0));
    assert_eq!(slow(&mut fourth), Ok(()), "as soon as one has ended");
    drop(fourth);
    let mut other = all.begin(&two, 2);
    assert_eq!(slow(&mut other), Ok(()), "another principal has its own");
    drop((bodies, third, other));
    assert!(all.principals.lock().is_empty());
    assert!(one.into_inner().slow.is_empty() && two.into_inner().slow.is_empty());
}

#[test]
fn bytes_are_bounded_per_connection_and_per_principal() {
    let (all, one, two) = (account(), ConnectionUsage::default(), ConnectionUsage::default());
    let (mut first, mut second, mut third) =
        (all.begin(&one, 1), all.begin(&one, 1), all.begin(&two, 1));
    assert_eq!((first.add_bytes(60), second.add_bytes(40)), (Ok(()), Ok(())));
    assert_eq!(third.add_bytes(50), Ok(()));
    assert_eq!(third.add_bytes(1), Err(ListenerError::PrincipalBytes));
    assert_eq!(all.begin(&one, 2).add_bytes(1), Err(ListenerError::ConnectionBytes));
    assert_eq!(all.begin(&two, 2).add_bytes(49), Ok(()), "another principal has its own");
    drop((first, second, third));
    assert!(all.principals.lock().is_empty());
    assert_eq!(all.begin(&one, 1).add_bytes(100), Ok(()));
    let large = UnfinishedBodies::new(HttpSettings { body_bytes: 200, ..all.settings });
    assert_eq!(large.begin(&one, 1).add_bytes(200), Ok(()), "a single body is admitted");
    assert_eq!(large.begin(&one, 1).add_bytes(201), Err(ListenerError::ConnectionBytes));
}
