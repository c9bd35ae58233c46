//! Servers that the gateway calls: the trait they are all behind, and the MCP client that speaks to
//! real ones in either era over stdio, Streamable HTTP and HTTP+SSE. It decides nothing about who
//! may call what.

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests make their own files and sockets")
)]

mod announced;
mod breaker;
mod call;
mod caller_view;
mod catalog;
mod client;
mod config;
mod connection;
mod duplex;
mod echoed;
mod failure;
mod future;
mod handshake;
mod health;
mod http;
mod inbox;
mod incoming;
mod instance;
mod interactive_catalog;
mod interactive_state;
mod known_lists;
mod last_heard;
mod list_memory;
mod lists;
mod open;
mod open_questions;
mod organisations;
mod outstanding;
mod own_lists;
mod own_reading;
mod process;
mod publish;
mod receiver;
mod recovery;
mod refresh;
mod reread;
mod rest;
mod screen;
mod server_id;
mod session_connections;
mod settings;
mod shared;
mod sole;
mod sse;
mod status;
mod supervise;
mod topics;
mod voucher;

pub use call::{
    Answer, AnswerKind, BackChannel, Call, Caller, ClientChannel, ClientSession, LogLevel,
    QuestionError, ResponseSink, SinkError, Subscription,
};
pub use caller_view::{CallerView, VisibleItem};
pub use catalog::{Catalog, Item, Kind as ListKind};
pub use client::Client;
pub use config::{
    Breaker, CLIENT_CONNECTIONS, CLIENT_PROCESSES, Config, EraChoice, Health, Limits, Sessions,
    Transport,
};
pub use failure::{Kind as UpstreamErrorKind, UpstreamError};
pub use future::BoxFuture;
pub use http::HTTP_STATUS;
pub use instance::Instance;
pub use known_lists::CatalogMemory;
pub use list_memory::ListMemory;
pub use organisations::{OrganisationPart, Organisations};
pub use own_lists::OwnLists;
pub use process::{Group, guard, outlive_signals};
pub use server_id::ServerId;
pub use shared::Surroundings;
pub use sole::SoleClient;
pub use status::{BreakerState, Peer, Stage, StageError, State, Stats, Status};
pub use voucher::{IDENTITY_HEADER, Voucher};

use std::sync::Arc;

use lockgate_admission::ConcurrencyLimit;
use lockgate_protocol::revision::Era;

/// A server behind one namespace: an upstream or a built-in tool server.
pub trait Upstream: Send + Sync + 'static {
    /// Its name among the servers that an organisation sees.
    fn slug(&self) -> &str;

    /// The organisation that it belongs to; none for the operator's, which all share.
    fn organisation(&self) -> Option<&Arc<str>> {
        None
    }

    /// Which one it is, of all that have had or will have its name. No I/O.
    fn instance(&self) -> Instance;

    /// How it is now. No I/O.
    fn status(&self) -> Arc<Status>;

    /// What it offers, as of the last time it was asked. No I/O.
    fn catalog(&self) -> Arc<Catalog>;

    /// What it may be asked at once and for how long, and how it stands with that; none for servers
    /// of our own. No I/O.
    fn stats(&self) -> Option<Stats> {
        None
    }

    /// The last lines that its process wrote to its standard error; none where it has none. No I/O.
    fn stderr(&self) -> Vec<String> {
        Vec::new()
    }

    /// The places of its calls. No I/O.
    fn calls(&self) -> &Arc<ConcurrencyLimit>;

    /// Returns whether arguments are to be held against its tools' schemas before it is called. No
    /// I/O.
    fn validates_arguments(&self) -> bool {
        false
    }

    /// Whether large answers may go to [`Call::sink`]. No I/O.
    fn streams_answers(&self) -> bool {
        false
    }

    /// Calls it. Dropping the future cancels the call in the server's way.
    fn call<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, Result<Answer, UpstreamError>>;

    /// Asks to be told when a resource of its own changes: on the connection that the caller's
    /// calls take, because servers keep subscriptions for each session. On one that all share it is
    /// counted, so that the server is asked once.
    fn subscribe<'a>(
        &'a self,
        uri: &'a str,
        caller: &'a Caller,
    ) -> BoxFuture<'a, Result<Subscription, UpstreamError>>;

    /// Takes one subscription back that [`Self::subscribe`] gave.
    fn unsubscribe<'a>(&'a self, uri: &'a str, given: Subscription) -> BoxFuture<'a, ()>;

    /// Asks to be told when one of its own tasks has news (tasks extension); counted, as
    /// [`Self::subscribe`].
    fn watch_task<'a>(&'a self, _id: &'a str) -> BoxFuture<'a, Result<(), UpstreamError>> {
        Box::pin(std::future::ready(Err(UpstreamError::new(
            UpstreamErrorKind::Garbage,
            "the server has no tasks",
        ))))
    }

    /// Takes one of those back.
    fn unwatch_task<'a>(&'a self, _id: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Finds out, unless it is known, what is only offered to clients of this era that can be asked
    /// things: the part of the catalog that is `asking`. Returns when it is known, or cannot be
    /// known now.
    fn wait_for_interactive(&self, _era: Era) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// How it asks things of modern clients. No I/O.
    fn back_channel(&self) -> BackChannel {
        BackChannel::None
    }

    /// Somebody used its lists: it may look whether they are out of date. Never waits.
    fn touch(&self);

    /// Somebody wants to call it: one that is down is tried, unless that has just been done. Never
    /// waits.
    fn revive(&self) {}

    /// The roots of a legacy client have changed: told on the connection of its session, if it has
    /// one. Never waits.
    fn tell_roots_changed(&self, _session: u64) {}

    /// Returns the lists of a client's own connection, by the key of its session, as far as they
    /// differ from the catalog; empty ones while a change is read. No I/O.
    fn own_lists(&self, _session: u64) -> Option<Arc<OwnLists>> {
        None
    }

    /// Waits until the changes of such lists that were announced so far have been read.
    fn wait_for_own_lists(&self, _session: u64) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// A legacy client session has ended; what was kept for it can go.
    fn forget_session(&self, session: u64);

    /// Ends it: streams, sessions, processes. Returns when all of it is gone.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// What a server tells the gateway on its own.
#[derive(Clone, Debug)]
pub enum Event {
    /// Its status or its catalog is another one now.
    Changed { server: ServerId },
    /// It said that lists have changed which read as before.
    Announced(Announcement),
    /// A resource (own URI) that was subscribed to has changed, as the server said on the
    /// connection of one session, or on the one that all clients share.
    Updated { server: ServerId, uri: String, session: Option<u64> },
    /// A task (own id) that was asked about has news.
    Task { server: ServerId, id: String },
    /// It logged something (`notifications/message`) outside of any call, on a connection that all
    /// clients share.
    Logged { server: ServerId, note: Arc<lockgate_protocol::jsonrpc::Request> },
}

/// Lists that a server said have changed.
#[derive(Clone, Debug)]
pub struct Announcement {
    pub server: ServerId,
    /// The session that it was said to; everybody without one.
    pub session: Option<u64>,
    pub lists: Vec<ListKind>,
}

/// Where servers send their events: a bounded channel that drops the oldest when nobody reads.
pub type Events = tokio::sync::broadcast::Sender<Event>;
