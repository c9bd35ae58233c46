//! The commands other than serving: requests to a gateway, configuration, policies, keys, pins,
//! audit trails and the store. None of this code runs in a serving gateway.

use std::process::ExitCode;

pub(crate) mod ask;
pub(crate) mod config;
pub(crate) mod init;
pub(crate) mod keys;
pub(crate) mod pins;
pub(crate) mod policies;
pub(crate) mod registry;
pub(crate) mod remote;
pub(crate) mod show;
pub(crate) mod store;
pub(crate) mod verify;

/// The output and the exit code of a command.
pub(crate) type Printed = anyhow::Result<(String, ExitCode)>;
