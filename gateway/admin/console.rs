//! The console under `/console`: pages for operators, administrators and users. One table
//! (`routes`) lists each page with its permission. Pages call the operations of the API, as the
//! visitor.

mod assets;
mod comparison;
mod diagnosis;
pub(crate) mod form;
mod pages;
mod plot;
mod provider_sign_in;
pub(crate) mod redirect;
mod render;
mod results;
mod routes;
pub(crate) mod sessions;
mod sign_in;
mod snippets;
mod tool_form;
mod visit;

pub use provider_sign_in::{Arrival, ProviderStep, follow_provider, is_provider_step};
pub(crate) use routes::console_router;
pub use routes::is_public;
pub use sessions::{Sessions, Visitor};
pub use sign_in::{
    Attempts, IsSecure, Offer, SignIn, is_sign_in, is_sign_out, read_sign_in, show_refusal,
    sign_in_redirect,
};
