//! The request path: who calls, may they, which server, and the answer in the client's era. No
//! sockets, no files.

mod answers;
mod authorize;
mod batch;
mod caller_view;
mod catalog;
mod client_channel;
mod config;
mod context;
mod directory;
mod dispatch;
mod follow;
mod gateway;
mod headers;
mod inspect;
mod interact;
mod legacy;
mod lifecycle;
mod list;
mod listen;
mod log_message;
mod modern;
mod notify;
mod observe;
mod quota;
mod receive;
mod rejections;
mod relay;
mod rescue;
mod response;
mod rights;
mod session;
mod session_stream;
mod single_principal;
mod snapshot;
mod streams;
mod suspects;
mod tokens;
mod trace_context;
pub mod transport;

pub use config::{Config, Limits, Names};
pub use gateway::Gateway;
pub use lifecycle::Prepared;
pub use snapshot::{Rules, RulesError};
pub use streams::OpenStream;
pub use suspects::Suspect;
