//! Which built-in servers run and what they may do, already validated. It reads no file and no
//! environment. A category with settings is `None` until it is configured.

/// The built-in servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// `system`: what the gateway is and how its servers are.
    pub system: bool,
    /// `example`: a few harmless tools, a prompt and a resource to try a client with.
    pub example: bool,
    /// `file`: files in configured folders.
    pub file: Option<crate::file::config::Config>,
    /// `database`: databases that can be read.
    pub database: Option<crate::database::Config>,
    /// `shell`: allowed programs, confined.
    pub shell: Option<crate::shell::Config>,
    /// `content`: resources and prompts from configuration.
    pub content: Option<crate::content::Config>,
    /// `web`: requests to other hosts.
    pub web: Option<crate::web::Config>,
}

/// All categories.
const CATEGORIES: [&str; 7] = ["content", "database", "example", "file", "shell", "system", "web"];

impl Config {
    /// The built-in servers that run.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        CATEGORIES.into_iter().filter(|category| self.runs(category))
    }

    /// Whether a built-in server of this name runs, so that no other may have it.
    #[must_use]
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
