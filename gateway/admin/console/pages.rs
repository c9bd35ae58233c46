//! The pages of the console: each combines operations of the API with a template. This module holds
//! their common imports.

pub(crate) mod access;
pub(crate) mod agents;
pub(crate) mod approvals;
pub(crate) mod audit;
pub(crate) mod integrations;
pub(crate) mod keys;
pub(crate) mod overview;
pub(crate) mod pins;
pub(crate) mod servers;
pub(crate) mod settings;
pub(crate) mod tool;
pub(crate) mod usage;

use askama::Template;
use axum::Json;
use axum::extract::Path;
use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::api::access::{Admin, By, User};
use crate::api::agents::{Agent, list_agents};
use crate::api::body::{Body, body};
use crate::api::integrations::Integration;
use crate::api::page::{Page, query};
use crate::api::problem::Problem;
use crate::api::usage::Usage;
use crate::console::diagnosis::Severity;
use crate::console::form::{Fields, FormError, Labels};
use crate::console::plot::{Plot, plot_calls};
use crate::console::redirect::{ListPart, PagePath, redirect};
use crate::console::render::{
    PageError, PageResult, count, plain_text, render, show_json, show_text, text_of,
};
use crate::console::results::Kept;
use crate::console::snippets::{Snippet, find_address};
use crate::console::visit::Visit;
use crate::fault::{Fault, sentence};

/// For links to lists by value of a filter without the number of their items.
pub(crate) const NO_COUNTS: [usize; 0] = [];
