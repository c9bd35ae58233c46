//! Tests of `labels`.

use super::*;

const FIRST: OperationLabels = OperationLabels {
    method: "tools/call",
    revision: Some("2026-07-28"),
    network: Network::Http(Some("1.1")),
    ending: Ending::Success,
};

fn counts<const N: usize>(table: &Durations<N>) -> Vec<(OperationLabels, u64)> {
    let mut all = Vec::new();
    table.each(|labels, snapshot| all.push((*labels, snapshot.get_sample_count())));
    all
}

fn texts(pairs: &[LabelPair]) -> Vec<(&str, &str)> {
    pairs.iter().map(|pair| (pair.name(), pair.value())).collect()
}

#[test]
fn what_differs_is_counted_apart_up_to_the_bound() {
    let table = Durations::<5>::default();
    let failed = OperationLabels { ending: Ending::Failed("timeout"), ..FIRST };
    for labels in [FIRST, failed, FIRST] {
        table.observe(labels, Duration::from_millis(5));
    }
    assert_eq!(counts(&table), [(FIRST, 2), (failed, 1)]);
    for code in [-1, -2] {
        let labels = OperationLabels { ending: Ending::Error(code), ..FIRST };
        table.observe(labels, Duration::from_millis(5));
    }
    let older = OperationLabels { revision: Some("2025-11-25"), ..FIRST };
    for labels in [older, failed] {
        table.observe(labels, Duration::from_millis(5));
    }
    let other = OperationLabels { method: "", ending: Ending::Other, ..FIRST };
    let all = [(FIRST, 2), (failed, 2), (older, 1), (other, 2)];
    assert_eq!(counts(&table), all, "errors leave room for what succeeds");
}

#[test]
fn labels_are_named_as_the_conventions_name_them() {
    let refused = OperationLabels { ending: Ending::answered(-32602), ..FIRST };
    let pairs = refused.pairs(Some("read"));
    assert_eq!(
        texts(&pairs),
        [
            ("mcp_protocol_version", "2026-07-28"),
            ("network_transport", "tcp"),
            ("network_protocol_name", "http"),
            ("network_protocol_version", "1.1"),
            ("rpc_response_status_code", "-32602"),
            ("mcp_method_name", "tools/call"),
            ("gen_ai_operation_name", "execute_tool"),
            ("gen_ai_tool_name", "read"),
        ]
    );
    let broken = OperationLabels {
        method: "",
        revision: None,
        network: Network::Pipe,
        ending: Ending::answered(-32603),
    };
    let pairs = broken.pairs(None);
    assert_eq!(
        texts(&pairs),
        [
            ("network_transport", "pipe"),
            ("rpc_response_status_code", "-32603"),
            ("error_type", "-32603"),
            ("mcp_method_name", "_OTHER"),
        ]
    );
}
