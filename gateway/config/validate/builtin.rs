//! `builtin`: the enabled built-in servers and their permissions. A category is off until
//! configured, except `system`.

mod database;

use std::path::{Component, Path, PathBuf};

use lockgate_policy::command::Command;
use lockgate_policy::{path, url};
use lockgate_tools::{File, FileRoot, Shell, ShellRoot, Web, content};

use super::{Check, RELATIVE};
use crate::expand::is_variable_name;
use crate::source::node::Node;

impl Check<'_> {
    pub fn tools(&mut self) -> lockgate_tools::Config {
        let mut tools = self.root.builtin.clone();
        if self.production && tools.example == Some(true) {
            let hint = "remove it, or use `profile: development`";
            self.error("builtin.example", "the example server is not for production", hint);
        }
        if let Some(content) = &tools.content {
            self.content(content);
        }
        if let Some(file) = &mut tools.file {
            self.files(file);
        }
        if let Some(shell) = &mut tools.shell {
            self.shell(shell);
        }
        if let Some(database) = &mut tools.database {
            self.database(database);
        }
        if let Some(web) = &mut tools.web {
            self.web(web);
        }
        // The example server is only useful if nothing else is configured.
        let nothing = self.root.servers.is_empty() && tools.names().all(|name| name == "system");
        tools.example.get_or_insert(!self.production && nothing);
        tools
    }

    /// Checks resources and prompts. The layer itself checks the entries.
    fn content(&mut self, content: &content::Config) {
        if let Some(folder) = &content.folder
            && !folder.is_dir()
        {
            self.wrong_value("builtin.content.folder", "there is no such folder", RELATIVE);
        }
        for problem in content.problems() {
            let path = [self.path("builtin.content"), problem.path].concat();
            let path = self.layers.written_path(path);
            self.error_at(&path, problem.message, "docs/tools.md explains the settings");
        }
    }
}

// `builtin.file`: folders and globs. A missing folder is not a mistake.

const MAX_ROOTS: usize = 64;

impl Check<'_> {
    fn files(&mut self, file: &mut File) {
        file.roots = self.file_roots(&file.roots);
        let paths = file.roots.iter().filter_map(|root| root.path.to_str());
        let mut within: Vec<_> = paths.map(str::to_owned).collect();
        if within.is_empty() {
            within.push("/".into());
        }
        for (key, globs) in [("deny", &file.deny), ("deny_write", &file.deny_write)] {
            let roots = within.clone();
            let spec = path::Spec { roots, deny: globs.clone(), ..path::Spec::default() };
            if let Err(words) = path::Path::compile(&spec) {
                let hint = "use globs such as *.pem, private/** or .env*";
                self.error(&format!("builtin.file.{key}"), words, hint);
            }
        }
    }

    fn count_roots(&mut self, server: &str, roots: usize) {
        if !(1..=MAX_ROOTS).contains(&roots) {
            let what = format!("requires 1 to {MAX_ROOTS} folders");
            let hint = "such as: roots: [{ path: ./project }]";
            self.error(&format!("builtin.{server}.roots"), what, hint);
        }
    }

    /// Reports the path of a root that the server's rule would reject.
    fn refuse_root(&mut self, key: &str) {
        let hint = "it may be relative to the configuration file";
        self.error(key, "must be the path of a folder, without `..`", hint);
    }

    fn file_roots(&mut self, given: &[FileRoot]) -> Vec<FileRoot> {
        self.count_roots("file", given.len());
        let mut roots: Vec<FileRoot> = Vec::new();
        for (at, root) in given.iter().enumerate() {
            let key = format!("builtin.file.roots.{at}.path");
            let parts = root.path.components();
            let path: PathBuf = parts.filter(|part| *part != Component::CurDir).collect();
            let text = path.to_str().unwrap_or("").to_owned();
            let spec = path::Spec { roots: vec![text], ..path::Spec::default() };
            if !path.is_absolute() || path::Path::compile(&spec).is_err() {
                self.refuse_root(&key);
                continue;
            }
            if overlaps(&path, &roots) {
                let hint = "use only the outer one, or separate folders";
                self.error(&key, "is in another root, or contains one", hint);
                continue;
            }
            if !path.is_dir() {
                let hint = "create it, then restart; until then the other roots are served, and \
                    relative paths only if it is not the first";
                self.warning(&key, "there is no such folder", hint);
            }
            roots.push(FileRoot { path, write: root.write });
        }
        roots
    }
}

/// Returns whether a folder is inside one of these, or contains one.
fn overlaps(path: &Path, roots: &[FileRoot]) -> bool {
    roots.iter().any(|other| other.path.starts_with(path) || path.starts_with(&other.path))
}

// `builtin.shell`: its rule, folders and variables. Programs are looked up at the server's start.

/// Variables that select executed programs or loaded code.
const REFUSED: [&str; 9] = [
    "PATH",
    "ENV",
    "BASH_ENV",
    "IFS",
    "NODE_OPTIONS",
    "NODE_PATH",
    "SSH_ASKPASS",
    "GCONV_PATH",
    "LOCPATH",
];
const REFUSED_BEGINNINGS: [&str; 4] = ["LD_", "DYLD_", "GIT_", "npm_config_"];

