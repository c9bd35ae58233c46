//! The policies that a command looks at: those of the configuration, or of files that were named.

use std::process::ExitCode;

use anyhow::anyhow;
use lockgate_config::{Loaded, Problem};
use lockgate_policy::{Config, Kind, Policy};
use lockgate_protocol::uri::{self, Form, UriError};

use super::lint_context::LintContext;

/// Policies, and what there is to be said of the configuration that they belong to.
pub(crate) struct Configured {
    pub(super) config: Config,
    pub(super) warnings: Vec<Problem>,
    /// The rest of the configuration; nothing where files of policies are named instead.
    pub(super) context: LintContext,
}

impl From<Loaded> for Configured {
    fn from(Loaded { config, warnings, .. }: Loaded) -> Self {
        Self {
            config: config.policy.clone(),
            warnings,
            context: LintContext::new(Some(Box::new(config))),
        }
    }
}

/// What a command prints, and how it ends.
pub(super) type Printed = anyhow::Result<(String, ExitCode)>;

/// Why nothing is asked about a URI, whatever policies say of it. A template is taken for one that
/// its server lists.
pub(super) fn misspelt(kind: Kind, own: &str) -> Option<String> {
    if !matches!(kind, Kind::Resource | Kind::ResourceCompletion) || own.contains('{') {
        return None;
    }
    let checked = match uri::form(own) {
        Form::Canonical | Form::Expanded => uri::validate(own, uri::MAX_URI),
        Form::Other => uri::validate(own, uri::MAX_URI).and(Err(UriError::Spelling)),
    };
    checked.err().map(|bad| bad.to_string())
}

pub(super) fn compile(config: &Config) -> anyhow::Result<Policy> {
    Policy::compile(config).map_err(|mistakes| anyhow!("{mistakes:?}"))
}
