//! `catalogue`: servers that organisations may add, with address and authentication.

use std::collections::BTreeMap;

use lockgate_registry::{Auth, Catalogue, CatalogueEntry};

use super::{Check, is_slug};
use crate::raw::leaf::Text;
use crate::raw::text_of;
use crate::raw::{self, AuthMethod};

/// The same maximum as for servers.
const MAX_ENTRIES: usize = 256;
const TITLE_CHARS: usize = 100;
const DESCRIPTION_BYTES: usize = 1000;

impl Check<'_> {
    pub fn catalogue(&mut self, raw: &BTreeMap<String, raw::CatalogueEntry>) -> Catalogue {
        if raw.len() > MAX_ENTRIES {
            let what = format!("has {} entries, but at most {MAX_ENTRIES} are possible", raw.len());
            self.error(&["catalogue"], what, "remove unused entries");
        }
        let mut catalogue = Catalogue::new();
        for (slug, entry) in raw {
            if !is_slug(slug) {
                let what = "the name of an entry must be 1 to 64 of a-z, 0-9 and -";
                let hint = "rename it; set the display name in `title`";
                self.error(&["catalogue", slug], what, hint);
            }
            if let Some(entry) = self.catalogue_entry(slug, entry) {
                catalogue.insert(slug.clone(), entry);
            }
        }
        catalogue
    }

    fn catalogue_entry(&mut self, slug: &str, raw: &raw::CatalogueEntry) -> Option<CatalogueEntry> {
        let title = raw.title.as_ref().map_or(slug, |Text(title)| title.trim());
        if title.is_empty() || title.chars().count() > TITLE_CHARS {
            let what = format!("must have 1 to {TITLE_CHARS} characters");
            self.error(&["catalogue", slug, "title"], what, "use a short display name");
        }
        let path = ["catalogue", slug, "description"];
        self.short(&path, raw.description.as_ref(), DESCRIPTION_BYTES);
        let auth = self.catalogue_auth(slug, raw);
        let Some(url) = &raw.url else {
            if !self.layers.damaged(&["catalogue", slug]) {
                let hint = "such as https://mcp.example.com/mcp";
                self.error(&["catalogue", slug], "requires `url`", hint);
            }
            return None;
        };
        let url = self.remote_url(&["catalogue", slug, "url"], url)?;
        Some(CatalogueEntry {
            title: title.to_owned(),
            description: text_of(&raw.description),
            url,
            auth: auth?,
        })
    }

    fn catalogue_auth(&mut self, slug: &str, raw: &raw::CatalogueEntry) -> Option<Auth> {
        let path = ["catalogue", slug, "header"];
        let auth = match (raw.auth, &raw.header) {
            (AuthMethod::None, None) => Auth::None,
            (AuthMethod::BearerToken, None) => Auth::BearerToken,
            (AuthMethod::User, None) => Auth::User,
            (AuthMethod::UserHeaders, header) => Auth::UserHeaders { header: text_of(header) },
            (AuthMethod::ApiKey, Some(header)) => Auth::ApiKey { header: header.0.clone() },
            (AuthMethod::ApiKey, None) => {
                let key = ["catalogue", slug, "auth"];
                self.error(&key, "`api_key` requires `header`", "such as X-Api-Key");
                return None;
            }
            (AuthMethod::None | AuthMethod::BearerToken | AuthMethod::User, Some(_)) => {
                let what = "is only valid with `auth: api_key` and `user_headers`";
                self.error(&path, what, "remove it");
                return None;
            }
        };
        match auth.checked() {
            Ok(auth) => Some(auth),
            Err(field) => {
                self.error(&path, field.message, field.way_out);
                None
            }
        }
    }
}
