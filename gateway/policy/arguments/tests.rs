//! Tests of `arguments`.
