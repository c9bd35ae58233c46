//! The loading sequence: read every source into a layer, expand references, check each layer, merge
//! and validate. Every layer is checked, regardless of mistakes in others.

mod include;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::expand::Expand;
use crate::loaded::{Config, Loaded, Sources, Transport};
use crate::problem::{Problem, Problems, Report, ValuePlace};
use crate::raw::{self, ApiPlace, Profile};
use crate::source::environment::find_set;
use crate::source::layer::{self, Layers, listed, unreadable};
use crate::source::node::{Node, Value};
use crate::source::{self, environment};
use crate::{import, overlap, suggest, validate};

/// Maximum number of imported client files.
const MAX_IMPORTS: usize = 32;

/// Reads, merges and validates; on failure the report names every detectable mistake.
pub fn load(sources: &Sources) -> Result<Loaded, Report> {
    let (loaded, _) = load_with_layers(sources)?;
    Ok(loaded)
}

/// Loads the configuration, and also returns its layers.
pub fn load_with_layers(sources: &Sources) -> Result<(Loaded, Layers), Report> {
    let begun = SystemTime::now();
    let (mut loading, mut layers, own) = read_layers(sources);
    let transport = loading.transport();
    let Loading { mut problems, mut files, .. } = loading;
    let mut network = environment::network(&sources.env, &layers, &mut problems);
    layer::check(&mut network, &mut problems);
    layers.0.push(network);
    let config = match layers.merge() {
        Ok(root) => validate::config(&root, &layers, sources, own.as_deref(), &mut problems),
        Err(error) => {
            // Layers are clean; only a section can clash with a single value of the same name.
            let what = "is a section in one source and a single value in another";
            problems.push(Problem::error(layers.place(&error.path), error.path.join("."), what));
            None
        }
    };
    files.extend(config.iter().flat_map(|config| named_files(config, &sources.cwd)));
    files.sort();
    files.dedup();
    if let Some(config) = &config {
        overlap::check(config, &files, &sources.cwd, &layers, &mut problems);
    }
    let warnings = problems.finish()?;
    let Some(config) = config else { return Err(Report { problems: warnings }) };
    Ok((Loaded { config, file: own, files, begun, warnings, transport }, layers))
}

/// Reads every source into a layer, the weakest first. Also returns the configuration file's path.
fn read_layers(sources: &Sources) -> (Loading<'_>, Layers, Option<PathBuf>) {
    let mut loading = Loading { sources, problems: Problems::default(), files: Vec::new() };
    let file = loading.file();
    // The configuration file is read first, if there is one.
    let own = loading.files.first().cloned();
    let prefixed = environment::prefixed(&sources.env, &mut loading.problems);
    let env = loading.layer(prefixed, &sources.cwd, false);
    let flags = loading.layer(environment::flags(&sources.flags), &sources.cwd, false);
    loading.refuse_include(&[&flags, &env]);
    let imports = loading.imports(&[&flags, &env, &file]);
    let key = loading.layer(loading.shorthand(), &sources.cwd, false);

    // Settings such as a credential for another collector must not be sent to this one.
    let otel = if names_collector(&[&env, &file]) {
        Node::map(ValuePlace::Nowhere)
    } else {
        environment::opentelemetry::read(&sources.env, &mut loading.problems)
    };
    let otel = loading.layer(otel, &sources.cwd, false);

    let mut layers = Layers(vec![otel]);
    layers.0.extend(imports);
    layers.0.extend([key, file]);
    loading.twice(&layers);
    let listen = layers.given(&["listen"]).and_then(Node::as_text).unwrap_or(raw::LISTEN);
    let conventional = environment::conventional(&sources.env, listen, &mut loading.problems);
    let conventional = loading.layer(conventional, &sources.cwd, false);
    layers.0.extend([conventional, env, flags]);
    (loading, layers, own)
}

fn named_files(config: &Config, cwd: &Path) -> Vec<PathBuf> {
    let documents = config.policy.documents.iter().map(|document| cwd.join(&document.name));
    let keys_file = config.authn.keys_file.iter().map(|file| cwd.join(file));
    let mut files: Vec<_> = keys_file.chain(documents).collect();
    files.extend(config.proxy.pins.file.clone());
    files
}

fn names_collector(layers: &[&Node]) -> bool {
    let keys = [["telemetry", "otlp"], ["telemetry", "otlp_logs"]];
    layers.iter().any(|layer| keys.iter().any(|key| layer.find_usable(key).is_some()))
}

struct Loading<'a> {
    sources: &'a Sources,
    problems: Problems,
    files: Vec<PathBuf>,
}

