//! Tests of `api`: consistency of the table of routes and the document.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{document, is_public, routes};

const PERMISSIONS: [&str; 4] = ["public", "user", "admin", "operator"];

fn described() -> Value {
    serde_json::from_str(&document::PUBLISHED.text).unwrap()
}

/// Returns the method, path and description of every operation.
fn operations(document: &Value) -> Vec<(String, String, Value)> {
    let mut all = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            all.push((method.clone(), path.clone(), operation.clone()));
        }
    }
    all
}

/// Collects every `$ref`.
fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            for (key, inner) in object {
                match inner {
                    Value::String(to) if key == "$ref" => drop(found.insert(to.clone())),
                    _ => references(inner, found),
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|inner| references(inner, found)),
        _ => {}
    }
}

#[test]
fn every_operation_has_a_permission_an_id_and_words() {
    let document = described();
    let table = routes::describe();
    let all = operations(&document);
    assert_eq!(all.len(), table.len(), "the table and the document have the same routes");
    assert!(all.len() >= 31, "{}", all.len());
    let mut ids = BTreeSet::new();
    for (method, path, operation) in all {
        let permission = operation["x-permission"].as_str().unwrap_or_default();
        assert!(PERMISSIONS.contains(&permission), "{method} {path}: {permission:?}");
        let open = operation["security"] == Value::Array(Vec::new());
        let path_below_api = format!("/api{}", path.trim_end_matches('/'));
        assert_eq!(permission == "public", open, "{method} {path}");
        assert_eq!(permission == "public", is_public(&path_below_api), "{method} {path}");
        assert!(ids.insert(operation["operationId"].to_string()), "{method} {path}: its id");
        let summary = operation["summary"].as_str().unwrap_or_default();
        assert!(!summary.is_empty(), "{method} {path}: no words");
        assert!(operation["responses"]["default"].is_object(), "{method} {path}");
    }
}

#[test]
fn the_document_is_complete_in_itself() {
    let document = described();
    assert_eq!(document["openapi"], "3.1.0");
    let mut found = BTreeSet::new();
    references(&document, &mut found);
    assert!(found.len() >= 10, "{found:?}");
    for reference in found {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
}

/// Collects every schema of an object.
fn objects<'a>(value: &'a Value, found: &mut Vec<&'a Value>) {
    match value {
        Value::Object(members) => {
            if value["type"] == "object" || value["type"] == json!(["object", "null"]) {
                found.push(value);
            }
            members.values().for_each(|inner| objects(inner, found));
        }
        Value::Array(items) => items.iter().for_each(|inner| objects(inner, found)),
        _ => {}
    }
}

#[test]
fn every_response_is_described_and_every_error_is_a_problem() {
    let mut errors = 0;
    for (method, path, operation) in operations(&described()) {
        for (status, response) in operation["responses"].as_object().unwrap() {
            if response["$ref"] == "#/components/responses/Problem" {
                continue;
            }
            let description = response["description"].as_str().unwrap_or_default();
            assert!(!description.is_empty(), "{method} {path} {status}: no description");
            if status.as_str() >= "400" {
                let problem = &response["content"]["application/problem+json"]["schema"];
                assert_eq!(problem["$ref"], "#/components/schemas/Problem", "{method} {path}");
                errors += 1;
            }
        }
    }
    assert!(errors >= 60, "{errors}");
}

#[test]
fn objects_without_named_members_are_open() {
    let document = described();
    let mut found = Vec::new();
    objects(&document, &mut found);
    let unnamed: Vec<_> = found.iter().filter(|one| one.get("properties").is_none()).collect();
    assert!(unnamed.len() >= 10, "{}", unnamed.len());
    for object in unnamed {
        assert_ne!(object["additionalProperties"], Value::Null, "{object}");
        assert_ne!(object["additionalProperties"], false, "{object}");
    }
    let waiting = &document["components"]["schemas"]["WaitingApproval"];
    assert_eq!(waiting["additionalProperties"], true, "{waiting}");
    let arguments = &document["components"]["schemas"]["Execution"]["properties"]["arguments"];
    assert_eq!(arguments["additionalProperties"], true, "{arguments}");
}

#[test]
fn a_body_is_required_where_a_member_of_it_is() {
    let document = described();
    let is_required = |method: &str, path: &str| {
        document["paths"][path][method]["requestBody"]["required"].as_bool().unwrap()
    };
    assert!(!is_required("post", "/tools/{name}/execute"));
    assert!(!is_required("patch", "/mcp-integrations/{id}"));
    assert!(!is_required("post", "/mcp/{method}"));
    assert!(is_required("post", "/agents"));
    assert!(is_required("post", "/mcp-integrations/custom"));
}

#[test]
fn creations_depend_on_no_version() {
    let mut creations = 0;
    for (method, path, operation) in operations(&described()) {
        let Some(parameters) = operation["parameters"].as_array() else { continue };
        let takes = |name: &str| parameters.iter().any(|parameter| parameter["name"] == name);
        if operation["responses"].get("201").is_some() && takes("Idempotency-Key") {
            assert!(!takes("If-Match"), "{method} {path}");
            creations += 1;
        }
    }
    assert_eq!(creations, 5);
}

#[test]
fn operators_name_an_organisation_wherever_it_has_something() {
    let others = [
        "/",
        "/openapi.json",
        "/me",
        "/events",
        "/settings",
        "/policies/",
        "/approvals",
        "/audit/verify",
    ];
    for (method, path, operation) in operations(&described()) {
        let is_of_none = others.iter().any(|start| match start.len() {
            1 => path == *start,
            _ => path.starts_with(start),
        });
        if is_of_none || path.starts_with("/organisations") || path.ends_with("/available") {
            continue;
        }
        let parameters = operation["parameters"].as_array();
        let mut parameters = parameters.into_iter().flatten();
        assert!(parameters.any(|one| one["name"] == "organizationId"), "{method} {path}");
    }
}

#[test]
fn the_page_shows_every_operation_and_loads_nothing() {
    let page = &document::PUBLISHED.page;
    for operation in operations(&described()) {
        let line = format!(
            "<b>{}</b> <code>/api{}</code>",
            operation.0.to_uppercase(),
            operation.1.trim_end_matches('/')
        );
        assert!(page.contains(&line), "{line}");
    }
    for foreign in ["<script", "src=", "http://", "https://", "@import", "url("] {
        assert!(!page.contains(foreign), "{foreign}");
    }
}
