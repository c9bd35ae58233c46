//! The imports of every operation: its caller, its input and output, and its errors.

pub(crate) use std::sync::Arc;

pub(crate) use axum::Json;
pub(crate) use axum::extract::Path;
pub(crate) use axum::http::StatusCode;
pub(crate) use lockgate_authn::Role;
pub(crate) use serde::{Deserialize, Serialize};
pub(crate) use serde_json::{Value, json};

pub(crate) use super::access::{Admin, By, Caller, Context, Operator, User};
pub(crate) use super::answer::broken;
pub(crate) use super::body::Body;
pub(crate) use super::change::{ChangeRecord, Deletion, Reply, apply};
pub(crate) use super::page::{Page, PageQuery, Paged, Query, SortOrder, number};
pub(crate) use super::payloads::{members, types};
pub(crate) use super::problem::{Problem, Result};
pub(crate) use super::state::ApiState;
