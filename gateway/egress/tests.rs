//! Support of this crate's tests.

pub(crate) mod scripted;
