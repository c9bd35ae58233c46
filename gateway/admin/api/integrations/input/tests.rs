//! Tests of `input`.

use super::*;

#[test]
fn integrations_are_filtered_by_their_state_origin_and_name() {
    let stored: Stored = serde_json::from_value(json!({
        "id": "int_1", "organisation": "acme", "slug": "git-hub", "name": "Code ALPHA",
        "kind": "custom", "catalogue": null, "url": null, "auth": {"method": "none"},
        "has_credentials": false, "enabled": true, "version": 1, "created_at": 0, "updated_at": 0,
    }))
    .unwrap();
    for (filter, is_admitted) in [
        (json!({}), true),
        (json!({"enabled": "true", "type": "custom"}), true),
        (json!({"enabled": "false"}), false),
        (json!({"type": "predefined"}), false),
        (json!({"search": "alph"}), true),
        (json!({"search": "Git-H"}), true),
        (json!({"search": "beta"}), false),
    ] {
        let query: ListQuery = serde_json::from_value(filter.clone()).unwrap();
        assert_eq!(query.admits(&stored), is_admitted, "{filter}");
    }
}
