//! The policy engine: decides which tools, prompts and resources a caller may see and use, with
//! which arguments and at which rate. Lists and calls get the same decision. The crate reads no
//! files, knows no wire format, and denies everything it cannot decide.

mod approval;
mod arguments;
pub mod cases;
mod class;
pub mod command;
mod compile;
mod condition;
mod config;
mod evaluate;
mod explain;
pub mod file;
mod index;
mod limiter;
mod names;
pub mod path;
mod pattern;
pub mod pin;
mod policy;
mod rate;
mod refusal;
pub mod response;
mod rule;
mod schema;
pub mod sql;
mod target;
pub mod url;
mod verdict;
mod words;

pub use approval::ApprovalRule;
pub use class::Class;
pub use compile::{MAX_POLICIES, PolicyError};
pub use config::{Allow, Config, Document, Lists, PolicyEntry, differences};
pub use evaluate::ALWAYS_QUICK;
pub use explain::{Explanation, Overlap, Step};
pub use file::WhenAway;
pub use limiter::{Allowance, HeldPermit, LimitKey, Limiter, Local, Quota, Reached};
pub use names::CATEGORIES;
pub use pattern::Patterns;
pub use policy::{DenyReason, Passed, Policy, PolicyDenial, Question};
pub use rate::Limited;
pub use refusal::Refusal;
use refusal::no;
pub use rule::DEFAULT;
pub use schema::InputSchema;
pub use target::{ANONYMOUS, Annotations, Certificate, Subject, Target, TargetKind};
pub use verdict::Verdict;

#[cfg(test)]
mod tests;
