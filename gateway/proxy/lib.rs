//! The request path: who calls, may they, which server, and the answer in the client's era. No
//! sockets, no files.

mod answers;
mod approvals;
mod approve;
mod approvers;
mod authorize;
mod batch;
mod caller_view;
mod canonical;
mod catalog;
mod client_channel;
mod config;
mod context;
mod decisions;
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
mod modern_clients;
mod notify;
mod observe;
mod parked;
mod quota;
mod readable;
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
mod task_status;
mod tokens;
mod trace_context;
pub mod transport;
mod unix_time;
mod visible;

#[cfg(test)]
mod tests;

pub use approvals::announced::{Announcement, WaitingApproval};
pub use approvers::ApproverError;
pub use config::{Config, Limits, Names};
pub use decisions::{DecisionQuestion, TooManyJudgements};
pub use directory::{AgentOwner, AgentServers};
pub use gateway::Gateway;
pub use lifecycle::Prepared;
pub use rescue::classify_failure;
pub use snapshot::{Rules, RulesError};
pub use streams::OpenStream;
pub use suspects::{PinChange, Suspect};
pub use visible::VisibleTool;
