//! Items that clients can read, and repairs of items with unambiguous faults.

mod skill;

use super::*;

fn check(form: &Form, item: &str) -> Result<Option<String>, String> {
    form.check(item.as_bytes()).map(|text| text.map(|text| String::from_utf8(text).unwrap()))
}

#[test]
fn items_that_clients_read_stay_as_they_are() {
    let items = [
        (&TOOL, r#"{"name":"a","inputSchema":{"type":"object"}}"#),
        (
            &TOOL,
            r#"{"name":"a","title":"A","description":"d","inputSchema":{"type":"object","properties":{"x":true},"required":["x"],"oneOf":[]},"outputSchema":{"type":"array"},"annotations":{"title":"t","readOnlyHint":true,"later":1},"icons":[{"src":"https://a/b"}],"execution":{"taskSupport":"optional"},"_meta":{},"unknown":[1]}"#,
        ),
        (&PROMPT, r#"{"name":"p","arguments":[{"name":"a","description":"d","required":false}]}"#),
        (
            &RESOURCE,
            r#"{"uri":"a:b","name":"n","size":12,"annotations":{"audience":["user"],"priority":0.5}}"#,
        ),
        (&TEMPLATE, r#"{"uriTemplate":"a:{b}","name":"n","mimeType":"text/plain"}"#),
    ];
    for (form, item) in items {
        assert_eq!(check(form, item), Ok(None), "{item}");
    }
}

#[test]
fn items_that_would_cost_a_client_its_whole_list_are_refused_with_the_reason() {
    let items = [
        (&TOOL, r#"{"name":"a"}"#, "has no `inputSchema`"),
        (&TOOL, r#"{"name":"a","inputSchema":null}"#, "has no `inputSchema`"),
        (
            &TOOL,
            r#"{"name":"a","inputSchema":"x"}"#,
            "`inputSchema` must be a schema whose `type` is \"object\"",
        ),
        (
            &TOOL,
            r#"{"name":"a","inputSchema":{"type":"string"}}"#,
            "`inputSchema` must be a schema whose `type` is \"object\"",
        ),
        (
            &TOOL,
            r#"{"name":"a","inputSchema":{},"description":7}"#,
            "`description` must be a string",
        ),
        (
            &TOOL,
            r#"{"name":"a","inputSchema":{},"annotations":{"readOnlyHint":"yes"}}"#,
            "`annotations` must be an object with boolean hints",
        ),
        (
            &TOOL,
            r#"{"name":"a","inputSchema":{},"icons":["x"]}"#,
            "`icons` must be a list of objects with a string `src`",
        ),
        (
            &PROMPT,
            r#"{"name":"p","arguments":{"a":1}}"#,
            "`arguments` must be a list of objects with a string `name`",
        ),
        (&RESOURCE, r#"{"uri":"a:b"}"#, "has no `name`"),
        (&RESOURCE, r#"{"uri":"a:b","name":"n","size":"12"}"#, "`size` must be a number"),
        (&TEMPLATE, r#"{"uriTemplate":"a:b","name":7}"#, "`name` must be a string"),
    ];
    for (form, item, words) in items {
        assert_eq!(check(form, item), Err(words.into()), "{item}");
    }
}

#[test]
fn what_means_only_one_thing_is_repaired_and_every_other_byte_stays() {
    assert_eq!(
        check(
            &TOOL,
            r#"{"name":"a", "description":null,"inputSchema": { "properties":{"n":1.10} },"x":null}"#
        ),
        Ok(Some(
            r#"{"name":"a","inputSchema":{"type":"object","properties":{"n":1.10} },"x":null}"#
                .into()
        ))
    );
    assert_eq!(
        check(&TOOL, r#"{"name":"a","inputSchema":{ }}"#),
        Ok(Some(r#"{"name":"a","inputSchema":{"type":"object"}}"#.into()))
    );
}
