//! The keys of the schema with their defaults and ranges, one by one, for tests.

use serde_json::Value;

pub struct Key {
    /// Names from the root; `NAME` stands for any.
    pub path: Vec<String>,
    pub description: String,
    pub default: Option<Value>,
    /// Smallest and largest number.
    pub range: Option<(u64, u64)>,
    /// It has keys below it.
    pub section: bool,
}

/// Every key, in order, sections before their keys.
pub fn keys() -> Vec<Key> {
    let schema = crate::schema();
    let mut keys = Vec::new();
    walk(&schema, &schema, &mut Vec::new(), &mut keys);
    keys
}

fn walk(root: &Value, at: &Value, path: &mut Vec<String>, keys: &mut Vec<Key>) {
    let at = resolve(root, at);
    for (name, property) in at["properties"].as_object().into_iter().flatten() {
        path.push(name.clone());
        let target = resolve(root, property);
        let below = resolve(root, &target["additionalProperties"]);
        let section = target.get("properties").is_some() || below.get("properties").is_some();
        keys.push(Key {
            path: path.clone(),
            description: property["description"].as_str().unwrap_or_default().replace('\n', " "),
            default: property.get("default").cloned(),
            range: range(property),
            section,
        });
        walk(root, target, path, keys);
        path.pop();
    }
    if let Some(any) = at.get("additionalProperties").filter(|any| any.is_object()) {
        path.push("NAME".to_string());
        let target = resolve(root, any);
        if target.get("properties").is_none() {
            keys.push(Key {
                path: path.clone(),
                description: String::new(),
                default: None,
                range: range(any),
                section: false,
            });
        }
        walk(root, target, path, keys);
        path.pop();
    }
}

fn range(property: &Value) -> Option<(u64, u64)> {
    let choices = property["anyOf"].as_array().into_iter().flatten();
    let nested =
        choices.clone().flat_map(|choice| choice["anyOf"].as_array().into_iter().flatten());
    let number = choices.clone().chain(nested).find(|choice| choice.get("maximum").is_some())?;
    Some((number["minimum"].as_u64()?, number["maximum"].as_u64()?))
}

fn resolve<'a>(root: &'a Value, at: &'a Value) -> &'a Value {
    let at = match at["anyOf"].as_array() {
        Some(choices) => choices.iter().find(|choice| choice.get("$ref").is_some()).unwrap_or(at),
        None => at,
    };
    match at["$ref"].as_str().and_then(|name| name.strip_prefix("#/$defs/")) {
        Some(name) => &root["$defs"][name],
        None => at,
    }
}
