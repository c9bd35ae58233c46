//! The map of the program. A request goes down this list: `listener` (bytes) → `proxy` (the steps)
//! → `upstream` or `tools` (servers). `cli` reads the command line, `commands` runs commands,
//! `serve` runs the gateway that `app` assembles, `reload` and `shutdown` change and end it. The
//! layers are separate crates, beside this file.

mod app;
mod builtin;
pub mod cli;
mod commands;
mod embeddings;
mod forward;
mod keys_file;
mod operations;
mod peers;
mod pins_file;
mod probe;
mod reload;
mod secret_check;
mod serve;
mod server_clients;
mod shutdown;
mod signed_post;
mod tenants;
mod trail;
mod user_clients;
mod webhook;
