//! Measures the cost of a decision with many policies loaded: `cargo run --release -p
//! lockgate-policy --example decision_cost`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use lockgate_policy::{
    Annotations, Config, Document, Policy, PolicyEntry, Question, Subject, Target, TargetKind, file,
};
use serde_json::{Value, json};

const POLICIES: usize = 1000;

fn config() -> Config {
    let mut all: Vec<Value> = (0..POLICIES - 2)
        .map(|n| {
            json!({
                "name": format!("p{n}"), "effect": if n % 5 == 0 { "deny" } else { "allow" },
                "who": {"roles": [format!("role{}", n % 50)]},
                "what": {"tools": [format!("server{n}/*"), format!("server{n}__tool_{n}"), format!("*_{n}_*")]},
            })
        })
        .collect();
    all.push(json!({"name": "open", "effect": "allow", "what": {"tools": ["open/*"]}}));
    all.push(json!({"name": "select", "effect": "allow", "what": {"tools": ["db/query"]}, "arguments": {"/sql": {"sql": {"max_rows": 1000}}}}));
    let entry = |source: Value| {
        let policy: file::Policy =
            serde_json::from_value(source.clone()).unwrap_or_else(|e| panic!("{e}"));
        PolicyEntry { policy, line: 0, source }
    };
    let document =
        Document { name: "bench".into(), policies: all.into_iter().map(entry).collect() };
    Config { documents: vec![document], ..Config::default() }
}

/// Prints the time per round, the best of several windows.
fn measure(what: &str, mut round: impl FnMut()) {
    let mut best = Duration::MAX;
    for _ in 0..7 {
        let began = Instant::now();
        let mut rounds = 0;
        while began.elapsed() < Duration::from_millis(150) {
            (0..100).for_each(|_| round());
            rounds += 100;
        }
        best = best.min(began.elapsed() / rounds);
    }
    #[allow(clippy::print_stdout)]
    {
        println!("{what:60} {:8.2} µs", best.as_secs_f64() * 1e6);
    }
}

fn main() {
    let began = Instant::now();
    let policy = Policy::compile(&config()).unwrap_or_else(|mistakes| panic!("{mistakes:?}"));
    #[allow(clippy::print_stdout)]
    {
        println!(
            "{:60} {:8.1} ms",
            format!("compiling {POLICIES} policies"),
            began.elapsed().as_secs_f64() * 1e3
        );
    }
    let roles = ["role7".into(), "role9".into()];
    let subject =
        Subject { key: 1, issuer: "key", subject: "ci", roles: &roles, ..Subject::default() };
    let annotations = Annotations::default();
    let target = |server, exposed, own| Target {
        kind: TargetKind::Tool,
        server,
        organisation: None,
        exposed,
        own,
        category: None,
        annotations,
    };
    let open = target("open", "open__tool", "tool");
    let db = target("db", "db__query", "query");
    let question = |target| Question { subject: &subject, endpoint: "/mcp", target };
    let class = policy.class(&subject, "/mcp");
    let to_open = policy.verdict(&class, &question(&open));
    let to_db = policy.verdict(&class, &question(&db));
    let sql = json!({"sql": "SELECT o.id, c.name FROM orders o JOIN customers c ON c.id = \
        o.customer_id WHERE o.total > 100 ORDER BY o.id LIMIT 50"})
    .to_string();
    assert!(policy.evaluate(&to_db, &question(&db), Some(sql.as_bytes())).is_ok());
    measure("a call without argument rules: class, verdict looked up", || {
        let class = policy.class(black_box(&subject), "/mcp");
        black_box(class.mark());
        black_box(policy.evaluate(&to_open, &question(&open), None))
            .unwrap_or_else(|_| panic!("denied"));
    });
    measure("the same, the verdict made anew (URIs that are not listed)", || {
        let class = policy.class(black_box(&subject), "/mcp");
        let verdict = policy.verdict(&class, &question(&open));
        black_box(policy.evaluate(&verdict, &question(&open), None))
            .unwrap_or_else(|_| panic!("denied"));
    });
    measure("a call with a SELECT", || {
        let class = policy.class(black_box(&subject), "/mcp");
        black_box(class.mark());
        black_box(policy.evaluate(&to_db, &question(&db), Some(sql.as_bytes())))
            .unwrap_or_else(|_| panic!("denied"));
    });
}
