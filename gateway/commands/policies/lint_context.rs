//! The gateway's knowledge of an item named in a case or a question: its server, its name at
//! `/mcp`, its category and its annotations. Taken from the configuration and the lock file; no
//! external server is contacted.

use std::cell::RefCell;
use std::collections::BTreeMap;

use anyhow::anyhow;
use lockgate_authn::key::{Key, is_id};
use lockgate_config::{Config, Loaded, Problem};
use lockgate_policy::cases::{Asked, Caller};
use lockgate_policy::pin::{Reaction, Standing};
use lockgate_policy::{Annotations, CATEGORIES, Policy, TargetKind};
use lockgate_protocol::name::{Naming, Slug};
use lockgate_protocol::uri::{self, Form, UriError};

use crate::builtin::{self, Tools};

/// The context of policy checks; without a configuration, names are built with the defaults.
#[derive(Default)]
pub(crate) struct LintContext {
    context: Option<Box<Config>>,
    naming: Naming,
    /// Tools of the built-in servers that were looked up so far.
    built_in: RefCell<BTreeMap<String, Option<Tools>>>,
}

impl LintContext {
    pub(crate) fn new(context: Option<Box<Config>>) -> Self {
        let mut naming = Naming::default();
        if let Some(context) = &context {
            let names = &context.proxy.names;
            naming.separator = names.separator;
            naming.max_length = names.max_length;
        }
        Self { context, naming, built_in: RefCell::default() }
    }

    pub(crate) fn config(&self) -> Option<&Config> {
        self.context.as_deref()
    }

    /// Resolves the item with this name at this endpoint.
    ///
    /// # Errors
    /// The name cannot be resolved.
    pub(crate) fn asked(
        &self,
        kind: TargetKind,
        name: &str,
        endpoint: &str,
    ) -> Result<Asked, String> {
        let (server, own) = match kind {
            TargetKind::Resource | TargetKind::ResourceCompletion => resource(name, endpoint)?,
            _ => {
                let Some((server, own)) = split_name(name) else {
                    return Err(format!("`{name}` is not of the form server/name"));
                };
                (server.to_owned(), own.to_owned())
            }
        };
        let definition =
            if kind == TargetKind::Tool { self.definition(&server, &own)? } else { None };
        Ok(Asked {
            exposed: exposed(&self.naming, kind, &server, &own),
            category: self.category(&server),
            annotations: definition.map(|text| Annotations::of_tool(&text)),
            server,
            own,
        })
    }

    /// Returns the definition of a built-in tool, or the approved definition of another tool.
    ///
    /// # Errors
    /// The built-in server cannot be built.
    pub(crate) fn definition(&self, server: &str, own: &str) -> Result<Option<Vec<u8>>, String> {
        let Some(context) = self.config() else { return Ok(None) };
        if context.tools.runs(server) {
            return self.with_tools(server, |tools| tools.get(own).cloned());
        }
        let Some(lock) = &context.proxy.pins.lock else { return Ok(None) };
        let Some(pin) = lock.pin(server, own) else { return Ok(None) };
        Ok(Some(pin.definition.to_string().into_bytes()))
    }

    /// Reports whether a tool is hidden until it is approved, by the lock file alone. Only the
    /// gateway can detect a changed definition.
    pub(crate) fn is_unapproved(&self, server: &str, own: &str) -> bool {
        let Some(context) = self.config() else { return false };
        let pins = &context.proxy.pins;
        let Some(lock) = &pins.lock else { return false };
        !context.tools.runs(server)
            && lock.pin(server, own).is_none()
            && pins.reaction(Standing::New) == Reaction::Quarantine
    }

    /// Returns the known tools of a server: those of a built-in server, or the approved ones.
    pub(crate) fn tools(&self, server: &str) -> Vec<String> {
        let Some(context) = self.config() else { return Vec::new() };
        if context.tools.runs(server) {
            let names = self.with_tools(server, |tools| Some(tools.keys().cloned().collect()));
            return names.ok().flatten().unwrap_or_default();
        }
        let Some(lock) = &context.proxy.pins.lock else { return Vec::new() };
        let named = lock.names().filter_map(|name| name.split_once('/'));
        let own = named.filter(|(of, _)| *of == server);
        own.map(|(_, tool)| tool.to_owned()).collect()
    }

    /// Returns the caller with the id of its named key, and with that key's grants unless the
    /// caller already declares any.
    ///
    /// # Errors
    /// Several keys have the name.
    pub(crate) fn known(&self, mut caller: Caller) -> Result<Caller, String> {
        self.resolve_key(&mut caller)?;
        let silent = caller.roles.is_empty() && caller.scopes.is_empty();
        let silent = silent && caller.organisation.is_none() && caller.agent.is_none();
        let Some(context) = self.config() else { return Ok(caller) };
        let auth = &context.authn;
        let keys = auth.keys.as_deref().unwrap_or(&[]);
        if silent
            && caller.issuer == "key"
            && let Some(key) = keys.iter().find(|key| key.id == caller.subject)
        {
            caller.roles = key.roles.iter().map(|role| role.as_str().into()).collect();
            caller.scopes = auth.scopes.expand(&key.scopes).into_vec();
            caller.organisation = key.organisation.clone();
            caller.agent = key.agent.clone();
        }
        Ok(caller)
    }

