//! The request path: reads a request, authorizes it, calls its server and responds in the client's
//! era. Sessions are in `lockgate-sessions`. Opens no sockets or files.

mod activity;
mod approvals;
mod approve;
mod approvers;
mod canonical;
mod config;
mod decisions;
mod discovery;
mod embeddings;
mod flagged_tools;
mod follow;
mod inspect;
mod lifecycle;
mod listen;
mod modern_clients;
mod own_view;
mod parked;
mod response;
mod skills;
mod tokens;
mod usage;
mod visible;

// The parts that the client edge for sessions uses.
pub mod answers;
pub mod authorize;
pub mod caller_view;
pub mod catalog;
pub mod client_channel;
pub mod context;
pub mod directory;
pub mod dispatch;
pub mod gateway;
pub mod modern;
pub mod own_lists;
pub mod peers;
pub mod quota;
pub mod receive;
pub mod relay;
pub mod rescue;
pub mod rights;
pub mod search;
pub mod send_on;
pub mod server_operation;
pub mod snapshot;
pub mod transport;

pub use crate::approvals::waiting::ApproverError;
pub use crate::approvals::{Announcement, WaitingApproval};
pub use activity::{ActivityPosition, EndedCall, NamedTool, ToolChange};
pub use catalog::layers::{AgentOwner, AgentServers};
pub use config::{
    Compose, Config, Discovery, EmbeddingServer, Group, ItemMistake, Items, Limits, Names,
    Registry, Replicas, ToolSearch, ToolsMode, is_name,
};
pub use decisions::{DecisionQuestion, TargetState, TooManyJudgements};
pub use discovery::RegistryQuery;
pub use embeddings::{Embedder, EmbeddingError};
pub use flagged_tools::{FlaggedTool, PinChange};
pub use gateway::{Gateway, SessionEdge};
pub use lifecycle::Prepared;
pub use lockgate_search::{Vector, normalize};
pub use peers::{PeerAnswer, PeerError, PeerMessage, Peers};
pub use quota::{Exhausted, OpenStream};
pub use rescue::classify_failure;
pub use snapshot::{Rules, RulesError, SignedAssertion};
pub use usage::{CALL, UsageCount};
pub use visible::{FailingCalls, VisibleItem};
