//! Search quality over the corpora of `tests/corpora/tool-search`, and its time.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "reads corpora, prints figures"
)]

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::{
    Builder, Document, Index, Part, Query, Synonyms, Vector, find, find_similar, normalize,
};

/// Least hit@5 of each corpus: the share of questions for which one of the first five tools is
/// right. The last two are measured where their files are present.
const FLOORS: [(&str, f64); 4] =
    [("bfcl", 0.86), ("livemcpbench", 0.62), ("stabletoolbench", 0.91), ("metatool", 0.64)];
/// Corpora in the repository.
const PRESENT: usize = 2;
/// Tools in the measurement of time.
const TOOLS: usize = 5_000;
/// Runs of each search, of which the quickest counts.
const RUNS: usize = 3;
/// Limit on the time of a search, with room for an unoptimised build on a busy machine.
const MAX_TIME: Duration = Duration::from_millis(200);

/// Builds an index of documents, which are numbered in their order.
pub(crate) fn build<'a>(documents: impl IntoIterator<Item = Document<'a>>) -> Index {
    let mut builder = Builder::default();
    for document in documents {
        builder.add(&document);
    }
    builder.finish()
}

struct Corpus {
    tools: Vec<Value>,
    questions: Vec<Value>,
    /// Vectors of the tools and then of the questions, where their file is present.
    vectors: Vec<Vector>,
}

fn load(name: &str) -> Option<Corpus> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpora/tool-search");
    let text = std::fs::read_to_string(folder.join(format!("{name}.jsonl"))).ok()?;
    let mut corpus = Corpus { tools: Vec::new(), questions: Vec::new(), vectors: Vec::new() };
    for line in text.lines() {
        let value: Value = serde_json::from_str(line).unwrap();
        let is_question = value.get("query").is_some();
        if is_question { corpus.questions.push(value) } else { corpus.tools.push(value) }
    }
    let bytes = std::fs::read(folder.join(format!("{name}.f32"))).unwrap_or_default();
    let length = bytes.len() / (corpus.tools.len() + corpus.questions.len());
    for vector in bytes.chunks_exact(length.max(1)) {
        let numbers = vector.chunks_exact(4).map(|bytes| bytes.try_into().unwrap());
        corpus.vectors.push(normalize(numbers.map(f32::from_le_bytes).collect()).unwrap());
    }
    Some(corpus)
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or("")
}

fn document(tool: &Value) -> Document<'_> {
    let mut parameters = Vec::new();
    for (name, text) in tool["parameters"].as_object().into_iter().flatten() {
        parameters.push((name.as_str(), text.as_str().unwrap()));
    }
    Document {
        name: text(tool, "name"),
        title: "",
        server: text(tool, "server"),
        description: text(tool, "description"),
        parameters,
    }
}

/// Answers are names of tools, or `server/name`.
fn is_right(tool: &Value, question: &Value) -> bool {
    let qualified = format!("{}/{}", text(tool, "server"), text(tool, "name"));
    let answers = question["answers"].as_array().unwrap();
    answers.iter().any(|answer| *answer == tool["name"] || *answer == *qualified)
}

fn measure(corpus: &Corpus, by_meaning: bool) -> f64 {
    let index = build(corpus.tools.iter().map(document));
    let parts = [Part { index: &index, includes: &|_| true }];
    let synonyms = Synonyms::default();
    let mut hits = 0;
    for (number, question) in corpus.questions.iter().enumerate() {
        let Ok(query) = Query::parse(text(question, "query"), &synonyms) else { continue };
        let found = if by_meaning {
            let (tools, questions) = corpus.vectors.split_at(corpus.tools.len());
            find_similar(&parts, &query, &[tools], &questions[number], 5)
        } else {
            find(&parts, &query, 5)
        };
        let right =
            found.iter().any(|hit| is_right(&corpus.tools[hit.document as usize], question));
        hits += usize::from(right);
    }
    hits as f64 / corpus.questions.len() as f64
}

#[test]
fn questions_find_a_right_tool_among_the_first_five() {
    let mut present = 0;
    for (name, floor) in FLOORS {
        let Some(corpus) = load(name) else { continue };
        present += 1;
        let share = measure(&corpus, false);
        if !corpus.vectors.is_empty() {
            println!("{name}: hit@5 {:.3} by words and meaning", measure(&corpus, true));
        }
        let Corpus { tools, questions, .. } = corpus;
        println!("{name}: {} tools, {} questions, hit@5 {share:.3}", tools.len(), questions.len());
        assert!(share >= floor, "{name}: {share:.4} < {floor}");
    }
    assert!(present >= PRESENT, "{present} corpora");
}

/// Prints the times of searches; run it in an optimised build for the figures of the documents.
#[test]
fn a_search_of_many_tools_is_quick() {
    let mut tools = Vec::new();
    let mut questions = Vec::new();
    for (name, _) in FLOORS {
        let Some(corpus) = load(name) else { continue };
        tools.extend(corpus.tools);
        questions.extend(corpus.questions.into_iter().take(500));
    }
    let begin = Instant::now();
    let index = build(tools.iter().cycle().take(TOOLS).map(document));
    println!("built in {:?}", begin.elapsed());
    let parts = [Part { index: &index, includes: &|_| true }];
    let synonyms = Synonyms::default();
    let mut times = Vec::new();
    for question in &questions {
        // Other work on the machine interrupts some runs.
        let mut best = Duration::MAX;
        for _ in 0..RUNS {
            let begin = Instant::now();
            let query = Query::parse(text(question, "query"), &synonyms);
            let found = query.map(|query| find(&parts, &query, 10)).unwrap_or_default();
            assert!(found.len() <= 10);
            best = best.min(begin.elapsed());
        }
        times.push(best);
    }
    times.sort_unstable();
    let median = times[times.len() / 2];
    let slow = times[times.len() * 99 / 100];
    println!("{} searches: median {median:?}, p99 {slow:?}", times.len());
    assert!(median < MAX_TIME, "{median:?}");
}
