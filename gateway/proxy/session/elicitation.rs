//! Elicitations that lead a client elsewhere (`mode: url`): 2025-11-25 gives each an id, by which its
//! server says later that it is complete. The ids that clients see are ours; modern servers have
//! none.

use std::collections::VecDeque;

use lockgate_protocol::method::Method;
use lockgate_protocol::write::{self, Object};
use serde_json::Value;

use super::Session;

/// Elicitations of one session that may still be said to be complete; the oldest go.
const MAX_OPEN: usize = 64;

/// Those of one session.
#[derive(Default)]
pub(super) struct Elicitations(VecDeque<Open>);

struct Open {
    /// The id that the client knows.
    shown: String,
    slug: String,
    own: String,
}

impl Session {
    /// An elicitation as this session's client gets it: one that leads elsewhere has an id of ours.
    /// `None` where nothing changes.
    pub(super) fn mark_elicitation(
        &self,
        slug: &str,
        method: Method,
        params: &[u8],
    ) -> Option<Vec<u8>> {
        if method != Method::Elicit {
            return None;
        }
        let Ok(Value::Object(mut all)) = serde_json::from_slice(params) else { return None };
        if all.get("mode").and_then(Value::as_str) != Some("url") {
            return None;
        }
        let mut random = [0u8; 16];
        getrandom::fill(&mut random).ok()?;
        let mut shown = String::with_capacity(32);
        for byte in random {
            shown.push_str(&format!("{byte:02x}"));
        }
        let own = all.insert("elicitationId".into(), shown.as_str().into());
        if let Some(Value::String(own)) = own {
            self.state(|state| {
                let Elicitations(open) = &mut state.elicitations;
                if open.len() >= MAX_OPEN {
                    open.pop_front();
                }
                open.push_back(Open { shown, slug: slug.to_owned(), own });
            });
        }
        Some(Value::Object(all).to_string().into_bytes())
    }

    /// Tells the client that an elicitation of a server is complete, once.
    pub(super) fn tell_elicitation_complete(&self, slug: &str, own: &str) {
        let shown = self.state(|state| {
            let Elicitations(open) = &mut state.elicitations;
            let at = open.iter().position(|one| one.slug == slug && one.own == own)?;
            Some(open.remove(at)?.shown)
        });
        let (Some(shown), Some(log)) = (shown, self.log(0)) else { return };
        let mut params = Vec::new();
        let mut object = Object::open(&mut params);
        object.string("elicitationId", &shown);
        object.close();
        log.push(write::notification(Method::ElicitationComplete.as_str(), &params).into());
    }
}
