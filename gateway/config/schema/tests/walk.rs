//! A list of the schema's keys with their defaults and ranges, for tests.

use serde_json::Value;

use crate::schema::{choices, resolve};

pub struct Key {
    /// Names from the root; `NAME` stands for any.
    pub path: Vec<String>,
    pub description: String,
    pub default: Option<Value>,
    pub range: Option<(u64, u64)>,
    pub section: bool,
    /// Among the settings that most people use.
    pub is_basic: bool,
}

/// Returns every key in order, sections before their keys.
pub fn keys() -> Vec<Key> {
    let schema = crate::schema();
    let mut keys = Vec::new();
    walk(&schema, &schema, &mut Vec::new(), &mut keys);
    keys
}

fn walk(root: &Value, at: &Value, path: &mut Vec<String>, keys: &mut Vec<Key>) {
    let at = resolve(root, at);
    let none = serde_json::Map::new();
    for (name, property) in at["properties"].as_object().unwrap_or(&none) {
        path.push(name.clone());
        let target = resolve(root, property);
        let below = resolve(root, &target["additionalProperties"]);
        let section = target.get("properties").is_some() || below.get("properties").is_some();
        keys.push(Key {
            path: path.clone(),
            description: property["description"].as_str().unwrap_or("").replace('\n', " "),
            default: property.get("default").cloned(),
            range: range(property),
            section,
            is_basic: property["x-level"] == "basic",
        });
        walk(root, target, path, keys);
        path.pop();
    }
    let any = &at["additionalProperties"];
    if any.is_object() {
        path.push("NAME".to_string());
        let target = resolve(root, any);
        if target.get("properties").is_none() {
            keys.push(Key {
                path: path.clone(),
                description: String::new(),
                default: None,
                range: range(any),
                section: false,
                is_basic: false,
            });
        }
        walk(root, target, path, keys);
        path.pop();
    }
}

fn range(property: &Value) -> Option<(u64, u64)> {
    for choice in choices(property) {
        if choice.get("maximum").is_some() {
            return Some((choice["minimum"].as_u64()?, choice["maximum"].as_u64()?));
        }
    }
    choices(property).iter().find_map(range)
}
