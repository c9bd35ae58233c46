//! `builtin`: the enabled built-in servers and their permissions. A category is off until
//! configured, except `system`.

mod content;
mod database;
mod file;
mod shell;
mod web;

use super::Check;
use crate::raw::Root;
use crate::raw::leaf::Toggle;

impl Check<'_> {
    pub fn tools(&mut self, root: &Root) -> lockgate_tools::Config {
        let example = &root.builtin.example;
        let is_wanted = matches!(example, Some(Toggle(true)));
        if self.production && is_wanted {
            let path = ["builtin", "example"];
            self.error(
                &path,
                "the example server is not for production",
                "remove it, or use `profile: development`",
            );
        }
        let mut tools = lockgate_tools::Config {
            system: root.builtin.system.0,
            example: is_wanted,
            ..lockgate_tools::Config::default()
        };
        if let Some(file) = &root.builtin.file {
            tools.file = self.files(file);
        }
        if let Some(shell) = &root.builtin.shell {
            tools.shell = self.shell(shell);
        }
        if let Some(database) = &root.builtin.database {
            tools.database = self.database(database);
        }
        if let Some(content) = &root.builtin.content {
            tools.content = Some(self.content(content));
        }
        if let Some(web) = &root.builtin.web {
            tools.web = Some(self.web(web));
        }
        // The example server is only useful if nothing else is configured.
        let nothing = root.servers.is_empty() && tools.names().all(|name| name == "system");
        tools.example |= example.is_none() && !self.production && nothing;
        tools
    }
}
