//! Tests of `limiter`.
