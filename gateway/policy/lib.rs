//! placeholder

mod config;

pub use config::*;
