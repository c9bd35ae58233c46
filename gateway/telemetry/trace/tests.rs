//! Tests of `trace`.

#![allow(clippy::unwrap_used)]

use super::*;

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

#[test]
fn a_valid_parent_is_read_and_written_alike() {
    let context =
        TraceContext::parse(PARENT, Some("rojo=00f067aa0ba902b7, congo@sys=t61rcWkgMzE")).unwrap();
    assert_eq!(context.trace_id(), 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c);
    assert_eq!(context.span_id(), 0xb7ad_6b71_6920_3331);
    assert!(context.is_sampled());
    assert_eq!(context.traceparent().as_str(), PARENT);
    assert_eq!(context.tracestate(), Some("rojo=00f067aa0ba902b7, congo@sys=t61rcWkgMzE"));
}

#[test]
fn what_breaks_the_rules_is_no_context() {
    let cases = [
        "",
        "00",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-1",
        "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-B7AD6B7169203331-01",
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        "00-0af7651916cd43dd8448eb211c80319g-b7ad6b7169203331-01",
        "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "0-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-extra",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01 ",
        " 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01x",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-é",
    ];
    for text in cases {
        assert_eq!(TraceContext::parse(text, None), None, "{text}");
    }
}

#[test]
fn later_versions_are_read_as_the_first_and_unknown_flags_are_dropped() {
    for text in [
        "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-ff",
        "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-03-more",
    ] {
        let context = TraceContext::parse(text, None).unwrap();
        assert_eq!(
            context.traceparent().as_str(),
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-03",
            "{text}"
        );
    }
}

#[test]
fn a_bad_tracestate_is_dropped_without_the_parent() {
    let many: String = (0..33).map(|number| format!("k{number}=v,")).collect();
    let long = format!("k={}", "v".repeat(600));
    for bad in [
        "", "a", "a=1,a=2", "A=1", "a=é", "a=", "a=b=c", "1a=1", "a@1b=1", "a\n=1", "@a=1", &many,
        &long,
    ] {
        assert_eq!(TraceContext::parse(PARENT, Some(bad)).unwrap().tracestate(), None, "{bad}");
    }
    for good in ["a=1", "a=1,,b=2", " a=1\t,\tb=2", "1a@b=1", "a_-*/9=x y"] {
        assert_eq!(TraceContext::parse(PARENT, Some(good)).unwrap().tracestate(), Some(good));
    }
}

#[test]
fn a_child_stays_in_the_trace_with_a_span_of_its_own() {
    let parent =
        TraceContext::parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00", Some("a=1"))
            .unwrap();
    let child = parent.child();
    assert_eq!((child.trace_id(), child.tracestate()), (parent.trace_id(), Some("a=1")));
    assert_ne!(child.span_id(), parent.span_id());
    assert!(!child.is_sampled());
    let (one, two) = (TraceContext::root(true), TraceContext::root(true));
    assert_ne!(one.trace_id(), two.trace_id());
    assert!(one.is_sampled());
    assert_eq!(TraceContext::parse(one.traceparent().as_str(), None), Some(one));
}
