//! Requests that an endpoint answers, in either era: lists and discovery from the view, everything else by the server
//! that `authorize` permits. One JSON object when nothing streams, an event stream when something does.

mod answer;
mod count;
mod detached;

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderMap, StatusCode};
use lockgate_protocol::code;
use lockgate_protocol::jsonrpc;
use lockgate_protocol::meta;
use lockgate_protocol::method::Method;
use lockgate_protocol::revision::Era;
use lockgate_telemetry::Outcome;
use lockgate_upstream::{AnswerKind, Call, Conversation, ListKind};
use tokio::sync::{Notify, mpsc};

pub(crate) use answer::instructions;
use answer::{discover, page};
use count::Counted;
pub(crate) use count::{audit_denial, audit_leave, audit_listen};
use detached::{Detached, Work, reclaim};

use crate::authorize::{self, Permitted};
use crate::context::Asked;
use crate::face::{Outgoing, Reply, Text};
use crate::gateway::Gateway;
use crate::rescue::Problem;
use crate::session::{Log, Session};
use crate::session_stream::{silence, stream_call};
use crate::sight::Eyes;
use crate::streams::Open;
use crate::talk::{Outlet, Talk, Waiting};
use crate::{interact, response};

/// A request of a known caller.
pub(crate) async fn request(gateway: &Arc<Gateway>, asked: Box<Asked>) -> Reply {
    let kind = match asked.request.method {
        Method::ToolsList => ListKind::Tools,
        Method::PromptsList => ListKind::Prompts,
        Method::ResourcesList => ListKind::Resources,
        Method::TemplatesList => ListKind::Templates,
        Method::Discover => {
            let answer = admitted(gateway, &asked).map(|()| discover(&asked));
            return done(&asked, answer);
        }
        Method::ToolsCall | Method::PromptsGet | Method::ResourcesRead | Method::Complete => {
            return forward(gateway, asked).await;
        }
        Method::TasksGet | Method::TasksUpdate | Method::TasksCancel if asked.era() == Era::Modern => {
            return forward(gateway, asked).await;
        }
        _ => {
            let problem = Problem::method_not_found(&asked.request.method_name());
            audit_denial(gateway, &asked, &problem);
            return done(&asked, Err(problem));
        }
    };
    if let Err(problem) = admitted(gateway, &asked) {
        return done(&asked, Err(problem));
    }
    for server in asked.view.servers.values() {
        server.touch();
    }
    let answer = page(&asked, kind);
    done(&asked, answer)
}

/// Lists and discovery: how often.
fn admitted(gateway: &Gateway, asked: &Asked) -> Result<(), Problem> {
    let admitted = authorize::admit(&asked.setup, &asked.standing, asked.request.method);
    admitted.map(drop).inspect_err(|problem| audit_denial(gateway, asked, problem))
}

fn done(asked: &Asked, answer: Result<Text, Problem>) -> Reply {
    match answer {
        Ok(body) => Reply::Message { status: StatusCode::OK, headers: HeaderMap::new(), body },
        Err(problem) => problem.reply(Some(asked.request.id()), asked.era()),
    }
}

/// A request for one server.
async fn forward(gateway: &Arc<Gateway>, asked: Box<Asked>) -> Reply {
    let (asked, permitted) = decide(gateway, asked).await;
    let permitted = match permitted {
        Ok(permitted) => permitted,
        Err(problem) => {
            audit_denial(gateway, &asked, &problem);
            return done(&asked, Err(problem));
        }
    };
    gateway.sole.note(asked.principal.key());
    match &asked.session {
        None if !may_stream(&asked) => {
            let answer = complete(gateway, &asked, permitted, None).await;
            done(&asked, answer)
        }
        None => stream_modern(gateway, asked, permitted).await,
        Some(session) => {
            let session = Arc::clone(session);
            run_legacy(gateway, asked, permitted, session).await
        }
    }
}

/// The decision on a request. One that may take long is made apart, so that nothing else on this thread waits for it.
async fn decide(gateway: &Gateway, asked: Box<Asked>) -> (Box<Asked>, Result<Permitted, Problem>) {
    if !authorize::is_slow(&asked) {
        let permitted = authorize::authorize(&asked);
        return (asked, permitted);
    }
    // Boxed, as is everything that is rare, so that the future of a request stays small.
    Box::pin(async move {
        let Ok(turn) = gateway.apart.turn(asked.principal.key()).await else {
            let wait = gateway.apart.limit().expected_wait();
            return (asked, Err(Problem::too_many_judgements(wait)));
        };
        turn.run(move || {
            let permitted = authorize::authorize(&asked);
            (asked, permitted)
        })
        .await
    })
    .await
}

