//! Validated settings of the built-in servers. Reads no file and no environment. A category with
//! settings is `None` until it is configured.

/// Settings of the built-in servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// `system`: the gateway and the state of its servers.
    pub system: bool,
    /// `example`: a few harmless tools, a prompt and a resource to test a client with.
    pub example: bool,
    /// `file`: files in configured folders.
    pub file: Option<crate::file::config::Config>,
    /// `database`: read access to databases.
    pub database: Option<crate::database::Config>,
    /// `shell`: allowed programs, in a sandbox.
    pub shell: Option<crate::shell::Config>,
    /// `content`: resources and prompts from configuration.
    pub content: Option<crate::content::Config>,
    /// `web`: requests to other hosts.
    pub web: Option<crate::web::Config>,
}

const CATEGORIES: [&str; 7] = ["content", "database", "example", "file", "shell", "system", "web"];

impl Config {
    /// Returns the names of the enabled built-in servers.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        CATEGORIES.into_iter().filter(|category| self.runs(category))
    }

    /// Returns whether a built-in server of this name is enabled, which reserves the name.
    pub fn runs(&self, category: &str) -> bool {
        match category {
            "system" => self.system,
            "example" => self.example,
            "file" => self.file.is_some(),
            "database" => self.database.is_some(),
            "shell" => self.shell.is_some(),
            "content" => self.content.is_some(),
            "web" => self.web.is_some(),
            _ => false,
        }
    }
}
