//! The servers that the gateway calls: the [`Upstream`] trait and the MCP client for real servers,
//! in either era, over stdio, Streamable HTTP and HTTP+SSE. Makes no authorization decisions.

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests make their own files and sockets")
)]

mod breaker;
mod call;
mod catalog;
mod client;
mod config;
mod connection;
mod duplex;
mod echoed;
mod event_stream;
mod failure;
mod handshake;
mod health;
mod http;
mod incoming;
mod interactive_catalog;
mod interactive_state;
mod lists;
mod open;
mod organisations;
mod outstanding;
mod own_lists;
mod process;
mod receiver;
mod refresh;
mod rest;
mod session_connections;
mod shared;
mod sse;
mod status;
mod supervise;
mod topics;

pub use crate::client::Instance;
pub use call::{
    Answer, AnswerKind, Authorization, BackChannel, Call, Caller, CallerIdentity, CallerToken,
    CallerView, ClientChannel, ClientSession, IDENTITY_HEADER, IdentityAssertion, LogLevel,
    QuestionError, ResponseSink, ServerId, SinkError, Subscription, VisibleItem,
};
pub use catalog::{Catalog, CatalogMemory, Item, ListKind, ListMemory};
pub use client::Client;
pub use config::{
    Breaker, CLIENT_CONNECTIONS, CLIENT_PROCESSES, Config, EraChoice, Health, Limits, Sessions,
    Transport,
};
pub use failure::{ConnectPrompt, UpstreamError, UpstreamErrorKind};
pub use futures_util::future::BoxFuture;
pub use http::{HTTP_STATUS, header_map};
pub use organisations::{OrganisationPart, Organisations};
pub use own_lists::OwnLists;
pub use process::{Group, guard, outlive_signals};
pub use receiver::SingleClient;
pub use shared::{ServerSetupError, Surroundings};
pub use status::{
    BreakerState, ListFailure, Peer, Stage, StageError, Stats, Status, UNREADABLE_LISTS,
    UpstreamState,
};
pub use topics::Topic;

use std::sync::Arc;

use lockgate_admission::ConcurrencyLimit;
use lockgate_protocol::revision::Era;

/// A server behind a namespace: an upstream or a built-in tool server.
pub trait Upstream: Send + Sync + 'static {
    /// Returns the server's name, unique among the servers visible to an organisation.
    fn slug(&self) -> &str;

    /// Returns the owning organisation; `None` for the operator's servers, shared by all.
    fn organisation(&self) -> Option<&Arc<str>> {
        None
    }

    /// Returns a process-wide unique id: the name may be reused, the id is not. No I/O.
    fn instance(&self) -> Instance;

    /// Returns the current status. No I/O.
    fn status(&self) -> Arc<Status>;

    /// Returns the lists as of the last time they were read. No I/O.
    fn catalog(&self) -> Arc<Catalog>;

    /// Returns the limits for calls and their current use; `None` for built-in servers. No I/O.
    fn stats(&self) -> Option<Stats> {
        None
    }

    /// Returns the last lines of the process's standard error; empty without a process. No I/O.
    fn stderr(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns the limit on concurrent calls. No I/O.
    fn calls(&self) -> &Arc<ConcurrencyLimit>;

    /// Reports whether arguments are validated against the tools' schemas before a call. No I/O.
    fn validates_arguments(&self) -> bool {
        false
    }

    /// Reports whether large answers may be streamed to [`Call::sink`]. No I/O.
    fn streams_answers(&self) -> bool {
        false
    }

    /// Returns the client behind the server, whose calls need no box.
    fn as_client(&self) -> Option<&Client> {
        None
    }

    /// Returns the client of the caller's account, at a server with accounts of users; `None` if it
    /// is not open, in which case [`Self::call`] opens it. No I/O.
    fn client_of(&self, _caller: CallerIdentity<'_>) -> Option<Arc<Client>> {
        None
    }

    /// Sends the call. Dropping the future cancels the call at the server.
    fn call<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, Result<Answer, UpstreamError>>;

    /// Waits until the caller has an account at the server that meets its known requirements.
    fn wait_for_account<'a>(&'a self, _caller: &'a dyn CallerView) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Subscribes to updates of a resource, on the connection that the caller's calls use (servers
    /// keep subscriptions per session), or of a caller's task. On the shared connection
    /// subscriptions are counted, so that the server receives one request.
    fn subscribe<'a>(
        &'a self,
        topic: &'a Topic,
        caller: &'a Caller,
        identity: CallerIdentity<'a>,
    ) -> BoxFuture<'a, Result<Subscription, UpstreamError>>;

    /// Cancels a subscription made by [`Self::subscribe`].
    fn unsubscribe<'a>(&'a self, topic: &'a Topic, given: Subscription) -> BoxFuture<'a, ()>;

    /// Reads the part of the catalog that is offered only to interactive clients of this era,
    /// unless it has been read. Returns when it is available, or cannot be read now.
    fn wait_for_interactive(&self, _era: Era) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Returns how the server sends questions to modern clients. No I/O.
    fn back_channel(&self) -> BackChannel {
        BackChannel::None
    }

    /// Records a use of the lists, which may start a check whether they are current. Never waits.
    fn touch(&self);

    /// Requests a connection attempt if the server is down, unless it was just tried. Never waits.
    fn revive(&self) {}

    /// Notifies the server, on the session's own connection if any, that the roots of a legacy
    /// client have changed. Never waits.
    fn tell_roots_changed(&self, _session: u64) {}

    /// Returns how the lists on a session's own connection differ from the catalog; empty lists
    /// while a change is being read. No I/O.
    fn own_lists(&self, _session: u64) -> Option<Arc<OwnLists>> {
        None
    }

    /// Waits until all changes of these lists announced so far have been read.
    fn wait_for_own_lists(&self, _session: u64) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Reports whether callers have lists of their own, which others do not see. No I/O.
    fn has_private_lists(&self) -> bool {
        false
    }

    /// Returns how the caller's lists differ from the catalog; `None` if they have not been read.
    /// No I/O.
    fn private_lists(&self, _caller: CallerIdentity<'_>) -> Option<Arc<OwnLists>> {
        None
    }

    /// Waits until the caller's lists have been read, if the caller has any.
    fn wait_for_private_lists<'a>(&'a self, _caller: CallerIdentity<'a>) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Releases the resources kept for a legacy client session that has ended.
    fn forget_session(&self, session: u64);

    /// Closes all streams, sessions and processes, and waits until they have ended.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// An event that a server raises outside of a call.
#[derive(Clone, Debug)]
pub enum Event {
    /// The status or the catalog has changed.
    Changed { server: ServerId },
    /// The server announced a change of lists, but their content is the same.
    Announced(Announcement),
    /// A subscribed resource has changed.
    Updated(ResourceUpdate),
    /// A subscribed task (own id) was updated.
    Task { server: ServerId, id: Arc<str> },
    /// A log message (`notifications/message`) outside of any call, on a shared connection.
    Logged { server: ServerId, note: Arc<lockgate_protocol::jsonrpc::Request> },
}

/// A change of a resource, as reported on a connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ResourceUpdate {
    pub server: ServerId,
    /// The server's own URI.
    pub uri: Arc<str>,
    pub on: Subscription,
}

/// Lists that a server reported as changed.
#[derive(Clone, Debug)]
pub struct Announcement {
    pub server: ServerId,
    /// The session that received the announcement; `None` for all.
    pub session: Option<u64>,
    pub lists: Vec<ListKind>,
}

/// The channel for server events: bounded; drops the oldest events if receivers are too slow.
pub type Events = tokio::sync::broadcast::Sender<Event>;
