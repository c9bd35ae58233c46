//! Tests of `registry`.

use parking_lot::Mutex;
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
    Registry::prepare("file", tools).map(|_| ()).unwrap_err()
}

#[test]
fn names_that_are_taken_or_cannot_be_are_refused() {
    assert_eq!(refused(named(&["file/read", "file/read"])), "there are two tools named file/read");
    for name in ["read", "web/read", "file/", "file/a b", "file/a/b"] {
        assert!(refused(named(&[name])).contains("must be named file/NAME"), "{name}");
    }
    let schema = refused(vec![Box::new(Named("file/read", json!({"a": {"pattern": "x"}})))]);
    assert_eq!(schema, "file/read: its input schema: the keyword `pattern` is not checked");
}

#[derive(Default)]
struct HeardEvents(Mutex<Vec<(String, String)>>);

impl Observer for HeardEvents {
    fn observe(&self, tool: &Arc<str>, event: Event<'_>) {
        let words = match event {
            Event::Executed { ended, .. } => format!("{ended:?}"),
            event => format!("{event:?}"),
        };
        self.0.lock().push((tool.to_string(), words));
    }
}

#[test]
fn observers_hear_of_tools_that_come_go_and_run() {
    let heard = Arc::new(HeardEvents::default());
    let registry = Registry::new(vec![Arc::clone(&heard) as _]);
    let tools = Registry::prepare("file", named(&["file/a", "file/b"])).unwrap();
    registry.install("file", &tools);
    registry.begin(&tools[0], "").ended = CallOutcome::Success;
    drop(registry.begin(&tools[1], ""));
    registry.install("file", &tools[..1]);
    registry.install("file", &[]);
    let expected = [
        ("file/a", "Registered"),
        ("file/b", "Registered"),
        ("file/a", "Success"),
        ("file/b", "Cancelled"),
        ("file/b", "Unregistered"),
        ("file/a", "Registered"),
        ("file/a", "Unregistered"),
    ];
    assert_eq!(*heard.0.lock(), expected.map(|(tool, event)| (tool.to_owned(), event.to_owned())));
}
