//! Tests of the whole request path in this process, with servers that only answer.

#![allow(clippy::unwrap_used)]

mod crossing;
mod organisations;
mod rig;
