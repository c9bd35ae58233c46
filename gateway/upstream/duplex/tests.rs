//! Tests of `duplex`.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use lockgate_protocol::jsonrpc::{Outcome, Request, Response};
use lockgate_protocol::key::Key;
use lockgate_protocol::method::Method;
use lockgate_protocol::write;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::{Bounds, Duplex, Role};
use crate::BoxFuture;
use crate::call::{ClientChannel, QuestionError};
use crate::failure::{UpstreamError, UpstreamErrorKind};
use crate::incoming::{Inbox, Intake};

const EVENT_TIMEOUT: Duration = Duration::from_secs(5);
const BOUNDS: Bounds = Bounds { message_bytes: 2000, depth: 16, outgoing: 4 };

/// The calls of the inbox and the client channels, as lines of text.
type Log = mpsc::UnboundedSender<String>;

struct Recorder(Log);

impl Inbox for Recorder {
    fn notification(&self, note: Request, running: Option<Arc<dyn ClientChannel>>) {
        if let Some(running) = &running {
            running.log(&note);
        }
        self.0.send(format!("note {} {}", note.method_name(), running.is_some())).ok();
    }

    fn question(
        &self,
        question: Request,
        running: Option<Arc<dyn ClientChannel>>,
    ) -> BoxFuture<'static, Bytes> {
        self.0.send(format!("question {} {}", question.method_name(), running.is_some())).ok();
        let id = question.id_bytes();
        let over = Over(self.0.clone());
        Box::pin(async move {
            let _over = over;
            if question.method == Method::Elicit {
                std::future::pending::<()>().await;
            }
            write::result(&id, b"{}").into()
        })
    }

    fn closed(&self, words: String) {
        self.0.send(format!("closed {words}")).ok();
    }
}

struct Over(Log);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.send("question over".to_owned()).ok();
    }
}

struct Client(&'static str, Log);

impl ClientChannel for Client {
    /// Returns the principal: clients with the same initial share it.
    fn principal(&self) -> u64 {
        self.0.as_bytes()[0].into()
    }

    fn wants_progress(&self) -> bool {
        true
    }

    fn progress(&self, note: &Request) {
        self.1
            .send(format!(
                "progress of {}: {}",
                self.0,
                String::from_utf8_lossy(note.param(Key::Progress).unwrap())
            ))
            .ok();
    }

    fn log(&self, _note: &Request) {
        self.1.send(format!("log of {}", self.0)).ok();
    }

    fn waiting(&self, _: Option<Duration>) {}

    fn ask(&self, _method: Method, _params: Bytes) -> BoxFuture<'_, Result<Bytes, QuestionError>> {
        Box::pin(async { Err(QuestionError::Gone) })
    }
}

/// A connection and the server's end of it.
struct Wire {
    duplex: Arc<Duplex>,
    output: DuplexStream,
    input: Lines<BufReader<DuplexStream>>,
    seen: mpsc::UnboundedReceiver<String>,
    log: Log,
}

impl Wire {
    fn new(bounds: Bounds, room: usize) -> Self {
        let (output, reader) = tokio::io::duplex(1 << 16);
        let (writer, input) = tokio::io::duplex(room);
        let (log, seen) = mpsc::unbounded_channel();
        let duplex = Duplex::lines(
            reader,
            writer,
            bounds,
            Arc::new(Recorder(log.clone())),
            Intake::for_tests(),
        );
        Self { duplex, output, input: BufReader::new(input).lines(), seen, log }
    }

    fn open() -> Self {
        Self::new(BOUNDS, 1 << 16)
    }

    /// Starts a call and waits until the server has read it.
    async fn call(
        &mut self,
        id: u64,
        client: Option<&'static str>,
    ) -> JoinHandle<Result<Response, UpstreamError>> {
        let channel =
            client.map(|name| Arc::new(Client(name, self.log.clone())) as Arc<dyn ClientChannel>);
        let duplex = self.duplex.clone();
        let call = tokio::spawn(async move {
            duplex.request(id, request(id), Role::Call(channel), None, true).await
        });
        assert_eq!(self.heard().await, String::from_utf8_lossy(&request(id)));
        call
    }

    async fn say(&mut self, text: impl AsRef<[u8]>) {
        self.output.write_all(text.as_ref()).await.unwrap();
    }