impl Loading<'_> {
    /// Returns the configuration file's layer; empty without a file.
    fn file(&mut self) -> Node {
        let cwd = &self.sources.cwd;
        let named = match (&self.sources.config, self.sources.env.get("LOCKGATE_CONFIG")) {
            _ if self.sources.without_file => Ok(None),
            (Some(path), _) => Ok(Some(cwd.join(path))),
            (None, Some(path)) if !path.is_empty() => Ok(Some(cwd.join(path))),
            _ => source::locate(cwd),
        };
        match self.problems.value_of(named) {
            Some(Some(path)) => self.file_with_includes(&path),
            Some(None) => Node::map(ValuePlace::Nowhere),
            None => unreadable(),
        }
    }

    /// Reports an emptied file and keys without a value. Reading them as empty could silently
    /// remove servers and rules.
    fn find_lost(&mut self, node: &mut Node) {
        if node.is_blank_file() {
            let hint =
                "write `{}` into a YAML or JSON file that is empty on purpose, or delete the file";
            self.problems.error(node.place.clone(), "", "is empty", hint);
            node.is_damaged = true;
        }
        let hint = "set a value, or remove it; use `{}` or `[]` for an empty value";
        node.refuse_keys_without_value(hint, &mut self.problems);
    }

    fn read(&mut self, path: &Path, otherwise_json: bool) -> Option<Node> {
        self.files.push(path.to_path_buf());
        self.problems.value_of(source::read_file(path, &self.sources.cwd, otherwise_json))
    }

    fn layer(&mut self, mut root: Node, base: &Path, editor: bool) -> Node {
        one_spelling(&mut root);
        let mut expand = Expand { env: &self.sources.env, base, editor, files: Vec::new() };
        expand.expand_values(&mut root, &mut self.problems);
        self.files.extend(expand.files);
        layer::check(&mut root, &mut self.problems);
        root
    }

    /// Returns the layers of imported files: of the strongest `import`, and of `--mcp-servers`.
    fn imports(&mut self, strongest_first: &[&Node]) -> Vec<Node> {
        let cwd = self.sources.cwd.clone();
        let mut paths: Vec<(PathBuf, ValuePlace, bool)> = Vec::new();
        let named = strongest_first.iter().find_map(|layer| layer.find_usable(&["import"]));
        for (name, place, secret) in listed(named) {
            paths.push((self.base_of(&place).join(name), place, secret));
        }
        for path in &self.sources.mcp_servers {
            paths.push((cwd.join(path), ValuePlace::Flag("--mcp-servers"), false));
        }
        if let Some((_, place, _)) = paths.get(MAX_IMPORTS) {
            let what = format!("at most {MAX_IMPORTS} files can be imported");
            self.problems.push(Problem::error(place.clone(), "import", what));
            paths.truncate(MAX_IMPORTS);
        }
        paths.into_iter().map(|(path, place, secret)| self.import(&path, place, secret)).collect()
    }

    fn import(&mut self, path: &Path, named_at: ValuePlace, secret: bool) -> Node {
        if !path.is_file() {
            let shown = source::display_path(path, &self.sources.cwd);
            let what = if secret {
                "there is no such file".to_string()
            } else {
                format!("there is no file {}", shown.display())
            };
            let hint = "the path is relative to the file that contains it";
            self.problems.error(named_at, "import", what, hint);
            return unreadable();
        }
        let Some(node) = self.read(path, true) else { return unreadable() };
        let node = import::layer(&node, &mut self.problems);
        self.layer(node, path.parent().unwrap_or(path), true)
    }

    /// Rejects `include` in flags and variables, which hold a single value per key.
    fn refuse_include(&mut self, layers: &[&Node]) {
        for layer in layers {
            let Some(node) = layer.find_usable(&["include"]) else { continue };
            let hint = "specify the first file with --config or LOCKGATE_CONFIG";
            let what = "only a file can include others";
            self.problems.error(node.shown_place(), "include", what, hint);
        }
    }

    /// Returns the base folder of a path written at `place`.
    fn base_of(&self, place: &ValuePlace) -> PathBuf {
        match place {
            ValuePlace::File { path, .. } => {
                let file = self.sources.cwd.join(path.as_path());
                file.parent().unwrap_or(&self.sources.cwd).to_path_buf()
            }
            _ => self.sources.cwd.clone(),
        }
    }

    /// Returns the values of `LOCKGATE_KEY` as `auth.key` and of `MCP_ENCRYPTION_KEY` as a ring of
    /// one key; the file's own values win.
    fn shorthand(&self) -> Node {
        let mut root = Node::map(ValuePlace::Nowhere);
        let env = &self.sources.env;
        if let Some(key) = find_set(env, "MCP_ENCRYPTION_KEY") {
            let place = ValuePlace::Variable("MCP_ENCRYPTION_KEY".to_string());
            let ring = Value::List(vec![Node::text(key, place.clone())]);
            root.put(&["store", "keys"], Node::new(ring, place));
        }
        if let Some(key) = find_set(env, "LOCKGATE_KEY") {
            let place = ValuePlace::Variable("LOCKGATE_KEY".to_string());
            root.put(&["auth", "key"], Node::text(key, place));
        }
        root
    }

    /// Reports two different servers with the same name in two files, with both places.
    fn twice(&mut self, layers: &Layers) {
        let mut seen: BTreeMap<&String, &Node> = BTreeMap::new();
        let servers = layers.0.iter().filter_map(|layer| layer.find_usable(&["servers"])?.as_map());
        for (slug, server) in servers.flatten().filter(|(_, server)| is_definition(server)) {
            let first = *seen.entry(slug).or_insert(server);
            if !same(first, server) {
                let what = format!("another server with this name is defined at {}", first.key);
                let hint =
                    "rename one of them, or omit `command` and `url` here to only add settings";
                self.problems.error(server.key.clone(), format!("servers.{slug}"), what, hint);
            }
        }
    }

    fn transport(&mut self) -> Option<Transport> {
        let word = find_set(&self.sources.env, "MCP_TRANSPORT")?;
        match word.to_ascii_lowercase().as_str() {
            "stdio" => return Some(Transport::Stdio),
            "http" | "streamable-http" | "streamable_http" => return Some(Transport::Http),
            _ => {}
        }
        let what = format!("must be `stdio` or `http` (it is `{}`)", word.escape_debug());
        let mut problem =
            Problem::error(ValuePlace::Variable("MCP_TRANSPORT".to_string()), "", what);
        problem.hint = match word.as_str() {
            "sse" => Some("`http` serves HTTP+SSE too with `http.sse: true`".to_string()),
            _ => suggest::for_word(word, &["stdio", "http"]),
        };
        self.problems.push(problem);
        None
    }
}

