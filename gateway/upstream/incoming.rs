//! Input from servers over HTTP. It is read within the limits of a message and of the memory
//! budget, which holds up a server while there is no room.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use bytes::Bytes;
use lockgate_admission::budget::Budget;
use lockgate_admission::reader::{Buffer, Reader};
use lockgate_admission::{CallerId, CpuPool};
use lockgate_egress::{Body, BodyError, MAX_READ_AHEAD};
use lockgate_protocol::jsonrpc::{self, Message, MessageError, Request, SentBy};

use crate::BoxFuture;
use crate::call::{ClientChannel, ResponseSink, ServerId, SinkError};
use crate::echoed::{PieceFilter, Searched};
use crate::failure::{Result, UpstreamError};

/// Largest message, in bytes, that may be scanned without delaying other tasks on the thread.
const LARGE_MESSAGE: usize = 1 << 20;
/// Size from which an answer is streamed to the client, if its end need not be inspected first.
const MIN_STREAMED_BYTES: usize = 256 << 10;

/// The accounting and parsing of a server's input.
#[derive(Clone)]
pub(crate) struct Intake {
    pub(crate) budget: Arc<Budget>,
    cpu_pool: Arc<CpuPool>,
    /// Identity used for fair queueing: the server within its organisation, or alone.
    server: CallerId,
    searched: Searched,
}

impl Intake {
    pub(crate) fn new(
        budget: Arc<Budget>,
        cpu_pool: Arc<CpuPool>,
        id: &ServerId,
        searched: Searched,
    ) -> Self {
        let mut hasher = DefaultHasher::new();
        id.hash(&mut hasher);
        let server = match &id.organisation {
            Some(organisation) => CallerId::new(organisation, hasher.finish()),
            None => CallerId::alone(hasher.finish()),
        };
        Self { budget, cpu_pool, server, searched }
    }

    #[cfg(test)]
    pub(crate) fn for_tests() -> Self {
        let bounds = lockgate_admission::Bounds { running: 1, waiting: 8 };
        Self::new(
            Arc::new(Budget::new(1 << 30)),
            Arc::new(CpuPool::new(bounds)),
            &ServerId::shared("test"),
            Searched::Nothing,
        )
    }

    /// Parses a message, on a separate thread if it is large.
    ///
    /// # Errors
    /// Too many large messages are waiting.
    pub(crate) async fn parse(
        &self,
        text: Bytes,
        depth: usize,
    ) -> Result<Result<Message, MessageError>> {
        if text.len() <= LARGE_MESSAGE {
            return Ok(parse(text, depth, &self.searched));
        }
        // Boxed, as are all rare paths, to keep the future of a call small.
        Box::pin(async move {
            let turn =
                self.cpu_pool.turn(self.server).await.map_err(|_| UpstreamError::no_turn())?;
            let searched = self.searched.clone();
            Ok(turn.run(move || parse(text, depth, &searched)).await)
        })
        .await
    }
}

fn parse(text: Bytes, depth: usize, searched: &Searched) -> Result<Message, MessageError> {
    let text = match searched {
        Searched::Nothing => text,
        Searched::Fixed(credentials) => credentials.hide_in(text),
        Searched::Changing(changing) => changing.current().hide_in(text),
    };
    jsonrpc::parse(text, depth, SentBy::Server)
}

pub(crate) enum ReadBody {
    Whole(Bytes),
    /// The sink received all of it.
    Streamed,
}

