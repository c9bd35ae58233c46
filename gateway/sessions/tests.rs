//! In-process tests of the whole request path, with servers that only return fixed results.

#![allow(clippy::unwrap_used)]

mod crossing;
mod organisations;
mod rig;
