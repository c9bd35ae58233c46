//! Every method name of every revision, and the eras in which it exists.

use crate::key::Key;
use crate::revision::Era;

macro_rules! methods {
    ($($variant:ident $name:literal $eras:ident;)*) => {
        /// A method of the protocol; [`Method::Unknown`] for anything else.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub enum Method { $(#[doc = concat!("`", $name, "`")] $variant,)* #[default] Unknown }

        impl Method {
            pub fn parse(name: &str) -> Self {
                match name { $($name => Self::$variant,)* _ => Self::Unknown }
            }

            /// Returns the name on the wire; empty for [`Method::Unknown`].
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)* Self::Unknown => "" }
            }

            /// Returns whether a client may send the method in `era`.
            pub fn exists_in(self, era: Era) -> bool {
                match self { $(Self::$variant => Eras::$eras.holds(era),)* Self::Unknown => false }
            }
        }
    };
}

enum Eras {
    Both,
    Legacy,
    Modern,
}

impl Eras {
    fn holds(&self, era: Era) -> bool {
        match self {
            Self::Both => true,
            Self::Legacy => era == Era::Legacy,
            Self::Modern => era == Era::Modern,
        }
    }
}

methods! {
    Initialize "initialize" Legacy;
    Ping "ping" Legacy;
    Discover "server/discover" Modern;
    ToolsList "tools/list" Both;
    ToolsCall "tools/call" Both;
    PromptsList "prompts/list" Both;
    PromptsGet "prompts/get" Both;
    ResourcesList "resources/list" Both;
    TemplatesList "resources/templates/list" Both;
    DirectoryRead "resources/directory/read" Both;
    SkillsList "skills/list" Both;
    SkillsGet "skills/get" Both;
    ResourcesRead "resources/read" Both;
    Subscribe "resources/subscribe" Legacy;
    Unsubscribe "resources/unsubscribe" Legacy;
    Complete "completion/complete" Both;
    SetLevel "logging/setLevel" Legacy;
    Listen "subscriptions/listen" Modern;
    TasksGet "tasks/get" Both;
    TasksUpdate "tasks/update" Modern;
    TasksCancel "tasks/cancel" Both;
    TasksResult "tasks/result" Legacy;
    TasksList "tasks/list" Legacy;
    Initialized "notifications/initialized" Legacy;
    Cancelled "notifications/cancelled" Both;
    Progress "notifications/progress" Both;
    Message "notifications/message" Both;
    RootsChanged "notifications/roots/list_changed" Legacy;
    ToolsChanged "notifications/tools/list_changed" Both;
    PromptsChanged "notifications/prompts/list_changed" Both;
    ResourcesChanged "notifications/resources/list_changed" Both;
    ResourceUpdated "notifications/resources/updated" Both;
    Acknowledged "notifications/subscriptions/acknowledged" Modern;
    ElicitationComplete "notifications/elicitation/complete" Legacy;
    TaskStatus "notifications/tasks/status" Legacy;
    TaskUpdated "notifications/tasks" Modern;
    Elicit "elicitation/create" Legacy;
    Sample "sampling/createMessage" Legacy;
    Roots "roots/list" Legacy;
}

impl Method {
    /// Returns the member of `params` that identifies the request's target.
    pub fn target(self) -> Option<Key> {
        match self {
            Self::ToolsCall | Self::PromptsGet => Some(Key::Name),
            Self::ResourcesRead
            | Self::Subscribe
            | Self::Unsubscribe
            | Self::DirectoryRead
            | Self::SkillsGet => Some(Key::Uri),
            Self::TasksGet | Self::TasksUpdate | Self::TasksCancel | Self::TasksResult => {
                Some(Key::TaskId)
            }
            _ => None,
        }
    }

    /// Returns whether the target is repeated in `Mcp-Name` (modern). The skills extension does not
    /// require this.
    pub fn has_name_header(self) -> bool {
        !matches!(self, Self::DirectoryRead | Self::SkillsGet) && self.target().is_some()
    }

    /// Returns whether a repeated request is harmless: everything but calls, task changes and
    /// unknown methods.
    pub fn is_safe(self) -> bool {
        !matches!(self, Self::ToolsCall | Self::TasksUpdate | Self::TasksCancel | Self::Unknown)
    }
}
