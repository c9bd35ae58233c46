//! Adding a server at run time: by its address, from the operator's catalogue, or at a fixed
//! version from the operator's registry. The connection can be tested first; the credential is
//! stored encrypted and never shown.

use super::*;
use crate::api::integrations::{
    PredefinedIntegration, RegistryInput, RegistryServer, create_custom_integration,
    create_predefined_integration, create_registry_integration, list_catalogue,
    show_registry_server,
};

/// The fields of a server by its address.
pub(super) const LABELS: [(&str, &str); 6] = [
    ("name", "Name"),
    ("serverUrl", "Address"),
    ("slug", "Prefix of its tools"),
    ("authMethod", "Authentication"),
    ("headerName", "Header name"),
    ("credentials", "Key or token"),
];

/// The methods of authentication, and their labels.
pub(super) const AUTH_METHODS: [(&str, &str); 5] = [
    ("none", "None"),
    ("bearer_token", "Bearer token"),
    ("api_key", "Key in a header"),
    ("user", "Each member’s own account"),
    ("user_headers", "Each member’s own key"),
];

#[derive(Template)]
#[template(path = "integration_new.html")]
struct AddPage<'a> {
    visit: &'a Visit,
    offer: &'a Offer,
    /// The target of the form.
    action: String,
    mistake: FormError,
    /// The form passed its test and would be accepted.
    tried: Option<Integration>,
}

impl AddPage<'_> {
    fn name(&self) -> &str {
        match (self.visit.typed().get("name"), self.offer) {
            ("", Offer::Entry(_) | Offer::Server(_)) => self.offer.title(),
            (typed, _) => typed,
        }
    }

    /// Returns the entered value of an input, or its default.
    fn value<'a>(&'a self, input: &'a RegistryInput) -> &'a str {
        let typed = self.visit.typed().get_exact(&input.field());
        if typed.is_empty() { &input.default } else { typed }
    }
}

impl RegistryInput {
    /// Returns the name of its field.
    fn field(&self) -> String {
        format!("input-{}", self.name)
    }
}

impl PredefinedIntegration {
    /// Returns the credential that the entry requires; empty if it requires none.
    pub(crate) fn wants(&self) -> &'static str {
        match self.auth_method {
            "bearer_token" => "a token",
            "api_key" => "a key",
            _ => "",
        }
    }
}

/// Number of entries per page.
const PART: &str = "200";

/// Returns the first entries by name, and their total number.
async fn load_catalogue(
    visit: &Visit,
    search: &str,
) -> Result<Page<PredefinedIntegration>, Problem> {
    let filter = query(&[("limit", PART), ("search", search)])?;
    match list_catalogue(visit.by()?, filter).await {
        Ok(found) => Ok(found.0),
        // Without a store there is nothing to choose.
        Err(problem) if problem.status() == StatusCode::SERVICE_UNAVAILABLE => {
            Ok(Page { items: Vec::new(), total: 0, next_cursor: None })
        }
        Err(problem) => Err(problem),
    }
}

/// A server that can be added.
enum Offer {
    /// Any server, by its address; with entries of the operator's catalogue, and whether the
    /// operator has named a registry.
    Address(Page<PredefinedIntegration>, bool),
    Entry(PredefinedIntegration),
    Server(RegistryServer),
}

impl Offer {
    /// Finds the offer of a page: an entry of the catalogue, or a server of the registry.
    async fn find(visit: &Visit, slug: Option<Path<String>>) -> Result<Self, PageError> {
        if let Some(Path(slug)) = slug {
            let found = load_catalogue(visit, &slug).await?;
            let entry = found.items.into_iter().find(|entry| entry.slug == slug);
            return entry
                .map(Self::Entry)
                .ok_or_else(|| PageError::not_found("The catalogue has no such server."));
        }
        if visit.address.starts_with("/console/integrations/") {
            let by: By<Admin> = visit.by()?;
            let has_registry = by.state.operations.settings().import_registry.is_some();
            return Ok(Self::Address(
                load_catalogue(visit, visit.query.get("q")).await?,
                has_registry,
            ));
        }
        let server = visit.query.get("server");
        let (name, version) =
            server.split_once('@').unwrap_or((server, visit.query.get("version")));
        let asked = query(&[("server", name), ("version", version)])?;
        Ok(Self::Server(show_registry_server(visit.by_here().await?, asked).await?.0))
    }

