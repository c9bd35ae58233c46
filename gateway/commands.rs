//! What the command line does besides serving: it asks a gateway, looks at configuration, policies,
//! keys and pins, checks audit trails, and keeps the store. Nothing here runs while a gateway
//! serves.

pub(crate) mod approvals;
pub(crate) mod ask;
pub(crate) mod config;
pub(crate) mod gateway_client;
pub(crate) mod init;
pub(crate) mod keys;
pub(crate) mod pins;
pub(crate) mod policies;
pub(crate) mod registry;
pub(crate) mod remote;
pub(crate) mod show;
pub(crate) mod store;
pub(crate) mod verify;
