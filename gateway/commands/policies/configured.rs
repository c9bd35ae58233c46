//! The policies for a command: those of the configuration, or of the named files.

use std::process::ExitCode;

use anyhow::anyhow;
use lockgate_config::{Loaded, Problem};
use lockgate_policy::{Config, Policy, TargetKind};
use lockgate_protocol::uri::{self, Form, UriError};

use super::lint_context::LintContext;

/// Policies, with the warnings and the context of their configuration.
pub(crate) struct Configured {
    pub(super) config: Config,
    pub(super) warnings: Vec<Problem>,
    /// The rest of the configuration; empty if policy files are named instead.
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

/// A command's output and exit code.
pub(super) type Printed = anyhow::Result<(String, ExitCode)>;

/// Returns why the gateway rejects a URI before it consults policies. A template is accepted as if
/// its server listed it.
pub(super) fn misspelt(kind: TargetKind, own: &str) -> Option<String> {
    if !matches!(kind, TargetKind::Resource | TargetKind::ResourceCompletion) || own.contains('{') {
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