impl Check<'_> {
    fn shell(&mut self, shell: &mut Shell) {
        shell.roots = self.shell_roots(&shell.roots);
        self.shell_folders("search", &shell.search);
        self.shell_folders("read", &shell.read);
        for name in shell.environment.keys() {
            self.within("builtin.shell.environment", name, |check| check.shell_variable("", name));
        }
        for (at, name) in shell.caller_environment.iter().enumerate() {
            let key = self.item_key("builtin.shell.caller_environment", at);
            self.shell_variable(&key, name);
        }
        if shell.timeout > shell.max_timeout {
            let what = "must not be more than `max_timeout`";
            let hint = "raise `max_timeout`, or lower this";
            self.error("builtin.shell.timeout", what, hint);
        }
        if let Err(words) = Command::compile(&shell.rule()) {
            let key = "builtin.shell";
            // The message quotes values, which may come from a reference to a secret.
            let words = match self.given(key) {
                Some(node) if !referenced(node) => words,
                _ => "has an invalid program, model or root".into(),
            };
            self.error(key, words, "docs/tools.md explains the settings");
        }
    }

    fn shell_roots(&mut self, given: &[ShellRoot]) -> Vec<ShellRoot> {
        self.count_roots("shell", given.len());
        let mut roots = Vec::new();
        for (at, root) in given.iter().enumerate() {
            let key = format!("builtin.shell.roots.{at}.path");
            let mut path = root.path.clone();
            // The configuration file's folder may have been named through `..`, but the rule
            // requires plain folders.
            if goes_up(&path)
                && let Ok(plain) = path.canonicalize()
            {
                path = plain;
            }
            if !path.is_absolute() || goes_up(&path) {
                self.refuse_root(&key);
                continue;
            }
            if !path.is_dir() {
                let hint = "create it; until then the server fails";
                self.warning(&key, "there is no such folder", hint);
            }
            roots.push(ShellRoot { path, write: root.write });
        }
        roots
    }

    fn shell_folders(&mut self, name: &str, folders: &[PathBuf]) {
        let key = format!("builtin.shell.{name}");
        for (at, path) in folders.iter().enumerate() {
            if !path.is_absolute() || path.as_os_str().as_encoded_bytes().contains(&b':') {
                let what = "must be an absolute path without `:`";
                self.item_error(&key, at, what, "such as /opt/tools/bin");
            }
        }
    }

    /// Checks the name of a variable for programs.
    fn shell_variable(&mut self, key: &str, name: &str) {
        if !is_variable_name(name) {
            self.error(key, "is not a variable name", "use letters, digits and _");
        } else if REFUSED.contains(&name)
            || REFUSED_BEGINNINGS.iter().any(|begin| name.starts_with(begin))
        {
            let what = "would change which code programs run or load";
            self.error(key, what, "remove it; use `search` for the folders of programs");
        }
    }
}

fn goes_up(path: &Path) -> bool {
    path.components().any(|part| part == Component::ParentDir)
}

/// Returns whether a value at or below this node came from a reference.
fn referenced(node: &Node) -> bool {
    node.all().iter().any(|(_, node)| node.reference.is_some())
}

// `builtin.web`: its rule, networks, headers and proxy.

impl Check<'_> {
    fn web(&mut self, web: &mut Web) {
        if web.hosts.is_empty() && !web.any_host {
            let hint = "set hosts, such as hosts: [api.example.com, \"*.example.org\"], or \
                any_host: true for any public host";
            self.error("builtin.web.hosts", "no host can be reached", hint);
        }
        self.networks("builtin.web.addresses", &web.addresses);
        self.check_methods(&web.methods);
        let given = std::mem::replace(&mut web.methods, Web::METHODS.map(str::to_owned).to_vec());
        web.methods.retain(|method| given.contains(method));
        if let Some(proxy) = &web.proxy {
            let credentials = (proxy.user.as_deref(), proxy.password.as_deref());
            self.http_proxy("builtin.web.proxy", &proxy.url, credentials);
        }
        self.web_rule(web);
    }

    /// Reports mistakes that the layer itself would reject at the start.
    fn web_rule(&mut self, web: &Web) {
        let are_known = web.schemes.iter().all(|scheme| scheme == "http" || scheme == "https");
        if !are_known || web.schemes.is_empty() {
            self.error("builtin.web.schemes", "must be http, https or both", "remove it for both");
        }
        let hint = "use api.example.com or *.example.com; `any_host` allows all hosts, and \
            `addresses` contains addresses";
        let wrong = ("is not a host name", hint);
        self.items("builtin.web.hosts", &web.hosts, wrong, |host| {
            let spec = url::Spec { hosts: vec![host.to_owned()], ..url::Spec::default() };
            url::Url::compile(&spec).ok()
        });
        for (at, name) in web.headers.iter().enumerate() {
            if let Err(words) = Web::check_header(name) {
                self.item_error("builtin.web.headers", at, &words, "remove it");
            }
        }
        if web.user_agent.is_empty()
            || !web.user_agent.bytes().all(|b| b == b' ' || b.is_ascii_graphic())
        {
            let what = "must be printable ASCII characters";
            self.error("builtin.web.user_agent", what, "such as MyAgency/1.0");
        }
    }

    fn check_methods(&mut self, given: &[String]) {
        let key = "builtin.web.methods";
        let wrong = ("is not a supported method", "use GET, POST, PUT, PATCH, DELETE or HEAD");
        self.items(key, given, wrong, |method| Web::METHODS.contains(&method).then_some(()));
        if given.is_empty() {
            self.error(key, "must name at least one method", "remove it for all");
        }
    }
}
