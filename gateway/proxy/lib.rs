//! The request path: who calls, may they, which server, and the answer in the client's era. No sockets, no files.

mod answers;
mod authorize;
mod catalog;
mod config;
mod dispatch;
pub mod face;
mod gateway;
mod hub;
mod inspect;
mod interact;
mod legacy;
mod list;
mod listen;
mod modern;
mod observe;
mod refused;
mod rescue;
mod response;
mod session;
mod shares;
mod sight;
mod sole;
mod stage;
mod state;
mod streams;
mod talk;
mod told;
mod trace;

pub use config::{Config, Limits, Names};
pub use gateway::{Gateway, Prepared, Rules, Unusable};
pub use inspect::Suspect;
pub use streams::Open;
