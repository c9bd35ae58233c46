//! `builtin`: the enabled built-in servers and their permissions. A category is off until
//! configured, except `system`.

mod database;
mod file;
mod shell;
mod web;

use lockgate_tools::content;

use super::Check;
use crate::raw::Root;
use crate::raw::leaf::Toggle;
use crate::source::node::as_words;

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
            tools.file = Some(self.files(file));
        }
        if let Some(shell) = &root.builtin.shell {
            tools.shell = Some(self.shell(shell));
        }
        if let Some(database) = &root.builtin.database {
            tools.database = self.database(database);
        }
        if let Some(content) = &root.builtin.content {
            self.content(content);
            tools.content = Some(content.clone());
        }
        if let Some(web) = &root.builtin.web {
            tools.web = Some(self.web(web));
        }
        // The example server is only useful if nothing else is configured.
        let nothing = root.servers.is_empty() && tools.names().all(|name| name == "system");
        tools.example |= example.is_none() && !self.production && nothing;
        tools
    }

    /// Checks resources and prompts. The layer itself checks the entries.
    fn content(&mut self, content: &content::Config) {
        if let Some(folder) = &content.folder
            && !folder.is_dir()
        {
            let path = ["builtin", "content", "folder"];
            let what = format!("there is no such folder{}", self.shown(&path));
            self.error(&path, what, "paths are relative to the file that contains them");
        }
        for problem in content.problems() {
            let mut path = vec!["builtin", "content"];
            path.extend(as_words(&problem.path));
            self.error(&path, problem.message, "docs/tools.md explains the settings");
        }
    }
}
