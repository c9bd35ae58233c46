//! The request path: reads a request, authorizes it, calls its server and responds in the client's
//! era. Opens no sockets or files.

mod activity;
mod agent_servers;
mod answers;
mod approvals;
mod approve;
mod approvers;
mod authorize;
mod caller_view;
mod canonical;
mod catalog;
mod client_channel;
mod config;
mod context;
mod decisions;
mod directory;
mod discovery;
mod dispatch;
mod embeddings;
mod flagged_tools;
mod follow;
mod gateway;
mod group_call;
mod inspect;
mod interact;
mod items;
mod legacy;
mod lifecycle;
mod listen;
mod modern;
mod modern_clients;
mod notify;
mod own_lists;
mod own_view;
mod pace;
mod parked;
mod peers;
mod quota;
mod random;
mod receive;
mod rejections;
mod relay;
mod rescue;
mod response;
mod rights;
mod search;
mod send_on;
mod server_operation;
mod session;
mod session_stream;
mod skills;
mod snapshot;
mod streams;
mod tokens;
pub mod transport;
mod unix_time;
mod usage;
mod visible;

#[cfg(test)]
mod tests;

pub use crate::approvals::{Announcement, WaitingApproval};
pub use activity::{ActivityPosition, EndedCall, NamedTool, ToolChange};
pub use agent_servers::{AgentOwner, AgentServers};
pub use approvers::ApproverError;
pub use config::{
    Config, Discovery, EmbeddingServer, Group, Limits, Names, Registry, Replicas, ToolSearch,
    ToolsMode,
};
pub use decisions::{DecisionQuestion, TargetState, TooManyJudgements};
pub use discovery::RegistryQuery;
pub use embeddings::{Embedder, EmbeddingError};
pub use flagged_tools::{FlaggedTool, PinChange};
pub use gateway::Gateway;
pub use items::{Compose, ItemMistake, Items, is_name};
pub use lifecycle::Prepared;
pub use lockgate_search::{Vector, normalize};
pub use peers::{PeerAnswer, PeerError, PeerMessage, Peers};
pub use rescue::classify_failure;
pub use snapshot::{GatewayAssertion, Rules, RulesError};
pub use streams::{OpenStream, TooManyStreams};
pub use usage::{CALL, UsageCount};
pub use visible::{FailingCalls, VisibleItem};
