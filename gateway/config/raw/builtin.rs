//! `builtin`: the list of built-in servers.

use super::leaf::Toggle;

lockgate_text::settings! {
    pub struct Builtin as "Builtin" {
        /// Reports the state of the gateway and its servers.
        pub system: bool = Toggle<true>,
        /// A few harmless tools to try a client with. By default on in development when neither a
        /// server nor another category is configured.
        pub example: Option<bool> = Option<Toggle<false>>,
        /// Reads and changes files in folders; off until it is configured.
        pub file: Option<lockgate_tools::File>,
        /// Resources and prompts that the gateway itself offers; off until it is configured.
        pub content: Option<lockgate_tools::content::Config>,
        /// Reads databases; off until it is configured.
        pub database: Option<lockgate_tools::DatabaseSettings>,
        /// Runs allowed programs, confined; off until it is configured.
        pub shell: Option<lockgate_tools::Shell>,
        /// Requests to web servers and pages as text; off until it is configured.
        pub web: Option<lockgate_tools::Web>,
    }
}
