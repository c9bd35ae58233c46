//! Black-box tests: each test starts `lockgate` as a child process and connects to it as a client,
//! with scripted upstreams or the fixture server. No code of the gateway is linked.
//!
//! Both programs are built by `cargo test --workspace` or `cargo build --workspace`.

#![cfg(test)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    clippy::needless_pass_by_value
)]

mod half_closed;
mod rig;

mod account_events;
mod account_prompts;
mod account_subscriptions;
mod accounts;
mod addresses;
mod administration;
mod administrators;
mod agent_items;
mod alike;
mod any_replica;
mod api;
mod approvals;
mod approvers;
mod audit;
mod bodies;
mod builtin;
mod canaries;
mod catalogue;
mod churn;
mod commands;
mod compatibility;
mod compose;
mod conditions;
mod connections;
mod console;
mod console_forms;
mod content;
mod envelope;
mod errors;
mod events;
mod exchanged_accounts;
mod extensions;
mod fairness;
mod fleet;
mod forwarding;
mod garbage;
mod guards;
mod hidden;
mod holders;
mod identity;
mod immediate;
mod in_place;
mod integrations;
mod interactive;
mod journey;
mod large;
mod legacy;
mod limits;
mod lists;
mod liveness;
mod log_export;
mod member_accounts;
mod memory;
mod metrics;
mod missing;
mod mixed_callers;
mod network;
mod oauth;
mod operations;
mod organisations;
mod outbound;
mod own_lists;
mod parked;
mod policy;
mod principals;
mod probing;
mod questions;
mod reload;
mod remote;
mod replica_states;
mod replicas;
mod restart;
mod resting;
mod rounds;
mod sdk;
mod setup;
mod shell;
mod shutdown;
mod sign_in;
mod skills;
mod stdio;
mod store;
mod stored_accounts;
mod storms;
mod streams;
mod strict;
mod subscriptions;
mod tasks;
mod tls;
mod tool_search;
mod traces;
mod trpc;
mod trust;
mod usage;
mod valid;
mod validation;
mod visible;
mod webhook;
