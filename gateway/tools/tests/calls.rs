//! Calls of built-in tools, prompts and resources: results, errors, progress, cancellation, time.

use super::*;
use lockgate_protocol::key::Key;

#[tokio::test]
async fn tools_answer_with_text_and_structure() {
    let rig = rig(&plain());
    let params = json!({"arguments": {"text": "hi \"there\""}});
    let echo = rig.ask("example", Method::ToolsCall, "echo", params).await.unwrap();
    assert_eq!(echo["structuredContent"], json!({"text": "hi \"there\""}));
    assert_eq!(echo["content"][0]["text"], r#"{"text":"hi \"there\""}"#);
    assert_eq!(
        rig.call("example/count", json!({"n": 2.0, "pause_ms": 0})).await,
        Ok(json!({"counted": 2}))
    );
}

#[tokio::test]
async fn sums_of_whole_numbers_are_exact() {
    let rig = rig(&plain());
    for (a, b, sum) in [
        ("2", "3", "5"),
        ("1", "2.5", "3.5"),
        ("9007199254740993", "1", "9007199254740994"),
        ("18446744073709551615", "-1", "18446744073709551614"),
        ("-9223372036854775808", "0", "-9223372036854775808"),
    ] {
        let arguments: Value = serde_json::from_str(&format!(r#"{{"a":{a},"b":{b}}}"#)).unwrap();
        assert_eq!(
            rig.call("example/add", arguments).await.unwrap().to_string(),
            format!(r#"{{"sum":{sum}}}"#)
        );
    }
    let over = rig.call("example/add", json!({"a": u64::MAX, "b": 1})).await;
    assert_eq!(over, Err("the sum is too large for a number".into()));
    assert!(rig.call("example/add", json!({"a": f64::MAX, "b": f64::MAX})).await.is_err());
}

#[tokio::test]
async fn a_mistake_in_the_arguments_is_a_result_that_says_how_to_mend_it() {
    let rig = rig(&plain());
    for (tool, arguments, words) in [
        (
            "echo",
            json!({}),
            "the argument `text` is missing; expected a string of at most 10000 characters",
        ),
        (
            "echo",
            json!({"text": 7}),
            "`text` must be a string of at most 10000 characters, received 7",
        ),
        ("echo", json!({"text": "", "more": 1}), "unknown argument `more`: this tool takes text"),
        ("add", json!({"a": "1", "b": 2}), "`a` must be a number, received \"1\""),
        ("count", json!({"n": 21}), "`n` must be a whole number from 1 to 20, received 21"),
    ] {
        let called = rig.call(&format!("example/{tool}"), arguments).await;
        assert_eq!(called, Err(words.to_owned()));
    }
}

#[tokio::test]
async fn arguments_that_two_parsers_may_read_in_two_ways_are_an_error() {
    let rig = rig(&plain());
    let text = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"arguments":{"text":"a","text":"b"}}}"#;
    let answer =
        rig.send("example", "echo", &request_text(text.into()), &[], None, None).await.unwrap();
    assert_eq!(open(&answer), Err("-32602 `params.arguments`: the key `text` occurs twice".into()));
    for arguments in [json!([]), json!("x"), json!(null)] {
        let called =
            rig.ask("example", Method::ToolsCall, "echo", json!({"arguments": arguments})).await;
        assert_eq!(called, Err("-32602 `params.arguments` must be an object".into()));
    }
}

#[tokio::test]
async fn a_tool_runs_with_the_arguments_that_policy_left() {
    let rig = rig(&plain());
    let request = request(Method::ToolsCall, &json!({"arguments": {"text": "sent"}}));
    let replaced = [(Key::Arguments, Some(br#"{"text":"set"}"#.to_vec()))];
    let answer = rig.send("example", "echo", &request, &replaced, None, None).await.unwrap();
    assert_eq!(open(&answer).unwrap()["structuredContent"], json!({"text": "set"}));
    let answer =
        rig.send("example", "echo", &request, &[(Key::Arguments, None)], None, None).await.unwrap();
    assert_eq!(open(&answer).unwrap()["isError"], json!(true));
}

#[tokio::test]
async fn prompts_resources_and_completions_are_served() {
    let rig = rig(&plain());
    let ask = |method, target: &'static str, params| rig.ask("example", method, target, params);
    let greeting =
        ask(Method::PromptsGet, "greet", json!({"arguments": {"name": "Ada"}})).await.unwrap();
    assert!(greeting["messages"][0]["content"]["text"].as_str().unwrap().contains("Ada"));
    let missing = ask(Method::PromptsGet, "greet", json!({})).await;
    assert_eq!(missing, Err("-32602 the argument `name` is missing; expected a string".into()));
    let note = ask(Method::ResourcesRead, "example://note/bob", json!({})).await.unwrap();
    assert_eq!(note["contents"][0]["text"], "A note about bob.\n");
    let complete = |kind: &str, target: &'static str| {
        ask(
            Method::Complete,
            target,
            json!({"ref": {"type": kind}, "argument": {"name": "name", "value": "a"}}),
        )
    };
    let names = json!({"values": ["Ada", "Alan"], "total": 2, "hasMore": false});
    assert_eq!(complete("ref/prompt", "greet").await.unwrap()["completion"], names);
    assert_eq!(
        complete("ref/resource", "example://note/{name}").await.unwrap()["completion"],
        names
    );
    assert_eq!(complete("ref/prompt", "other").await.unwrap()["completion"]["values"], json!([]));
    assert_eq!(complete("ref/resource", "greet").await.unwrap()["completion"]["values"], json!([]));
    for (method, target) in [
        (Method::ResourcesRead, "example://note/"),
        (Method::PromptsGet, "nobody"),
        (Method::ToolsCall, "nothing"),
    ] {
        assert!(
            ask(method, target, json!({})).await.unwrap_err().starts_with("-32602"),
            "{target}"
        );
    }
}

#[tokio::test]
async fn progress_is_told_while_a_tool_runs() {
    let rig = rig(&plain());
    let notes = Arc::new(Notes::default());
    let request = request(Method::ToolsCall, &json!({"arguments": {"n": 3, "pause_ms": 0}}));
    rig.send("example", "count", &request, &[], Some(Arc::clone(&notes) as _), None).await.unwrap();
    let told: Vec<_> =
        notes.progress.lock().iter().map(|n| (n["progress"].clone(), n["total"].clone())).collect();
    assert_eq!(told, [1, 2, 3].map(|n| (json!(n), json!(3))));
}

#[tokio::test]
async fn a_dropped_call_ends_at_once_and_counts_as_cancelled() {
    let rig = rig(&plain());
    let notes = Arc::new(Notes::default());
    let request = request(Method::ToolsCall, &json!({"arguments": {"n": 20, "pause_ms": 20}}));
    {
        let call = rig.send("example", "count", &request, &[], Some(Arc::clone(&notes) as _), None);
        tokio::pin!(call);
        while notes.progress.lock().is_empty() {
            tokio::select! {
                _ = &mut call => panic!("it ended by itself"),
                () = tokio::time::sleep(Duration::from_millis(1)) => {}
            }
        }
    }
    let told = notes.progress.lock().len();
    tokio::time::sleep(Duration::from_millis(60)).await;
    assert_eq!(notes.progress.lock().len(), told);
    let figures = rig.figures("example/count");
    assert_eq!((figures.invocations, figures.cancelled, figures.failures), (1, 1, 0));
}

#[tokio::test]
async fn a_tool_that_takes_too_long_is_ended_and_says_what_to_do() {
    let rig = rig(&plain());
    let request = request(Method::ToolsCall, &json!({"arguments": {"n": 20, "pause_ms": 500}}));
    let limit = Some(Duration::from_millis(20));
    let result =
        open(&rig.send("example", "count", &request, &[], None, limit).await.unwrap()).unwrap();
    assert_eq!(result["isError"], json!(true), "{result}");
    let words = result["content"][0]["text"].as_str().unwrap();
    assert!(
        words.contains("`example/count` did not end within 0.02 s")
            && words.contains("Request less"),
        "{words}"
    );
    let figures = rig.figures("example/count");
    assert_eq!((figures.invocations, figures.cancelled, figures.failures), (1, 0, 1));
}

#[tokio::test]
async fn every_listed_item_is_complete() {
    for server in rig(&plain()).builtin.servers() {
        let catalog = server.catalog();
        for tool in catalog.items(ListKind::Tools) {
            let tool: Value = serde_json::from_slice(&tool.text).unwrap();
            for key in [
                "name",
                "title",
                "description",
                "inputSchema",
                "outputSchema",
                "annotations",
                "_meta",
            ] {
                assert!(tool.get(key).is_some(), "{} has no {key}", tool["name"]);
            }
        }
        for kind in [ListKind::Prompts, ListKind::Resources, ListKind::Templates] {
            for item in catalog.items(kind) {
                let item: Value = serde_json::from_slice(&item.text).unwrap();
                assert!(item["title"].is_string() && item["description"].is_string(), "{item}");
            }
        }
    }
}

/// The last step of the tutorial in CONTRIBUTING.md.
#[tokio::test]
async fn echo_gives_back_what_it_is_given() {
    let rig = rig(&plain());
    assert_eq!(rig.call("example/echo", json!({"text": "hi"})).await, Ok(json!({"text": "hi"})));
    assert!(rig.call("example/echo", json!({})).await.unwrap_err().contains("text"));
}