/// Unifies alternative spellings, so that layers merge: `type` becomes `transport`, and headers
/// become lower case.
pub fn one_spelling(root: &mut Node) {
    for server in &keys_at(root, &["servers"]) {
        root.rename(&["servers", server, "type"], "transport");
        for header in &keys_at(root, &["servers", server, "headers"]) {
            root.rename(&["servers", server, "headers", header], &header.to_ascii_lowercase());
        }
    }
}

fn keys_at(root: &Node, path: &[&str]) -> Vec<String> {
    let names = root.map_at(path).into_iter().flat_map(|map| map.keys());
    names.cloned().collect()
}

fn is_definition(server: &Node) -> bool {
    !server.is_damaged
        && (server.find_usable(&["command"]).is_some() || server.find_usable(&["url"]).is_some())
}

/// Returns whether two entries define the same server.
pub fn same(a: &Node, b: &Node) -> bool {
    const KEYS: [&str; 7] = ["command", "args", "env", "cwd", "url", "headers", "auth"];
    KEYS.iter().all(|key| given(a, key) == given(b, key))
}

fn given(node: &Node, key: &str) -> Option<figment::value::Value> {
    Some(node.find_usable(&[key]).filter(|node| !is_empty(node))?.to_figment())
}

fn is_empty(node: &Node) -> bool {
    match &node.value {
        Value::List(list) => list.is_empty(),
        Value::Map(map) => map.is_empty(),
        _ => false,
    }
}

/// The keys that local addresses depend on.
const ADDRESS_KEYS: [&[&str]; 4] =
    [&["listen"], &["admin", "listen"], &["admin", "api"], &["profile"]];

/// The local URLs of a configuration's gateway, without a path, for commands that contact a running
/// gateway.
#[derive(Debug, PartialEq, Eq)]
pub struct RunningAddresses {
    pub clients: String,
    /// The API's URL: on `admin.listen`, unless the clients' address serves the API.
    pub api: String,
}

/// Reads the addresses from the sources. The default address is used without any configuration.
/// Mistakes elsewhere, such as a variable that is only set for the gateway, are ignored.
///
/// # Errors
/// A file cannot be read, or contains no valid address.
pub fn find_addresses(sources: &Sources) -> Result<RunningAddresses, Report> {
    let (loading, layers, _) = read_layers(sources);
    let is_damaged = ADDRESS_KEYS.iter().any(|path| layers.has_damage(path));
    let root = match layers.merge() {
        Ok(root) if !is_damaged => root,
        _ => return Err(Report { problems: loading.problems.finish()? }),
    };
    let scheme = if root.http.tls.is_some() { "https" } else { "http" };
    let clients = url_of(scheme, &root.listen);
    let beside_clients = match root.admin.api {
        ApiPlace::Auto => root.profile == Profile::Development,
        ApiPlace::Everywhere => true,
        ApiPlace::Off => false,
    };
    let api = match &root.admin.listen {
        Some(listen) if !beside_clients => url_of(scheme, listen),
        _ => clients.clone(),
    };
    Ok(RunningAddresses { clients, api })
}

fn url_of(scheme: &str, listen: &str) -> String {
    match listen.parse::<SocketAddr>() {
        Ok(address) if address.ip().is_unspecified() => {
            format!("{scheme}://{}:{}", Ipv4Addr::LOCALHOST, address.port())
        }
        _ => format!("{scheme}://{listen}"),
    }
}
