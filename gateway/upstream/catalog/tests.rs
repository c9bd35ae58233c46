//! Tests of `catalog`.

use super::*;

struct Room(Arc<Budget>);

impl ListAccount for Room {
    fn budget(&self) -> &Arc<Budget> {
        &self.0
    }

    fn make_room(&self, _: usize) {}
}

#[test]
fn lists_hold_what_they_take_until_nobody_has_them() {
    let (own, all) = (Arc::new(Budget::new(100)), Arc::new(Budget::new(150)));
    let hold = || {
        let accounts = [&own, &all].map(|budget| Arc::new(Room(Arc::clone(budget))) as _);
        ListHold::in_accounts(accounts.into(), 90)
    };
    let mut first = hold();
    assert_eq!(first.grow(80), Ok(()));
    assert_eq!(first.grow(11), Err(NoRoom::OfServer));
    assert_eq!(hold().grow(21), Err(NoRoom::OfAll));
    let known = first.finish();
    let mut merged = ListMemory::default();
    merged.add(&known);
    assert_eq!((own.used(), all.used()), (80, 80));
    drop(known);
    assert_eq!(own.used(), 80, "somebody has them");
    drop(merged);
    assert_eq!((own.used(), all.used()), (0, 0));
}

#[test]
fn the_first_bytes_of_a_server_of_the_operator_are_free() {
    let budget = Arc::new(Budget::new(10));
    let mut hold = ListHold::of_operator(&budget);
    assert_eq!(hold.grow(UNCHARGED_BYTES), Ok(()));
    assert_eq!((hold.grow(10), budget.used()), (Ok(()), 10));
    assert_eq!(hold.grow(1), Err(NoRoom::OfAll));
}

fn item(kind: ListKind, key: &str, more: &str) -> Item {
    let rest = match kind {
        ListKind::Tools if more.is_empty() => r#","inputSchema":{"type":"object"}"#,
        ListKind::Tools | ListKind::Prompts => "",
        ListKind::Resources | ListKind::Templates => r#","name":"n""#,
        ListKind::Skills => {
            r#","resources":"dynamic","frontmatter":{"name":"s","description":"d"}"#
        }
    };
    let text = format!(r#"{{"{}": "{key}" {rest}{more}}}"#, kind.key());
    let headers = kind.headers(text.as_bytes()).unwrap();
    Item { key: key.into(), text: text.into(), headers }
}

fn catalog() -> Catalog {
    let with_header = r#","inputSchema":{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A"}}}"#;
    Catalog {
        version: 7,
        lists: [
            vec![
                item(ListKind::Tools, "one", with_header),
                item(ListKind::Tools, "zw\u{f6}lf", ""),
            ],
            vec![item(ListKind::Prompts, "p", "")],
            vec![item(ListKind::Resources, "file:///a", "")],
            vec![item(ListKind::Templates, "file:///{a}", "")],
            vec![item(ListKind::Skills, "skill://s/SKILL.md", "")],
        ],
        asking: std::array::from_fn(|kind| match kind {
            0 => vec![item(ListKind::Tools, "ask", "")],
            _ => Vec::new(),
        }),
        asking_era: Some(Era::Legacy),
        instructions: Some("say \"please\"".into()),
        offers: Offers { tools: true, subscribe: true, skills: true, ..Offers::default() },
        extensions: Some(Bytes::from_static(b"{\"x/y\": {}}")),
        ttl_ms: Some(60_000),
        public: true,
        has_headers: true,
        refused: None,
        omitted: vec!["tools: one more".to_owned()],
        read_at: None,
        memory: ListMemory::default(),
    }
}

#[test]
fn what_is_kept_is_read_back_byte_for_byte() {
    let (kept, then) = (catalog(), SystemTime::UNIX_EPOCH);
    let tools = kept.items(ListKind::Tools);
    assert!(tools[0].headers.is_some());
    let read = Catalog::decode(kept.encode().into(), then).unwrap();
    assert!(read.same_as(&kept), "{read:?}");
    assert_eq!((read.ttl_ms, read.has_headers), (kept.ttl_ms, true));
    assert_eq!((read.read_at, read.version), (Some(then), 0));
    assert_eq!(read.items(ListKind::Tools)[0].headers, tools[0].headers);
    assert_eq!(read.items(ListKind::Tools)[1].text, tools[1].text);
    let nothing = Catalog::decode(Catalog::default().encode().into(), then).unwrap();
    assert!(nothing.same_as(&Catalog::default()));
}

#[test]
fn what_is_damaged_is_not_read() {
    let whole = catalog().encode();
    for end in 0..whole.len() {
        let part = Bytes::copy_from_slice(&whole[..end]);
        assert!(Catalog::decode(part, SystemTime::now()).is_none(), "{end}");
    }
    let text = String::from_utf8(whole).unwrap();
    for (from, to) in [
        ("\"form\":1", "\"form\":2"),
        ("\"tools\":[{", "\"tools\":[1,{"),
        ("\"name\": \"one\"", "\"name\": 1"),
        ("\"about\"", "\"abort\""),
    ] {
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text, "{from}");
        assert!(Catalog::decode(changed.into(), SystemTime::now()).is_none(), "{from}");
    }
}
