//! Tests of `registry`.

use serde_json::{Value, json};

use super::*;
use crate::tool::{Arguments, Client, Output, Tool, ToolError};

struct Named(&'static str, Value);

impl Tool for Named {
    fn spec(&self) -> ToolSpec {
        ToolSpec::new(self.0, "Title", "Description").input(self.1.clone())
    }

    async fn run(&self, _: Arguments, _: Client<'_>) -> Result<Output, ToolError> {
        Ok(json!({}).into())
    }
}

fn named(names: &[&'static str]) -> Vec<Box<dyn AnyTool>> {
    names.iter().map(|name| Box::new(Named(name, json!({}))) as _).collect()
}

fn refused(tools: Vec<Box<dyn AnyTool>>) -> String {
    Registry::default().prepare("file", tools).map(|_| ()).unwrap_err()
}

#[test]
fn names_that_are_taken_or_cannot_be_are_refused() {
    assert_eq!(refused(named(&["file/read", "file/read"])), "there are two tools named file/read");
    for name in ["read", "web/read", "file/", "file/a b", "file/a/b"] {
        assert!(refused(named(&[name])).contains("must be named file/NAME"), "{name}");
    }
    let schema = refused(vec![Box::new(Named("file/read", json!({"a": {"pattern": 1}})))]);
    assert!(schema.starts_with("file/read: its input schema: "), "{schema}");
}

#[test]
fn runs_are_counted_and_kept_while_a_tool_is_registered() {
    let registry = Registry::default();
    let prepare = || registry.prepare("file", named(&["file/a", "file/b"])).unwrap();
    let tools = prepare();
    registry.install("file", &tools);
    tools[0].begin("").ended = CallOutcome::Success;
    drop(tools[1].begin(""));
    let counts = || {
        let all = registry.all();
        let counts = all.iter().map(|tool| tool.figures(None));
        counts.map(|figures| (figures.successes, figures.cancelled)).collect::<Vec<_>>()
    };
    assert_eq!(counts(), [(1, 0), (0, 1)]);
    registry.install("other", &[]);
    let run = tools[0].begin("");
    registry.install("file", &prepare()[..1]);
    assert_eq!(counts(), [(1, 0)], "another tool of the same name");
    drop(run);
    assert_eq!(counts(), [(1, 1)], "a run that began before the replacement");
    registry.install("file", &prepare()[1..]);
    registry.install("file", &prepare());
    assert_eq!(counts(), [(0, 0), (0, 0)]);
}

#[test]
fn an_organisation_has_figures_of_its_own() {
    let tools = Registry::default().prepare("file", named(&["file/a"])).unwrap();
    let run = |organisation: &str, ms| {
        let took = Duration::from_millis(ms);
        tools[0].runs.lock().add(organisation, took, CallOutcome::Success);
    };
    run("acme", 10);
    run("acme", 20);
    run("", 40);
    let figures = |organisation| {
        let figures = tools[0].figures(organisation);
        (figures.invocations, figures.p95.as_millis())
    };
    assert_eq!(figures(Some("acme")), (2, 20));
    assert_eq!(figures(Some("")), (1, 40));
    assert_eq!(figures(Some("other")), (0, 0));
    assert_eq!(figures(None), (3, 40));
    for n in 0..MAX_ORGANISATIONS {
        run(&format!("new{n}"), 1);
    }
    assert_eq!(tools[0].runs.lock().organisations.len(), MAX_ORGANISATIONS);
    assert_eq!(figures(Some("acme")), (0, 0), "the least lately used goes");
    assert_eq!(figures(None).0, 3 + MAX_ORGANISATIONS as u64);
}