/// Whether a modern client wants to hear anything before the answer.
fn may_stream(asked: &Asked) -> bool {
    asked.request.meta(meta::PROGRESS_TOKEN).is_some() || asked.caller.log_level.is_some()
}

fn talk(asked: &Asked, permitted: &Permitted, outlet: Outlet) -> Arc<Talk> {
    let slug = permitted.server().slug();
    Talk::new(outlet, &asked.request, asked.caller.log_level, asked.revision, slug, asked.view.namespaced)
        .with(permitted.response().cloned())
}

/// A modern call that may stream: JSON when the answer comes first, else a stream. Dropping either cancels the call.
async fn stream_modern(gateway: &Arc<Gateway>, asked: Box<Asked>, permitted: Permitted) -> Reply {
    let (sender, mut receiver) = Talk::channel();
    let conversation = talk(&asked, &permitted, Outlet::Channel(sender, Arc::clone(gateway.budget())));
    let shared = Arc::clone(gateway);
    let mut work: Work = Box::pin(async move {
        let answer = complete(&shared, &asked, permitted, Some(conversation)).await;
        (asked, answer)
    });
    tokio::select! {
        biased;
        Some(first) = receiver.recv() => {
            let open = gateway.streams.of_call();
            let state: Option<Running> = Some((Some(first.text), receiver, work, open));
            let events = futures_util::stream::unfold(state, |state| async move {
                let (first, receiver, work, open) = state?;
                next_event(first, receiver, work, open).await
            });
            Reply::Stream { headers: HeaderMap::new(), events: Box::pin(events) }
        }
        (asked, answer) = &mut work => {
            // What came with the answer comes before it.
            let mut early = Vec::new();
            while let Ok(waiting) = receiver.try_recv() {
                early.push(waiting);
            }
            if early.is_empty() {
                return done(&asked, answer);
            }
            let last = final_text(&asked, answer);
            let all = early.into_iter().map(|waiting| Text::Whole(waiting.text)).chain([last]);
            let all = all.map(|data| Outgoing { data, ..Outgoing::default() });
            Reply::Stream { headers: HeaderMap::new(), events: Box::pin(futures_util::stream::iter(all)) }
        }
    }
}

pub(super) type Running = (Option<Bytes>, mpsc::Receiver<Waiting>, Work, Open);

async fn next_event(
    first: Option<Bytes>,
    mut receiver: mpsc::Receiver<Waiting>,
    mut work: Work,
    open: Open,
) -> Option<(Outgoing, Option<Running>)> {
    let event = |data: Text| Outgoing { data, ..Outgoing::default() };
    if let Some(first) = first {
        return Some((event(first.into()), Some((None, receiver, work, open))));
    }
    tokio::select! {
        biased;
        Some(waiting) = receiver.recv() => Some((event(waiting.text.into()), Some((None, receiver, work, open)))),
        (asked, answer) = &mut work => {
            let last = final_text(&asked, answer);
            match receiver.try_recv() {
                // Rare: a message slipped in together with the answer; it goes first.
                Ok(waiting) => {
                    let work: Work = Box::pin(std::future::ready((asked, Ok(last))));
                    Some((event(waiting.text.into()), Some((None, receiver, work, open))))
                }
                Err(_) => Some((event(last), None)),
            }
        }
    }
}

fn final_text(asked: &Asked, answer: Result<Text, Problem>) -> Text {
    match answer {
        Ok(text) => text,
        Err(problem) => problem.text(Some(asked.request.id())).into(),
    }
}

/// A legacy call. It goes on when the client goes away, and can be cancelled by its id. It becomes a stream of the
/// session, one that can be resumed, when there is something to say before the answer.
async fn run_legacy(
    gateway: &Arc<Gateway>,
    mut asked: Box<Asked>,
    permitted: Permitted,
    session: Arc<Session>,
) -> Reply {
    let running = asked.running.take().unwrap_or_else(|| session.run(asked.request.id_bytes()));
    let server = Arc::clone(permitted.server());
    let outlet = Outlet::Log { session: Arc::clone(&session), log: OnceLock::new(), begun: Notify::new() };
    let conversation = talk(&asked, &permitted, outlet);
    let (shared, talk) = (Arc::clone(gateway), Arc::clone(&conversation));
    let work: Work = Box::pin(async move {
        let answer = tokio::select! {
            answer = complete(&shared, &asked, permitted, Some(talk)) => answer,
            () = running.token.cancelled() => Err(Problem::withdrawn()),
        };
        (asked, answer)
    });
    let mut work = Detached::new(work, server);
    tokio::select! {
        (asked, answer) = &mut work => match (conversation.stream(), answer) {
            (None, Err(problem)) if problem.is_withdrawn() => silence(),
            (None, answer) => done(&asked, answer),
            (Some(log), answer) => {
                conclude(&log, &asked, answer);
                stream_call(gateway, &session, &log)
            }
        },
        log = conversation.begun() => {
            let rest = Arc::clone(&log);
            let server = work.server();
            tokio::spawn(async move {
                tokio::select! {
                    (asked, answer) = work.take() => conclude(&rest, &asked, answer),
                    _promise = reclaim(&*server, Some(&rest)) => rest.finish(None, Text::default()),
                }
            });
            stream_call(gateway, &session, &log)
        }
    }
}