/// Reads a body of at most `max` bytes. A body that arrives in one piece is not copied. A large
/// body is streamed to the sink, if the sink accepts it as the answer to the request with that id.
pub(crate) async fn read_body(
    mut body: Body,
    max: usize,
    intake: &Intake,
    inbox: &dyn Inbox,
    mut destination: Option<(&dyn ResponseSink, u64)>,
) -> Result<ReadBody> {
    let announced = body.length().unwrap_or(0);
    if announced > max as u64 {
        return Err(BodyError::TooLarge(max).into());
    }
    let mut reader = Reader::new(&intake.budget);
    let expected = usize::try_from(announced).unwrap_or(usize::MAX);
    if expected <= MAX_READ_AHEAD {
        // It arrives in one piece, so its memory is held before.
        reader.hold(expected).await?;
    }
    let Some(first) = next_or_dropped(&mut body, inbox, &reader).await? else {
        return Ok(ReadBody::Whole(Bytes::new()));
    };
    inbox.heard();
    if first.len() > max {
        return Err(BodyError::TooLarge(max).into());
    }
    reader.hold(first.len()).await?;
    let Some(second) = next_or_dropped(&mut body, inbox, &reader).await? else {
        return Ok(ReadBody::Whole(reader.finish(first, 0)));
    };
    let length = usize::try_from(announced).ok().filter(|&announced| announced > 0);
    let mut whole = Buffer::new(length.unwrap_or(max));
    whole.extend(&first);
    drop(first);
    let mut next = Some(second);
    while let Some(piece) = next {
        inbox.heard();
        if piece.len() > max - whole.len() {
            return Err(BodyError::TooLarge(max).into());
        }
        reader.hold(whole.len() + piece.len()).await?;
        whole.extend(&piece);
        drop(piece);
        if whole.len() >= MIN_STREAMED_BYTES
            && let Some((sink, id)) = destination.take()
            && let Some(filter) = begin(intake, sink, id, whole.as_slice())
        {
            let left = max - whole.len();
            drop((whole, reader));
            return Box::pin(stream_rest(body, left, inbox, sink, filter)).await;
        }
        next = next_or_dropped(&mut body, inbox, &reader).await?;
    }
    Ok(ReadBody::Whole(reader.finish(whole.take(), 0)))
}

/// Returns the next bytes, or an error if the message is evicted meanwhile.
pub(crate) async fn next_or_dropped(
    body: &mut Body,
    inbox: &dyn Inbox,
    reader: &Reader,
) -> Result<Option<Bytes>> {
    if !reader.is_known() {
        return next_piece(body, inbox).await;
    }
    tokio::select! {
        biased;
        _ = reader.told() => Err(UpstreamError::no_memory()),
        piece = next_piece(body, inbox) => piece,
    }
}

/// Starts streaming an answer, if the sink accepts it.
fn begin(intake: &Intake, sink: &dyn ResponseSink, id: u64, start: &[u8]) -> Option<PieceFilter> {
    let mut filter = PieceFilter::new(intake.searched.current());
    let taken = match &intake.searched {
        Searched::Nothing => sink.begin(id, start),
        _ => sink.begin(id, &filter.push(Bytes::copy_from_slice(start))),
    };
    taken.then_some(filter)
}

/// Streams the rest of an answer, of at most `left` bytes, at the client's pace.
async fn stream_rest(
    mut body: Body,
    mut left: usize,
    inbox: &dyn Inbox,
    sink: &dyn ResponseSink,
    mut filter: PieceFilter,
) -> Result<ReadBody> {
    while let Some(piece) = next_piece(&mut body, inbox).await? {
        inbox.heard();
        let Some(rest) = left.checked_sub(piece.len()) else {
            let words = "the server's response is larger than limits.response_bytes";
            return Err(UpstreamError::too_large(words));
        };
        left = rest;
        match sink.write(filter.push(piece)).await {
            Ok(()) => {}
            Err(SinkError::ClientGone) => return Ok(ReadBody::Streamed),
            Err(error) => {
                return Err(UpstreamError::garbage(error.to_string()));
            }
        }
    }
    let last = match sink.write(filter.finish()).await {
        Ok(()) => sink.finish().await,
        failed => failed,
    };
    match last {
        Ok(()) | Err(SinkError::ClientGone) => Ok(ReadBody::Streamed),
        Err(error) => Err(UpstreamError::garbage(error.to_string())),
    }
}

/// Returns the next bytes; `None` at the end. Empty pieces only report that bytes have arrived.
async fn next_piece(body: &mut Body, inbox: &dyn Inbox) -> Result<Option<Bytes>> {
    loop {
        match body.arrival().await? {
            Some(piece) if piece.is_empty() => inbox.heard(),
            piece => return Ok(piece),
        }
    }
}

/// Receives unsolicited messages of a server on a connection. None of its methods waits.
pub(crate) trait Inbox: Send + Sync + 'static {
    /// Receives a notification that belongs to no running call (progress of a running call goes to
    /// its client channel). `running` is the client channel of the call in flight, if there is
    /// exactly one.
    fn notification(&self, note: Request, running: Option<Arc<dyn ClientChannel>>);

    /// Receives a request of the server and returns the response as JSON text. `running` as above.
    fn question(
        &self,
        question: Request,
        running: Option<Arc<dyn ClientChannel>>,
    ) -> BoxFuture<'static, Bytes>;

    /// Reports whether the server's requests are answered: modern servers have none.
    fn answers(&self) -> bool {
        true
    }

    /// Records that bytes of the server have arrived.
    fn heard(&self) {}

    /// Reports the end of the connection; called once, with the reason.
    fn closed(&self, words: String);
}
