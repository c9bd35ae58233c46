//! Changed and unapproved tools: both definitions side by side, the tools with findings first. An
//! approval covers only the displayed definition.

use super::*;
use crate::api::pins::{self, Pin, PinApproval, PinDifference, ToolToApprove};
use crate::console::comparison::Comparison;

/// Number of tools per page: each must be reviewed.
const PART: &str = "10";
/// Maximum number of tools with suspicious text listed beside them.
const MAX_NAMED: &str = "200";

#[derive(Template)]
#[template(path = "pins.html")]
struct PinsPage<'a> {
    visit: &'a Visit,
    server: &'a str,
    /// Tools that differ from their approved definition; `None` if pinning is not configured.
    found: Option<Page<Changed>>,
    /// Tools with suspicious text that are approved or need no approval.
    suspects: Vec<Pin>,
    /// Tools that were rejected and stay hidden.
    rejected: Vec<Pin>,
    /// The reason that an approval was rejected; empty if none was.
    refusal: &'static str,
}

/// A tool with a comparison of its definitions.
struct Changed {
    pin: Pin,
    comparison: Comparison,
}

impl Pin {
    /// Returns the effect on callers of the tool.
    pub(crate) fn effect(&self) -> &'static str {
        match (self.quarantined, self.organization_id.is_some()) {
            (true, true) => "It is hidden from the organisation until it is approved.",
            (true, false) => "It is hidden until it is approved.",
            (false, _) => "It can still be called.",
        }
    }

    pub(crate) fn standing_text(&self) -> &'static str {
        match self.standing {
            Some("new") => "not approved yet",
            Some("changed") => "changed since it was approved",
            Some("rejected") => "kept hidden",
            _ => "has suspicious text",
        }
    }

    /// Returns the form value that identifies the displayed definition.
    fn reference(&self) -> String {
        format!("{} {}", self.fingerprint, self.name)
    }

    fn waits(&self) -> bool {
        matches!(self.standing, Some("new" | "changed"))
    }
}

impl Changed {
    fn new(PinDifference { pin, before, after, .. }: PinDifference) -> Self {
        let mut comparison = Comparison::new(before.as_ref(), &after);
        comparison.mark(&pin.findings);
        Self { pin, comparison }
    }
}

impl PinsPage<'_> {
    /// Returns the tools that one button approves: those with a complete comparison.
    fn choices(&self) -> Vec<&Changed> {
        let changed = self.found.iter().flat_map(|found| &found.items);
        changed.filter(|changed| !changed.comparison.is_too_long).collect()
    }
}

/// Returns the number of tools to review, and the first of them.
pub(crate) async fn find_pins(
    visit: &Visit,
    server: &str,
) -> Result<(usize, Option<Pin>), Problem> {
    let filter = query(&[("limit", "1"), ("server", server), ("sort", "findings")])?;
    let Json(found) = pins::list_pins(visit.by()?, filter).await?;
    Ok((found.total, found.items.into_iter().next()))
}

/// Shows the tools to review.
pub(crate) async fn list_pins(visit: Visit) -> PageResult {
    show_pins(&visit, StatusCode::OK, "").await
}

async fn show_pins(visit: &Visit, status: StatusCode, refusal: &'static str) -> PageResult {
    let search = visit.query.get("q");
    let server = visit.query.get("server");
    let filter = visit.list_query(PART, &[("server", server), ("sort", "findings")])?;
    let found = match pins::list_pin_differences(visit.by()?, filter).await {
        Ok(Json(found)) => Some(found.filter_map(|changed| Some(Changed::new(changed)))),
        Err(problem) if problem.code() == "NOTHING_PINNED" => None,
        Err(problem) => return Err(problem.into()),
    };
    let mut suspects = Vec::new();
    let mut rejected = Vec::new();
    if visit.query.get("after").is_empty() {
        let filter = [("search", search), ("server", server), ("limit", MAX_NAMED)];
        suspects = pins::list_pins(visit.by()?, query(&filter)?).await?.0.items;
        suspects.retain(|pin| !pin.waits());
        let filter = [filter[0], filter[1], filter[2], ("rejected", "true")];
        rejected = pins::list_pins(visit.by()?, query(&filter)?).await?.0.items;
    }
    render(status, &PinsPage { visit, server, found, suspects, rejected, refusal })
}

/// Approves all displayed definitions or none of them, or keeps them hidden.
pub(crate) async fn decide(visit: Visit) -> PageResult {
    let mut tools = Vec::new();
    for reference in visit.form.all("tool") {
        let Some((fingerprint, name)) = reference.split_once(' ') else { continue };
        let fingerprint = fingerprint.to_owned();
        tools.push(ToolToApprove { name: name.to_owned(), fingerprint });
    }
    let count = count(tools.len(), "tool", "tools");
    let page = PagePath::new(&["pins"])
        .with("server", visit.query.get("server"))
        .with("q", visit.query.get("q"));
    let body = Body(PinApproval { tools });
    let decided = if visit.form.get("action") == "hide" {
        let text = format!("Kept hidden: {count}, until the definition changes again.");
        pins::reject_pins(visit.by()?, body).await.map(|_| (Severity::Off, text))
    } else {
        let text = format!("Approved: {count} as shown.");
        pins::approve_pins(visit.by()?, body).await.map(|_| (Severity::Good, text))
    };
    let refusal = match decided {
        Ok((severity, text)) => return visit.redirect_with(page, severity, text),
        Err(problem) => match problem.code() {
            "PIN_CHANGED" => {
                "A tool changed again while you were reading. Nothing was approved. The current \
                    definition is below."
            }
            "PIN_NOT_FOUND" => {
                "A tool no longer waits: it was approved by another administrator, or its old \
                    definition is back. Your form changed nothing."
            }
            _ => return Err(problem.into()),
        },
    };
    show_pins(&visit, StatusCode::CONFLICT, refusal).await
}
