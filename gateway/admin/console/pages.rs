//! The pages of the console: each combines requests to the API with a template.

pub(crate) mod access;
pub(crate) mod agent_items;
pub(crate) mod agents;
pub(crate) mod approvals;
pub(crate) mod audit;
pub(crate) mod catalogue_entry;
pub(crate) mod connections;
pub(crate) mod integration;
pub(crate) mod integrations;
pub(crate) mod keys;
pub(crate) mod live;
pub(crate) mod organisations;
pub(crate) mod overview;
pub(crate) mod parts;
pub(crate) mod pins;
pub(crate) mod servers;
pub(crate) mod sessions;
pub(crate) mod settings;
pub(crate) mod tool;
pub(crate) mod tools;
pub(crate) mod usage;
