//! The console under `/console`: pages for people who run the gateway, administer an organisation
//! or use it. Every page has a permission in one table (`routes`). What pages show and change goes
//! through the routes of the API, in process and in the visitor's name: there is no second way in.

mod api_client;
mod assets;
mod call_outcome;
mod comparison;
mod diagnosis;
mod error;
mod fields;
mod form_guard;
mod layout;
mod page_account;
mod page_table;
mod pages;
mod plot;
mod routes;
mod sent_forms;
mod sessions;
mod shown;
mod sign_in;
mod tool_form;
mod visitor;

pub(crate) use routes::console_router;
pub use routes::is_public;
pub use sessions::{NoRandomness, Sessions};
pub use sign_in::{IsSecure, SignIn, is_sign_in, read_sign_in, show_refusal, sign_in_redirect};
pub use visitor::Visitor;