    fn resolve_key(&self, caller: &mut Caller) -> Result<(), String> {
        let name = caller.subject.clone();
        if caller.issuer != "key" || name == "default" || is_id(&name) {
            return Ok(());
        }
        let named = self.keys().iter().filter(|key| key.name == name);
        let named: Vec<&str> = named.map(|key| key.id.as_str()).collect();
        match named[..] {
            [] => {}
            [id] => id.clone_into(&mut caller.subject),
            _ => {
                let ids = named.join(", key|");
                return Err(format!("several keys are named `{name}`: use key|{ids}"));
            }
        }
        Ok(())
    }

    fn keys(&self) -> &[Key] {
        self.config().map_or(&[], |config| config.authn.keys.as_deref().unwrap_or(&[]))
    }

    fn unknown_key(&self, caller: &Caller) -> Option<String> {
        let id = &caller.subject;
        if caller.issuer != "key" || id == "default" {
            return None;
        }
        match self.keys().iter().find(|key| key.id == *id) {
            Some(key) if key.revoked.is_some() => Some(format!("the key `{id}` is revoked")),
            Some(_) => None,
            None => Some(format!(
                "there is no key `{id}`; `lockgate keys list` shows the existing keys"
            )),
        }
    }

    /// Describes the key, server and tool of a question that this gateway does not have.
    pub(crate) fn unknown(&self, caller: &Caller, kind: TargetKind, asked: &Asked) -> Vec<String> {
        let Some(config) = self.config() else { return Vec::new() };
        let mut unknown = Vec::new();
        unknown.extend(self.unknown_key(caller));
        let server = &asked.server;
        if config.tools.runs(server) {
            let tools = self.tools(server);
            if kind == TargetKind::Tool && !tools.contains(&asked.own) {
                let there = tools.join(", ");
                unknown.push(format!("`{server}` has no tool `{}`; it has {there}", asked.own));
            }
        } else if !config.servers.iter().any(|known| known.slug == *server) {
            unknown.push(format!(
                "the configuration has no server `{server}` (integrations are not included)"
            ));
        }
        unknown
    }

    fn with_tools<T>(
        &self,
        server: &str,
        find: impl Fn(&Tools) -> Option<T>,
    ) -> Result<Option<T>, String> {
        let mut known = self.built_in.borrow_mut();
        if !known.contains_key(server) {
            let tools = self.config().map_or(Ok(None), |config| builtin::tools(config, server));
            let tools = tools.map_err(|error| {
                format!("the built-in server `{server}` cannot be created: {error:#}")
            });
            known.insert(server.to_owned(), tools?);
        }
        Ok(known.get(server).and_then(Option::as_ref).and_then(find))
    }

    /// Returns a built-in server's category, which is its name unless another server has that name.
    /// Policies for disabled built-in servers are tested as well.
    fn category(&self, server: &str) -> Option<String> {
        let servers = self.config().map_or(&[][..], |config| &config.servers);
        let is_other = servers.iter().any(|one| one.slug == server);
        (CATEGORIES.contains(&server) && !is_other).then(|| server.to_owned())
    }
}

/// Splits a name in a policy into server and tool.
pub(super) fn split_name(text: &str) -> Option<(&str, &str)> {
    text.split_once('/').or_else(|| text.split_once("__"))
}

/// Returns a resource's server and own URI, from `server/uri` or from the URI at the endpoint.
fn resource(name: &str, endpoint: &str) -> Result<(String, String), String> {
    let written = match name.split_once('/') {
        Some((server, own)) if Slug::is_valid(server) && !own.is_empty() => Some((server, own)),
        _ => None,
    };
    if let Some(rest) = endpoint.strip_prefix("/servers/")
        && let Some(here) = rest.strip_suffix("/mcp")
    {
        let own = match written {
            Some((server, own)) if server == here => own,
            _ => name,
        };
        return Ok((here.to_owned(), own.to_owned()));
    }
    if let Some((server, own)) = written {
        return Ok((server.to_owned(), own.to_owned()));
    }
    if let Some((server, own)) = uri::own(name) {
        return Ok((server.to_owned(), own.into_owned()));
    }
    let exposed = uri::expose("server", name);
    let other =
        if exposed == name { String::new() } else { format!(", or its URI at /mcp, {exposed}") };
    Err(format!("`{name}` does not name its server: write server/{name}{other}"))
}

/// Returns an item's name at `/mcp`, assuming no collisions.
fn exposed(naming: &Naming, kind: TargetKind, server: &str, own: &str) -> String {
    if matches!(kind, TargetKind::Resource | TargetKind::ResourceCompletion) {
        return uri::expose(server, own).into_owned();
    }
    if let Ok(slug) = Slug::new(server)
        && let Some(name) = naming.expose([(&slug, own)]).pop()
    {
        return name;
    }
    [server, naming.separator.as_str(), own].concat()
}

// The policies for a command: those of the configuration, or of the named files.

/// Policies, with the warnings and the context of their configuration.
pub(crate) struct Configured {
    pub(super) config: lockgate_policy::Config,
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

pub(super) fn compile(config: &lockgate_policy::Config) -> anyhow::Result<Policy> {
    Policy::compile(config).map_err(|mistakes| anyhow!("{mistakes:?}"))
}

#[cfg(test)]
mod tests;
