//! Tests of `list`.

use super::{show as show_item, *};

fn adapt(raw: &str, slug: Option<&str>, revision: Revision) -> Option<String> {
    adapt_content(raw.as_bytes(), slug, revision).map(|out| String::from_utf8(out).unwrap())
}

#[test]
fn uris_are_namespaced_and_every_other_byte_stays() {
    let modern = Revision::V2026_07_28;
    let raw = r#"[{"type":"resource_link","uri":"file:///a","name":"a","size":1.10},{"type":"resource","resource":{"uri":"x://y","n":12345678901234567890123}},{"type":"text","text":"\"uri\": file:///a"}]"#;
    let new = r#"[{"type":"resource_link","uri":"wiki+file:///a","name":"a","size":1.10},{"type":"resource","resource":{"uri":"wiki+x://y","n":12345678901234567890123}},{"type":"text","text":"\"uri\": file:///a"}]"#;
    assert_eq!(adapt(raw, Some("wiki"), modern).as_deref(), Some(new));
    assert_eq!(adapt(raw, None, modern), None);
    assert_eq!(
        adapt(r#"[{"uri":"https://a/b","text":""}]"#, Some("wiki"), modern).as_deref(),
        Some(r#"[{"uri":"https://a/b","text":""}]"#)
    );
    assert_eq!(adapt(r#"[{"type":"text","text":"no links"}]"#, Some("wiki"), modern), None);
    let message = r#"[{"role":"user","content":{"type":"resource","resource":{"uri":"x://y"}}}]"#;
    assert_eq!(adapt(message, Some("w"), modern).unwrap(), message.replace("x://y", "w+x://y"));
}

#[test]
fn content_that_a_revision_does_not_know_becomes_text() {
    let link = r#"[{"type":"resource_link","uri":"file:///a","name":"A"}]"#;
    assert_eq!(
        adapt(link, None, Revision::V2025_03_26).unwrap(),
        r#"[{"type":"text","text":"A file:///a"}]"#
    );
    assert_eq!(adapt(link, None, Revision::V2025_06_18), None);
    let audio = r#"[{"type":"audio","mimeType":"audio/wav","data":"AA=="}]"#;
    assert_eq!(
        adapt(audio, None, Revision::V2024_11_05).unwrap(),
        r#"[{"type":"text","text":"[audio, audio/wav]"}]"#
    );
    assert_eq!(adapt(audio, None, Revision::V2025_03_26), None);
}

#[test]
fn items_are_taken_whole_and_bad_ones_are_told() {
    let text = Bytes::from_static(
        br#"{"tools":[{"name":"a","x":1,"inputSchema":{"type":"object"}},{"title":"none"},7,{"name":""},{"name":"b"},{"name":"c","inputSchema":{}}]}"#,
    );
    let (_, members) = Scanner::new(&text, 64).unwrap().members(Keys::Distinct).unwrap();
    let (items, bad) =
        items(&text, scan::find(&members, &text, "tools").unwrap(), &TOOL, 64).unwrap();
    assert_eq!(
        bad,
        [r#"tool "b": has no `inputSchema`"#, "3 without `name`, which tools must have"]
    );
    assert_eq!(items[0].key, "a");
    assert_eq!(items[0].text, &br#"{"name":"a","x":1,"inputSchema":{"type":"object"}}"#[..]);
    assert_eq!(items[1].text, &br#"{"name":"c","inputSchema":{"type":"object"}}"#[..]);
}

#[test]
fn items_are_shown_as_the_revision_knows_them() {
    let item = r#"{"name":"a","title":"A","execution":{"taskSupport":"optional"},"inputSchema":{"type":"object","properties":{"r":{"type":"string","x-mcp-header":"R"}}},"outputSchema":{"type":"array"},"vendor":{"n":1.0}}"#;
    let show = |revision, slug| {
        let mut out = Vec::new();
        show_item(&mut out, item.as_bytes(), &Shown { key: ("name", "s__a"), slug, revision })
            .unwrap();
        String::from_utf8(out).unwrap()
    };
    let modern = show(Revision::V2026_07_28, Some("s"));
    assert!(
        modern.contains(r#""name":"s__a""#)
            && modern.contains("x-mcp-header")
            && modern.contains("outputSchema"),
        "{modern}"
    );
    assert!(
        !modern.contains("execution") && modern.ends_with(r#""vendor":{"n":1.0}}"#),
        "{modern}"
    );
    let legacy = show(Revision::V2025_11_25, None);
    assert!(
        legacy.contains("execution")
            && !legacy.contains("x-mcp-header")
            && !legacy.contains("outputSchema"),
        "{legacy}"
    );
}

#[test]
fn views_of_apps_lead_back_through_the_gateway() {
    let item = br#"{"name":"a","_meta":{"ui":{"resourceUri":"ui://x/y"},"ui/resourceUri":"ui://x/y","other":1}}"#;
    let mut out = Vec::new();
    show_item(
        &mut out,
        item,
        &Shown { key: ("name", "s__a"), slug: Some("s"), revision: Revision::V2025_11_25 },
    )
    .unwrap();
    let out = String::from_utf8(out).unwrap();
    assert_eq!(out.matches("ui://s+x/y").count(), 2, "{out}");
}