    /// Closes the server's output.
    fn hang_up(&mut self) {
        let (output, _) = tokio::io::duplex(1);
        drop(std::mem::replace(&mut self.output, output));
    }

    /// Returns the next line received by the server.
    async fn heard(&mut self) -> String {
        timeout(EVENT_TIMEOUT, self.input.next_line())
            .await
            .expect("the server heard nothing")
            .unwrap()
            .expect("no end")
    }

    /// Returns the next event on the gateway's side.
    async fn saw(&mut self) -> String {
        timeout(EVENT_TIMEOUT, self.seen.recv()).await.expect("nothing was seen").unwrap()
    }
}

fn request(id: u64) -> Bytes {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{}}}}"#).into()
}

fn answer(id: u64) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"of\":{id}}}}}\n")
}

async fn result(
    call: JoinHandle<Result<Response, UpstreamError>>,
) -> Result<String, UpstreamError> {
    let response = timeout(EVENT_TIMEOUT, call).await.expect("no answer").unwrap()?;
    match response.outcome {
        Outcome::Result(span, _) => {
            Ok(String::from_utf8_lossy(span.of(&response.text)).into_owned())
        }
        Outcome::Error(error) => Ok(error.message(&response.text).into_owned()),
    }
}

async fn failure(call: JoinHandle<Result<Response, UpstreamError>>) -> (UpstreamErrorKind, bool) {
    let failure = result(call).await.unwrap_err();
    (failure.kind, failure.sent)
}