/// Ends a stream with the answer; a client that has cancelled gets none.
fn conclude(log: &Log, asked: &Asked, answer: Result<Text, Problem>) {
    let last = match answer {
        Err(problem) if problem.is_withdrawn() => None,
        answer => Some(final_text(asked, answer)),
    };
    log.finish(last, Problem::dropped().text(Some(asked.request.id())).into());
}

/// A request that a built-in server makes in its caller's name: decided and counted like the caller's own, without a
/// way back to the client.
pub(crate) fn nested(gateway: &Gateway, asked: Box<Asked>) -> BoxFuture<'_, Result<Text, Problem>> {
    Box::pin(async move {
        let (asked, permitted) = decide(gateway, asked).await;
        let permitted = permitted.inspect_err(|problem| audit_denial(gateway, &asked, problem))?;
        complete(gateway, &asked, permitted, None).await
    })
}

/// Calls the server and writes its answer for the client, and counts how that went.
async fn complete(
    gateway: &Gateway,
    asked: &Asked,
    permitted: Permitted,
    conversation: Option<Arc<Talk>>,
) -> Result<Text, Problem> {
    let mut counted = Counted::begin(gateway, asked, &permitted)?;
    let mut ending = gateway.ending.subscribe();
    let server = Arc::clone(permitted.server());
    let answer = tokio::select! {
        biased;
        answer = rounds(gateway, asked, permitted, conversation.clone(), &mut counted) => answer,
        _ = ending.wait_for(|ending| *ending) => Err(Problem::cut_off(server.slug())),
    };
    if let Some(conversation) = conversation {
        conversation.finish();
    }
    if let Err(problem) = &answer {
        counted.outcome = problem.outcome;
    }
    answer
}

/// The rounds of one call: for a legacy client, the gateway asks what a modern server wants to know.
async fn rounds(
    gateway: &Gateway,
    asked: &Asked,
    permitted: Permitted,
    conversation: Option<Arc<Talk>>,
    counted: &mut Counted<'_>,
) -> Result<Text, Problem> {
    let mut permitted = permitted;
    let mut rounds = 0;
    let eyes = Eyes { gateway, asked, forward: nested };
    loop {
        let server = Arc::clone(permitted.server());
        let call = Call {
            method: permitted.method(),
            target: permitted.target(),
            request: &asked.request,
            replaced: permitted.replaced(),
            caller: &asked.caller,
            sight: Some(&eyes),
            conversation: conversation.clone().map(|c| c as Arc<dyn Conversation>),
            trace: counted.trace(),
            timeout: None,
        };
        let answer = server.call(call).await.map_err(|failure| {
            let ms = counted.began.elapsed().as_millis();
            if failure.is_refusal() {
                // Told once for many by whoever refuses: a crowd that asks again at once must not fill the log.
                tracing::debug!(server = server.slug(), %failure, ms, "call refused");
            } else {
                tracing::info!(server = server.slug(), %failure, ms, "call failed");
            }
            Problem::failed(server.slug(), &failure)
        })?;
        interact::check(&permitted, &answer)?;
        match (answer.kind, asked.era(), &answer.outcome) {
            (_, _, jsonrpc::Outcome::Error(error)) => {
                return Err(Problem::relayed(asked, &permitted, *error, &answer.text));
            }
            (AnswerKind::InputRequired, Era::Legacy, _) => {
                rounds += 1;
                if rounds > asked.setup.config.limits.question_rounds {
                    let words = format!("server {} asked too many rounds of questions", server.slug());
                    return Err(Problem::new(code::INTERNAL, words));
                }
                permitted = interact::round(&permitted, &answer, conversation.as_deref()).await?;
            }
            (AnswerKind::Task, Era::Legacy, _) => {
                let words = format!("server {} answered with a task, which this client cannot follow", server.slug());
                return Err(Problem::new(code::INTERNAL, words));
            }
            _ => {
                let failed = answer.member("isError") == Some(b"true");
                counted.outcome = if failed { Outcome::ToolError } else { Outcome::Ok };
                return response::write(asked, &permitted, &answer, gateway.budget());
            }
        }
    }
}
