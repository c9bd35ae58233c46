//! The map of the program. A request goes down this list: `listener` (bytes) → `proxy` (the steps) → `upstream` or
//! `tools` (servers). `cli` reads the command line, `ask` and `remote` answer its questions, `app` puts the layers
//! together, `reload` and `shutdown` end what they began. The layers are crates of their own, beside this file.

mod app;
mod ask;
mod builtin;
pub mod cli;
mod keys;
mod pins;
mod policies;
mod reload;
mod remote;
mod show;
mod shutdown;
mod trail;
mod verify;