#[tokio::test]
async fn answers_find_their_calls_in_any_order_and_in_any_chunks() {
    let mut wire = Wire::open();
    let (one, two) = (wire.call(1, None).await, wire.call(2, None).await);
    for byte in format!("{}\r\n\n  \n{}", answer(2).trim_end(), answer(1)).bytes() {
        wire.say([byte]).await;
        tokio::task::yield_now().await;
    }
    assert_eq!(result(one).await.unwrap(), r#"{"of":1}"#);
    assert_eq!(result(two).await.unwrap(), r#"{"of":2}"#);

    let (three, four) = (wire.call(3, None).await, wire.call(4, None).await);
    wire.say(answer(3) + &answer(4)).await;
    assert_eq!(result(three).await.unwrap(), r#"{"of":3}"#);
    assert_eq!(result(four).await.unwrap(), r#"{"of":4}"#);
    assert_eq!(wire.duplex.exchange.dropped(), 0);
}

#[tokio::test]
async fn nonsense_is_dropped_and_every_call_goes_on() {
    let mut wire = Wire::open();
    let call = wire.call(7, None).await;
    let nonsense: [&[u8]; 10] = [
        b"Server listening on port 3000",
        b"\x1b[32mok\x1b[0m \xff\xfe",
        b"null",
        b"[]",
        b"{}",
        b"{\"jsonrpc\":\"2.0\",\"id\":99,\"result\":{}}",
        b"{\"jsonrpc\":\"2.0\",\"id\":\"7\",\"result\":{}}",
        b"{\"jsonrpc\":\"2.0\",\"result\":{}}",
        b"{\"jsonrpc\":\"2.0\",\"method\":\"x\",\"params\":[1]}",
        b"{\"x\":{\"x\":{\"x\":{\"x\":{\"x\":{\"x\":{\"x\":{\"x\":{\"x\":{\"x\":{\"x\":{\"x\":{\"x\":{\"x\":{\"x\":{\"x\":{\"x\":{}}}}}}}}}}}}}}}}}}",
    ];
    for line in nonsense {
        wire.say(line).await;
        wire.say("\n").await;
    }
    wire.say(answer(7)).await;
    assert_eq!(result(call).await.unwrap(), r#"{"of":7}"#);
    assert_eq!(wire.duplex.exchange.dropped(), nonsense.len() as u64);
    assert!(wire.duplex.exchange.is_open());
}

#[tokio::test]
async fn a_broken_answer_fails_the_call_that_it_is_for() {
    let broken: [&[u8]; 7] = [
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"text\":\"\xff\"}}",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":[]}",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":\"no\"}}",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"resu",
        b"{\"jsonrpc\":\"1.0\",\"id\":1,\"result\":{}}",
        b"{\"result\":{\"a\":1,\"a\":2},\"jsonrpc\":\"2.0\",\"id\":1}",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"x\":[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]}}",
    ];
    for line in broken {
        let mut wire = Wire::open();
        let (concerned, other) = (wire.call(1, None).await, wire.call(2, None).await);
        wire.say(line).await;
        wire.say("\n").await;
        assert_eq!(
            failure(concerned).await,
            (UpstreamErrorKind::Garbage, true),
            "{}",
            String::from_utf8_lossy(line)
        );
        wire.say(answer(2)).await;
        assert_eq!(result(other).await.unwrap(), r#"{"of":2}"#);
    }
}

#[tokio::test]
async fn an_endless_line_fails_the_only_call_at_once_and_takes_no_memory() {
    let mut wire = Wire::open();
    let call = wire.call(1, None).await;
    wire.say(vec![b'x'; BOUNDS.message_bytes + 1]).await;
    assert_eq!(failure(call).await, (UpstreamErrorKind::TooLarge, true));

    let next = wire.call(2, None).await;
    for _ in 0..2000 {
        wire.say(vec![b'x'; 10_000]).await;
    }
    wire.say(format!("\n{}", answer(2))).await;
    assert_eq!(result(next).await.unwrap(), r#"{"of":2}"#);
    assert_eq!(wire.duplex.exchange.dropped(), 1);
}

#[tokio::test]
async fn an_oversized_answer_is_known_by_either_end() {
    let filler = "y".repeat(BOUNDS.message_bytes * 50);
    for oversized in [
        format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"text":"{filler}"}}}}"#),
        format!(r#"{{"result":{{"text":"{filler}"}},"jsonrpc":"2.0","id":1}}"#),
        // Small enough to arrive in a single chunk.
        format!(
            r#"{{"result":{{"text":"{}"}},"jsonrpc":"2.0","id":1}}"#,
            &filler[..BOUNDS.message_bytes]
        ),
    ] {
        let mut wire = Wire::open();
        let (concerned, other) = (wire.call(1, None).await, wire.call(2, None).await);
        wire.say(oversized + "\n").await;
        assert_eq!(failure(concerned).await, (UpstreamErrorKind::TooLarge, true));
        wire.say(answer(2)).await;
        assert_eq!(result(other).await.unwrap(), r#"{"of":2}"#);
    }
}

#[tokio::test]
async fn an_oversized_message_that_is_no_answer_harms_nobody() {
    let filler = "y".repeat(BOUNDS.message_bytes * 50);
    let mut wire = Wire::open();
    let call = wire.call(1, None).await;
    wire.say(format!(
        "{{\"method\":\"x\",\"params\":{{\"text\":\"{filler}\"}},\"jsonrpc\":\"2.0\",\"id\":1}}\n"
    ))
    .await;
    wire.say(answer(1)).await;
    assert_eq!(result(call).await.unwrap(), r#"{"of":1}"#);
}

#[tokio::test]
async fn a_line_of_exactly_the_bound_is_taken() {
    let mut wire = Wire::open();
    let call = wire.call(1, None).await;
    let frame = r#"{"jsonrpc":"2.0","id":1,"result":{"t":""}}"#.len();
    let text = "z".repeat(BOUNDS.message_bytes - frame);
    wire.say(format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{{\"t\":\"{text}\"}}}}\n")).await;
    assert!(result(call).await.is_ok());
}

#[tokio::test]
async fn an_end_in_the_middle_of_a_message_fails_every_call_once() {
    let mut wire = Wire::open();
    let calls = [wire.call(1, None).await, wire.call(2, None).await];
    wire.say(r#"{"jsonrpc":"2.0","id":1,"result":{"#).await;
    wire.hang_up();
    for call in calls {
        assert_eq!(failure(call).await, (UpstreamErrorKind::Lost, true));
    }
    assert_eq!(wire.saw().await, "closed the server closed its output");
    assert!(!wire.duplex.exchange.is_open());
    let refused =
        wire.duplex.request(3, request(3), Role::Call(None), None, true).await.unwrap_err();
    assert_eq!((refused.kind, refused.sent), (UpstreamErrorKind::Unavailable, false));
    assert_eq!(
        wire.duplex.notify(request(4), None).unwrap_err().kind,
        UpstreamErrorKind::Unavailable
    );
    drop(wire.duplex);
    assert!(wire.seen.try_recv().is_err(), "closed was called twice");
}

#[tokio::test]
async fn a_last_answer_needs_no_line_end() {
    let mut wire = Wire::open();
    let call = wire.call(1, None).await;
    wire.say(answer(1).trim_end()).await;
    wire.hang_up();
    assert_eq!(result(call).await.unwrap(), r#"{"of":1}"#);
}

#[tokio::test]
async fn dropping_a_call_cancels_it_once_and_only_while_it_runs() {
    let mut wire = Wire::open();
    let call = wire.call(1, None).await;
    call.abort();
    assert_eq!(
        wire.heard().await,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"the caller is no longer waiting"}}"#
    );
    // A late response does not count as invalid.
    let next = wire.call(2, None).await;
    wire.say(answer(1) + &answer(2)).await;
    assert!(result(next).await.is_ok());
    assert_eq!(wire.duplex.exchange.dropped(), 0);

    let duplex = wire.duplex.clone();
    let bound =
        tokio::spawn(
            async move { duplex.request(3, request(3), Role::Call(None), None, false).await },
        );
    assert_eq!(wire.heard().await, String::from_utf8_lossy(&request(3)));
    bound.abort();
    let _ = bound.await;
    wire.duplex.notify(Bytes::from_static(b"{}"), None).unwrap();
    assert_eq!(wire.heard().await, "{}", "a call that may not be cancelled was");
}

#[tokio::test]
async fn a_call_that_was_never_written_is_taken_back_silently() {
    let mut wire = Wire::new(BOUNDS, 16);
    // Fills the pipe and stays in it, half written.
    wire.duplex.notify(Bytes::from_static(b"\"a message longer than the pipe\""), None).unwrap();
    let mut call = Box::pin(wire.duplex.request(1, request(1), Role::Call(None), None, true));
    assert!((&mut call).now_or_never().is_none());
    drop(call);
    wire.duplex.notify(Bytes::from_static(b"\"after\""), None).unwrap();
    assert_eq!(wire.heard().await, "\"a message longer than the pipe\"");
    assert_eq!(wire.heard().await, "\"after\"");
}

#[tokio::test]
async fn a_server_that_does_not_read_fills_a_bounded_queue() {
    let wire = Wire::new(BOUNDS, 16);
    for _ in 0..BOUNDS.outgoing {
        wire.duplex.notify(request(0), None).unwrap();
    }
    assert_eq!(
        wire.duplex.notify(request(0), None).unwrap_err().kind,
        UpstreamErrorKind::Overloaded
    );
    let refused =
        wire.duplex.request(1, request(1), Role::Call(None), None, true).await.unwrap_err();
    assert_eq!((refused.kind, refused.sent), (UpstreamErrorKind::Overloaded, false));
}

#[tokio::test]
async fn calls_that_were_not_written_when_the_connection_broke_may_be_repeated() {
    let mut wire = Wire::new(BOUNDS, 16);
    wire.duplex.notify(Bytes::from_static(b"\"a message longer than the pipe\""), None).unwrap();
    let duplex = wire.duplex.clone();
    let call =
        tokio::spawn(
            async move { duplex.request(1, request(1), Role::Call(None), None, true).await },
        );
    tokio::task::yield_now().await;
    wire.hang_up();
    assert_eq!(failure(call).await, (UpstreamErrorKind::Lost, false));
}

#[tokio::test]
async fn a_server_that_stops_reading_may_still_answer() {
    let mut wire = Wire::open();
    let call = wire.call(1, None).await;
    let lost = wire.call(2, None).await;
    let (_, input) = tokio::io::duplex(1);
    drop(std::mem::replace(&mut wire.input, BufReader::new(input).lines()));
    wire.duplex.notify(request(0), None).unwrap();
    assert!(!wire.duplex.exchange.is_open());
    wire.say(answer(1)).await;
    assert_eq!(result(call).await.unwrap(), r#"{"of":1}"#);
    assert_eq!(failure(lost).await, (UpstreamErrorKind::Lost, true));
    assert_eq!(wire.saw().await, "closed writing to the server failed: broken pipe");
}

#[tokio::test]
async fn line_ends_inside_a_message_are_white_space() {
    let mut wire = Wire::open();
    wire.duplex.notify(Bytes::from_static(b"{\r\n  \"a\": \"\\n\"\n}"), None).unwrap();
    assert_eq!(wire.heard().await, r#"{    "a": "\n" }"#);
}

#[tokio::test]
async fn many_messages_leave_in_order_through_a_narrow_pipe() {
    let mut wire = Wire::new(Bounds { outgoing: 500, ..BOUNDS }, 7);
    for n in 0..500 {
        wire.duplex.notify(n.to_string().into(), None).unwrap();
    }
    wire.duplex.close();
    assert_eq!(
        wire.duplex.notify(Bytes::new(), None).unwrap_err().kind,
        UpstreamErrorKind::Unavailable
    );
    for n in 0..500 {
        assert_eq!(wire.heard().await, n.to_string());
    }
    assert_eq!(timeout(EVENT_TIMEOUT, wire.input.next_line()).await.unwrap().unwrap(), None);
}

#[tokio::test]
async fn closing_ends_the_writing_side_only() {
    let mut wire = Wire::open();
    let call = wire.call(1, None).await;
    wire.duplex.close();
    assert!(!wire.duplex.exchange.is_open());
    assert_eq!(timeout(EVENT_TIMEOUT, wire.input.next_line()).await.unwrap().unwrap(), None);
    wire.say(answer(1)).await;
    assert!(result(call).await.is_ok());
    wire.hang_up();
    assert_eq!(wire.saw().await, "closed the server closed its output");
}

#[tokio::test]
async fn dropping_the_handle_ends_both_sides() {
    let mut wire = Wire::open();
    drop(wire.duplex);
    assert_eq!(timeout(EVENT_TIMEOUT, wire.input.next_line()).await.unwrap().unwrap(), None);
    assert_eq!(
        timeout(EVENT_TIMEOUT, wire.seen.recv()).await.unwrap().unwrap(),
        "closed the gateway closed the connection"
    );
    while wire.output.write_all(b"{}\n").await.is_ok() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn progress_goes_to_its_call_and_other_notes_to_the_only_one() {
    let mut wire = Wire::open();
    let one = wire.call(1, Some("one")).await;
    let log = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":1}}\n";
    let progress = |id: &str| {
        format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{{\"progressToken\":{id},\"progress\":5}}}}\n"
        )
    };
    wire.say(log).await;
    assert_eq!(wire.saw().await, "log of one");
    assert_eq!(wire.saw().await, "note notifications/message true");
    let two = wire.call(2, Some("two")).await;
    wire.say(log).await;
    assert_eq!(wire.saw().await, "note notifications/message false");
    wire.say(progress("2")).await;
    assert_eq!(wire.saw().await, "progress of two: 5");
    // Progress without a call: a finished call, a number as text, and null.
    wire.say(answer(2) + &progress("2") + &progress("\"1\"") + &progress("null") + log).await;
    assert_eq!(wire.saw().await, "log of one");
    assert!(result(two).await.is_ok());
    wire.say(answer(1)).await;
    assert!(result(one).await.is_ok());
}

#[tokio::test]
async fn what_may_be_about_a_call_that_was_left_goes_to_no_other_principal() {
    let mut wire = Wire::open();
    let log = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":1}}\n";
    let left = wire.call(1, Some("anna")).await;
    left.abort();
    assert!(left.await.is_err());
    assert!(wire.heard().await.contains("notifications/cancelled"));
    let same = wire.call(2, Some("anna again")).await;
    wire.say(log).await;
    assert_eq!(wire.saw().await, "log of anna again");
    assert_eq!(wire.saw().await, "note notifications/message true");
    wire.say(answer(2)).await;
    assert!(result(same).await.is_ok());
    let other = wire.call(3, Some("bea")).await;
    wire.say(log).await;
    assert_eq!(wire.saw().await, "note notifications/message false");
    wire.say(answer(3)).await;
    assert!(result(other).await.is_ok());
}

#[tokio::test]
async fn an_open_subscription_does_not_count_as_a_call() {
    let mut wire = Wire::open();
    let duplex = wire.duplex.clone();
    let listen =
        tokio::spawn(async move { duplex.request(1, request(1), Role::Listen, None, true).await });
    assert_eq!(wire.heard().await, String::from_utf8_lossy(&request(1)));
    let changed = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n";
    wire.say(changed).await;
    assert_eq!(wire.saw().await, "note notifications/tools/list_changed false");
    let _two = wire.call(2, Some("two")).await;
    wire.say(changed).await;
    assert_eq!(wire.saw().await, "log of two");
    listen.abort();
    assert!(wire.heard().await.contains(r#""requestId":1"#));
}

#[tokio::test]
async fn questions_are_answered_attributed_and_bounded() {
    let mut wire = Wire::open();
    wire.say("{\"jsonrpc\":\"2.0\",\"id\":\"p\",\"method\":\"ping\"}\n").await;
    assert_eq!(wire.saw().await, "question ping false");
    assert_eq!(wire.heard().await, r#"{"jsonrpc":"2.0","id":"p","result":{}}"#);
    assert_eq!(wire.saw().await, "question over");

    let call = wire.call(1, Some("one")).await;
    let question = |id: usize| {
        format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"elicitation/create\",\"params\":{{}}}}\n"
        )
    };
    for id in 0..32 {
        wire.say(question(id)).await;
        assert_eq!(wire.saw().await, "question elicitation/create true");
    }
    wire.say(question(32)).await;
    assert!(wire.heard().await.starts_with(r#"{"jsonrpc":"2.0","id":32,"error":{"code":-32603,"#));
    // A repeated id is invalid; a cancelled question frees its slot.
    wire.say(question(5)).await;
    wire.say("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":5}}\n").await;
    assert_eq!(wire.saw().await, "question over");
    assert_eq!(wire.duplex.exchange.dropped(), 1);
    wire.say(question(33)).await;
    assert_eq!(wire.saw().await, "question elicitation/create true");
    wire.say(answer(1)).await;
    assert!(result(call).await.is_ok());

    wire.hang_up();
    assert_eq!(
        timeout(EVENT_TIMEOUT, wire.seen.recv()).await.unwrap().unwrap(),
        "closed the server closed its output"
    );
    for _ in 0..32 {
        assert_eq!(
            timeout(EVENT_TIMEOUT, wire.seen.recv()).await.unwrap().unwrap(),
            "question over"
        );
    }
}

#[tokio::test]
async fn a_cancellation_of_nothing_we_know_goes_to_the_inbox() {
    let mut wire = Wire::open();
    wire.say("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":8}}\n").await;
    assert_eq!(wire.saw().await, "note notifications/cancelled false");
}

#[tokio::test]
async fn a_thousand_calls_share_one_connection() {
    let mut wire = Wire::new(Bounds { outgoing: 2000, ..BOUNDS }, 1 << 16);
    let calls: Vec<_> = (0..1000)
        .map(|id| {
            let duplex = wire.duplex.clone();
            tokio::spawn(async move {
                duplex.request(id, request(id), Role::Call(None), None, true).await
            })
        })
        .collect();
    let mut ids = Vec::new();
    for _ in 0..1000 {
        let line = wire.heard().await;
        let id = line.split("\"id\":").nth(1).and_then(|rest| rest.split(',').next()).unwrap();
        ids.push(id.parse::<u64>().unwrap());
    }
    for &id in ids.iter().rev() {
        wire.say(answer(id)).await;
    }
    for (id, call) in calls.into_iter().enumerate() {
        assert_eq!(result(call).await.unwrap(), format!("{{\"of\":{id}}}"));
    }
}

#[tokio::test]
async fn a_gigabyte_costs_no_memory() {
    let (mut output, reader) = tokio::io::duplex(1 << 20);
    let (writer, mut input) = tokio::io::duplex(1 << 16);
    let (log, mut seen) = mpsc::unbounded_channel();
    let bounds = Bounds { message_bytes: 1 << 20, ..BOUNDS };
    let duplex =
        Duplex::lines(reader, writer, bounds, Arc::new(Recorder(log)), Intake::for_tests());
    let before = resident();
    let chunk = vec![b'x'; 1 << 20];
    for _ in 0..1024 {
        output.write_all(&chunk).await.unwrap();
    }
    let grown = resident().saturating_sub(before);
    assert!(grown < 32 << 10, "{grown} KiB more after 1 GiB");
    output.write_all(b"\n{\"jsonrpc\":\"2.0\",\"method\":\"still/here\"}\n").await.unwrap();
    assert_eq!(
        timeout(EVENT_TIMEOUT, seen.recv()).await.unwrap().unwrap(),
        "note still/here false"
    );
    drop(duplex);
    assert_eq!(input.read(&mut [0; 1]).await.unwrap(), 0);
}

/// Returns the resident memory of this process in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
