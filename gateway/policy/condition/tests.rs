//! Tests of `condition`.
