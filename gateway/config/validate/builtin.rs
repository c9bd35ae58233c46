//! `builtin`: which built-in servers run, and what they may do. A category is off until it is
//! configured, except `system`.

mod content;
mod database;
mod file;
mod shell;
mod web;

use super::Check;
use crate::raw::Root;

impl Check<'_> {
    pub fn tools(&mut self, root: &Root) -> lockgate_tools::Config {
        let wanted = root.builtin.example.as_ref().map(|toggle| toggle.0);
        if self.production && wanted == Some(true) {
            let path = ["builtin", "example"];
            self.error(
                &path,
                "the example server is not for production",
                "take it out, or use `profile: development`",
            );
        }
        let mut tools = lockgate_tools::Config {
            file: root.builtin.file.as_ref().and_then(|file| self.files(file)),
            shell: root.builtin.shell.as_ref().and_then(|shell| self.shell(shell)),
            database: root.builtin.database.as_ref().and_then(|database| self.database(database)),
            system: root.builtin.system.0,
            content: root.builtin.content.as_ref().map(|content| self.content(content)),
            web: root.builtin.web.as_ref().map(|web| self.web(web)),
            example: wanted == Some(true),
        };
        // Where something else is configured, nobody needs something to try.
        let nothing = root.servers.is_empty() && tools.names().all(|name| name == "system");
        tools.example |= wanted.is_none() && !self.production && nothing;
        tools
    }
}