    /// Returns whether the form is for any server, by its address.
    fn is_any(&self) -> bool {
        matches!(self, Self::Address(..))
    }

    fn title(&self) -> &str {
        match self {
            Self::Address(..) => "a server",
            Self::Entry(entry) => &entry.name,
            Self::Server(server) => &server.title,
        }
    }

    /// Returns the page of its form.
    fn path(&self) -> PagePath {
        match self {
            Self::Address(..) => PagePath::new(&["integrations", "new"]),
            Self::Entry(entry) => PagePath::new(&["catalogue", &entry.slug]),
            Self::Server(RegistryServer { server, version, .. }) => {
                let path = PagePath::new(&["registry"]);
                path.with("server", server).with("version", version)
            }
        }
    }

    /// Tests the server, or adds it.
    async fn add(&self, by: By<Admin>, typed: &Fields) -> Result<Integration, Problem> {
        let text = self.write(typed);
        let reply = match self {
            Self::Address(..) => create_custom_integration(by, body(text)?).await,
            Self::Entry(_) => create_predefined_integration(by, body(text)?).await,
            Self::Server(_) => create_registry_integration(by, body(text)?).await,
        };
        Ok(reply?.value)
    }

    /// Returns the entered values as the API expects them, without empty fields. A server that
    /// fails its test is stored only on request.
    fn write(&self, typed: &Fields) -> Value {
        let mut body = json!({"validate": typed.get("action") != "force"});
        match self {
            Self::Address(..) => {
                body["serverUrl"] = typed.get("serverUrl").into();
                body["name"] = typed.get("name").into();
                typed.write(&mut body, &["slug", "authMethod", "headerName"]);
                typed.write_exact(&mut body, "credentials");
            }
            Self::Entry(entry) => {
                body["slug"] = entry.slug.as_str().into();
                typed.write(&mut body, &["name"]);
                typed.write_exact(&mut body, "credentials");
            }
            Self::Server(RegistryServer { server, version, inputs, .. }) => {
                body["server"] = server.as_str().into();
                body["version"] = version.as_str().into();
                typed.write(&mut body, &["name"]);
                typed.write_exact(&mut body, "url");
                for input in inputs {
                    let value = typed.get_exact(&input.field());
                    if !value.is_empty() {
                        body["inputs"][&input.name] = value.into();
                    }
                }
            }
        }
        body
    }

    /// Returns the names and labels of the fields of its form.
    fn labels(&self) -> &'static Labels {
        match self {
            Self::Address(..) => &LABELS,
            Self::Entry(_) => &[LABELS[0], LABELS[5]],
            Self::Server(_) => &[LABELS[0]],
        }
    }

    fn show(&self, visit: &Visit, mistake: FormError, tried: Option<Integration>) -> PageResult {
        let organisation = visit.query.get("organisation");
        let action = self.path().with("organisation", organisation).into_text();
        render(mistake.status(), &AddPage { visit, offer: self, action, mistake, tried })
    }
}

/// Shows the form that adds a server, with values from the address.
pub(crate) async fn show_form(visit: Visit, slug: Option<Path<String>>) -> PageResult {
    Offer::find(&visit, slug).await?.show(&visit, FormError::default(), None)
}

/// Tests the connection to a server, or adds it.
pub(crate) async fn add(visit: Visit, slug: Option<Path<String>>) -> PageResult {
    let offer = Offer::find(&visit, slug).await?;
    let is_trial = visit.form.get("action") == "try";
    let by = visit.by_here().await?;
    let by = if is_trial { by.trying() } else { by };
    match offer.add(by, &visit.form).await {
        Ok(added) if is_trial => offer.show(&visit, FormError::default(), Some(added)),
        Ok(added) => open_added(&visit, &added),
        Err(problem) => offer.show(&visit, FormError::read(problem, offer.labels())?, None),
    }
}

/// Redirects to the page of an added server.
fn open_added(visit: &Visit, added: &Integration) -> PageResult {
    let page = match visit.query.get("organisation") {
        "" => PagePath::new(&["servers", &added.slug]),
        name => PagePath::new(&["organisations", name]),
    };
    visit.done(page, format!("{} was added.", added.slug))
}
