//! What the gateway knows of a thing that a case or a question names: its server, its name at
//! `/mcp`, the category and what its server says of it. It goes by the configuration and the lock
//! file, and asks no foreign server.

use std::cell::RefCell;
use std::collections::BTreeMap;

use lockgate_authn::key::{Key, is_id};
use lockgate_config::Config;
use lockgate_policy::cases::{Asked, Caller};
use lockgate_policy::pin::{Reaction, Standing};
use lockgate_policy::{Annotations, Kind};
use lockgate_protocol::name::{Naming, Slug};
use lockgate_protocol::uri;

use crate::builtin::{self, Tools};

/// See the module. Without a configuration names are made as usual, and no tool says anything.
#[derive(Default)]
pub(crate) struct LintContext {
    context: Option<Box<Config>>,
    naming: Naming,
    /// Tools of built-in servers, as far as they were asked for.
    built_in: RefCell<BTreeMap<String, Option<Tools>>>,
}

impl LintContext {
    pub(crate) fn new(context: Option<Box<Config>>) -> Self {
        let mut naming = Naming::default();
        if let Some(context) = &context {
            let names = &context.proxy.names;
            naming.separator = names.separator.parse().unwrap_or_default();
            naming.max_length = names.max_length;
        }
        Self { context, naming, built_in: RefCell::default() }
    }

    pub(crate) fn config(&self) -> Option<&Config> {
        self.context.as_deref()
    }

    /// What is asked for by this name at this endpoint.
    ///
    /// # Errors
    /// Why that cannot be said.
    pub(crate) fn asked(&self, kind: Kind, name: &str, endpoint: &str) -> Result<Asked, String> {
        let (server, own) = match kind {
            Kind::Resource | Kind::ResourceCompletion => resource(name, endpoint)?,
            _ => {
                let Some((server, own)) = split_name(name) else {
                    return Err(format!("`{name}` is not written as server/name"));
                };
                (server.to_owned(), own.to_owned())
            }
        };
        let definition = if kind == Kind::Tool { self.definition(&server, &own)? } else { None };
        Ok(Asked {
            exposed: exposed(&self.naming, kind, &server, &own),
            category: self.category(&server),
            annotations: definition.map(|text| Annotations::of_tool(&text)),
            server,
            own,
        })
    }

    /// The definition of a tool: of a built-in one, or as it was approved.
    ///
    /// # Errors
    /// The built-in server cannot be made.
    pub(crate) fn definition(&self, server: &str, own: &str) -> Result<Option<Vec<u8>>, String> {
        let Some(context) = self.config() else { return Ok(None) };
        if context.tools.runs(server) {
            return self.with_tools(server, |tools| tools.get(own).cloned());
        }
        let Some(lock) = &context.proxy.pins.lock else { return Ok(None) };
        let Some(pin) = lock.pin(server, own) else { return Ok(None) };
        Ok(Some(pin.definition.to_string().into_bytes()))
    }

    /// Whether a tool is hidden until it is approved, as far as the lock file says: whether it has
    /// changed only the gateway sees.
    pub(crate) fn is_unapproved(&self, server: &str, own: &str) -> bool {
        let Some(context) = self.config() else { return false };
        let pins = &context.proxy.pins;
        let Some(lock) = &pins.lock else { return false };
        !context.tools.runs(server)
            && lock.pin(server, own).is_none()
            && pins.reaction(Standing::New) == Reaction::Quarantine
    }

    /// The tools of a server as far as they are known: those of a built-in one, or those that were
    /// approved.
    pub(crate) fn tools(&self, server: &str) -> Vec<String> {
        let Some(context) = self.config() else { return Vec::new() };
        if context.tools.runs(server) {
            let names = self.with_tools(server, |tools| Some(tools.keys().cloned().collect()));
            return match names {
                Ok(Some(names)) => names,
                _ => Vec::new(),
            };
        }
        let Some(lock) = &context.proxy.pins.lock else { return Vec::new() };
        let mut tools = Vec::new();
        for name in lock.names() {
            match name.split_once('/') {
                Some((of, tool)) if of == server => tools.push(tool.to_owned()),
                _ => {}
            }
        }
        tools
    }

    /// Returns a caller with the id of the key that it names, and with what the keys file says of
    /// that key, unless something is said of it already.
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
        let mut named = Vec::new();
        for key in self.keys() {
            if key.name == name {
                named.push(key.id.as_str());
            }
        }
        match named.as_slice() {
            [] => Ok(()),
            [id] => {
                caller.subject = (*id).to_owned();
                Ok(())
            }
            ids => {
                Err(format!("several keys are called `{name}`: write key|{}", ids.join(", key|")))
            }
        }
    }

    fn keys(&self) -> &[Key] {
        match self.config() {
            Some(config) => config.authn.keys.as_deref().unwrap_or(&[]),
            None => &[],
        }
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
                "there is no key `{id}`; `lockgate keys list` shows those that are there"
            )),
        }
    }

    /// Returns what a question names and this gateway does not have: a key, a server, a tool.
    pub(crate) fn unknown(&self, caller: &Caller, kind: Kind, asked: &Asked) -> Vec<String> {
        let Some(config) = self.config() else { return Vec::new() };
        let mut unknown = Vec::new();
        unknown.extend(self.unknown_key(caller));
        let server = &asked.server;
        if config.tools.runs(server) {
            let tools = self.tools(server);
            if kind == Kind::Tool && !tools.contains(&asked.own) {
                let there = tools.join(", ");
                unknown.push(format!("`{server}` has no tool `{}`; it has {there}", asked.own));
            }
        } else if !config.servers.iter().any(|known| known.slug == *server) {
            unknown.push(format!(
                "the configuration has no server `{server}` (integrations are not known here)"
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
            let tools = match self.config() {
                Some(context) => builtin::tools(context, server),
                None => Ok(None),
            };
            match tools {
                Ok(tools) => known.insert(server.to_owned(), tools),
                Err(error) => {
                    return Err(format!(
                        "the built-in server `{server}` cannot be made: {error:#}"
                    ));
                }
            };
        }
        match known.get(server) {
            Some(Some(tools)) => Ok(find(tools)),
            _ => Ok(None),
        }
    }

    /// A built-in server's category is its name, which no other server has while it runs. Policies
    /// for one that does not run here are tested all the same.
    fn category(&self, server: &str) -> Option<String> {
        if !builtin::CATEGORIES.contains(&server) {
            return None;
        }
        if let Some(context) = self.config()
            && context.servers.iter().any(|one| one.slug == server)
        {
            return None;
        }
        Some(server.to_owned())
    }
}

/// Server and tool, as a policy may write them.
pub(super) fn split_name(text: &str) -> Option<(&str, &str)> {
    text.split_once('/').or_else(|| text.split_once("__"))
}

/// Server and own URI of a resource: as `server/uri`, or as clients write it at the endpoint.
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
        if exposed == name { String::new() } else { format!(", or as it is at /mcp, {exposed}") };
    Err(format!("`{name}` does not say which server has it: write server/{name}{other}"))
}

/// What something is called at `/mcp`, as if nothing else had its name.
fn exposed(naming: &Naming, kind: Kind, server: &str, own: &str) -> String {
    if matches!(kind, Kind::Resource | Kind::ResourceCompletion) {
        return uri::expose(server, own).into_owned();
    }
    if let Ok(slug) = Slug::new(server)
        && let Some(name) = naming.expose([(&slug, own)]).pop()
    {
        return name;
    }
    [server, naming.separator.as_str(), own].concat()
}

#[cfg(test)]
mod tests;
