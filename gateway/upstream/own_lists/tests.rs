//! Tests of `own_lists`.

#![allow(clippy::unwrap_used)]

use super::*;

fn lists(tools: &[(&str, &'static str)]) -> Catalog {
    let mut catalog = Catalog::default();
    for (key, text) in tools {
        let item = Item { key: (*key).into(), text: text.as_bytes().into(), headers: None };
        catalog.lists[ListKind::Tools as usize].push(item);
    }
    catalog
}

fn added(own: &OwnLists) -> Vec<&str> {
    own.added(ListKind::Tools).iter().map(|item| &*item.key).collect()
}

fn removed(own: &OwnLists) -> Vec<&str> {
    own.removed(ListKind::Tools).iter().map(|key| &**key).collect()
}

#[test]
fn the_difference_is_what_is_new_other_or_missing() {
    let shared = lists(&[("a", "1"), ("b", "1"), ("c", "1")]);
    let own = OwnLists::compare(&lists(&[("d", "1"), ("a", "1"), ("b", "2")]), &shared, None);
    assert_eq!((added(&own), removed(&own)), (vec!["d", "b"], vec!["c"]));
    assert_eq!(own.kinds(), [ListKind::Tools]);
    assert!(OwnLists::compare(&shared, &shared, None).is_empty());
    let same = OwnLists::compare(&lists(&[("d", "1"), ("b", "2"), ("a", "1")]), &shared, None);
    assert_eq!(own.mark, same.mark, "whichever client has it");
    let other = OwnLists::compare(&lists(&[("d", "2"), ("a", "1"), ("b", "2")]), &shared, None);
    assert_ne!(own.mark, other.mark);
}

/// The shared lists depend on whether a client is interactive.
#[test]
fn a_client_is_compared_with_what_others_like_it_get() {
    let mut shared = lists(&[("a", "1")]);
    shared.asking = lists(&[("ask", "1")]).lists;
    let full = lists(&[("a", "1"), ("ask", "1")]);
    assert!(OwnLists::compare(&full, &shared, Some(Era::Legacy)).is_empty());
    assert_eq!(added(&OwnLists::compare(&full, &shared, None)), ["ask"]);
    shared.asking_era = Some(Era::Legacy);
    assert_eq!(added(&OwnLists::compare(&full, &shared, Some(Era::Modern))), ["ask"]);
}

#[test]
fn a_list_that_was_refused_removes_nothing() {
    let shared = lists(&[("a", "1")]);
    let refused = Catalog { omitted: vec!["tools: refused".to_owned()], ..Catalog::default() };
    assert!(OwnLists::compare(&refused, &shared, None).is_empty());
    assert_eq!(removed(&OwnLists::compare(&Catalog::default(), &shared, None)), ["a"]);
}

/// A read covers earlier announcements only; the end covers all.
#[tokio::test]
async fn what_is_announced_while_lists_are_read_is_read_again() {
    let state = OwnState::default();
    assert!(state.lists().is_none());
    state.settle().await;
    state.announce(Method::ToolsChanged);
    let (kinds, until) = state.begin_reading();
    assert_eq!(kinds, [ListKind::Tools]);
    state.announce(Method::PromptsChanged);
    state.set_read(until);
    assert!(state.lists().is_some_and(|lists| lists.is_empty()), "one is due");
    let waiting = tokio::time::timeout(std::time::Duration::from_millis(20), state.settle()).await;
    assert!(waiting.is_err());
    state.wait_until_stale().await;
    state.set_read(u64::MAX);
    state.settle().await;
    assert!(state.lists().is_none());
}
