//! Tests of the real program: every test starts `lockgate` as a child process and speaks to it as
//! clients do, with upstreams that are scripted here or are the fixture server. Nothing here links
//! the gateway.
//!
//! `cargo test --workspace` (or `cargo build --workspace`) builds the two programs that are
//! started.

#![cfg(test)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    clippy::needless_pass_by_value
)]

mod rig;

mod alike;
mod api;
mod approvals;
mod approvers;
mod audit;
mod bodies;
mod builtin;
mod churn;
mod compatibility;
mod connections;
mod content;
mod envelope;
mod errors;
mod extensions;
mod fairness;
mod garbage;
mod guards;
mod half_closed;
mod hidden;
mod interactive;
mod large;
mod legacy;
mod limits;
mod lists;
mod liveness;
mod memory;
mod missing;
mod oauth;
mod outbound;
mod parked;
mod policy;
mod principals;
mod probing;
mod questions;
mod reload;
mod remote;
mod restart;
mod rounds;
mod sdk;
mod shell;
mod shutdown;
mod stdio;
mod store;
mod storms;
mod streams;
mod strict;
mod subscriptions;
mod tasks;
mod tls;
mod trust;
mod valid;
mod visible;
mod webhook;
