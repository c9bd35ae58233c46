//! Limits on the words that mark unidiomatic English, in comments, documents and console templates,
//! and on function docs that do not start with a verb.

use std::collections::BTreeMap;

use syn::visit::{self, Visit};

use crate::tree::{File, files};

const WHO: [&str; 5] = ["who", "whom", "whose", "whoever", "whomever"];
const NOBODY: [&str; 5] = ["nobody", "somebody", "anybody", "everybody", "whatever"];
const WHAT: [&str; 1] = ["what"];

/// The occurrences that 1,000 words may contain.
const LIMITS: [(&str, &[&str], f64); 3] =
    [("who", &WHO, 0.5), ("nobody", &NOBODY, 0.2), ("what", &WHAT, 2.0)];

/// The share of documented functions whose docs must start with a verb, in percent.
const MIN_VERBS: usize = 85;

#[derive(Default)]
struct Prose {
    words: usize,
    found: [usize; LIMITS.len()],
    function_docs: usize,
    verbs: usize,
}

impl Prose {
    fn add(&mut self, text: &str) {
        let words = text.split(|c: char| !c.is_alphabetic() && c != '\'');
        for word in words.filter(|word| !word.is_empty()) {
            self.words += 1;
            let word = word.to_ascii_lowercase();
            for (count, (_, listed, _)) in self.found.iter_mut().zip(LIMITS) {
                *count += usize::from(listed.contains(&word.as_str()));
            }
        }
    }

    fn offences(&self, area: &str) -> Vec<String> {
        let mut offences = Vec::new();
        for (count, (name, _, limit)) in self.found.iter().zip(LIMITS) {
            let most = limit * self.words as f64 / 1000.0;
            if *count as f64 > most.max(1.0) {
                offences.push(format!("{area}: {count} words like {name:?}, {most:.0} at most"));
            }
        }
        if self.verbs * 100 < self.function_docs * MIN_VERBS {
            let (verbs, all) = (self.verbs, self.function_docs);
            offences.push(format!("{area}: {verbs} of {all} function docs start with a verb"));
        }
        offences
    }
}

impl<'ast> Visit<'ast> for Prose {
    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.add_function(&function.attrs);
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.add_function(&function.attrs);
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        self.add_function(&function.attrs);
        visit::visit_trait_item_fn(self, function);
    }
}

impl Prose {
    fn add_function(&mut self, attributes: &[syn::Attribute]) {
        if attributes.iter().any(is_test) {
            return;
        }
        let doc = attributes.iter().find(|attribute| attribute.path().is_ident("doc"));
        let Some(Ok(syn::MetaNameValue { value: syn::Expr::Lit(doc), .. })) =
            doc.map(|doc| doc.meta.require_name_value().cloned())
        else {
            return;
        };
        let syn::Lit::Str(doc) = doc.lit else { return };
        self.function_docs += 1;
        self.verbs += usize::from(starts_with_verb(&doc.value()));
    }
}

/// Returns whether an attribute is `#[test]` or `#[tokio::test]`.
fn is_test(attribute: &syn::Attribute) -> bool {
    attribute.path().segments.last().is_some_and(|last| last.ident == "test")
}

/// Returns whether a sentence starts with a verb in the third person, judging by its ending.
fn starts_with_verb(doc: &str) -> bool {
    let first = doc.trim().split([' ', ',', ':']).next().unwrap_or_default();
    first.ends_with('s')
        && first.starts_with(|c: char| c.is_ascii_uppercase())
        && !["This", "Its", "Always", "As", "Is", "Has", "Was", "Does"].contains(&first)
}

/// Returns the area of a file and its prose; `None` for files without any.
fn prose_of(file: &File) -> Option<(String, String)> {
    let folder = file.path.split('/').nth(1).unwrap_or_default();
    if file.is_rust() {
        let comments: Vec<&str> =
            file.text.lines().map(str::trim).filter(|line| line.starts_with("//")).collect();
        let area = if file.path.starts_with("tests/") { "tests" } else { folder };
        return Some((format!("comments of {area}"), comments.join("\n")));
    }
    if file.path.ends_with(".md") && !file.path.ends_with("CHANGELOG.md") {
        return Some(("documents".to_owned(), file.text.clone()));
    }
    let is_template = file.path.starts_with("gateway/admin/console/templates/");
    is_template.then(|| ("console templates".to_owned(), visible_text(&file.text)))
}

/// Returns the text of a template without tags and statements.
fn visible_text(template: &str) -> String {
    let mut depth = 0_usize;
    let mut text = String::new();
    for c in template.chars() {
        match c {
            '<' | '{' => depth += 1,
            '>' | '}' => depth = depth.saturating_sub(1),
            _ if depth == 0 => text.push(c),
            _ => {}
        }
    }
    text
}

#[test]
fn prose_is_plain() {
    let mut areas: BTreeMap<String, Prose> = BTreeMap::new();
    for file in files() {
        let Some((area, text)) = prose_of(file) else { continue };
        let prose = areas.entry(area).or_default();
        prose.add(&text);
        if file.is_rust() {
            prose.visit_file(&syn::parse_file(&file.text).expect("a source file of ours"));
        }
    }
    let offences: Vec<String> =
        areas.iter().flat_map(|(area, prose)| prose.offences(area)).collect();
    assert!(offences.is_empty(), "{}", offences.join("\n"));
}

#[test]
fn planted_prose_is_found() {
    let mut prose = Prose::default();
    prose.add("Nobody knows what it is, or whose; whatever.");
    assert_eq!(prose.found, [1, 2, 1]);
    assert_eq!(prose.offences("x").len(), 1, "single words pass, two do not");
    assert_eq!(
        visible_text("<p class=\"who\">{{ who }}Add{% if whose %} one{% endif %}</p>"),
        "Add one"
    );
    for (doc, expected) in
        [(" Returns it.", true), (" The limit.", false), (" This is it.", false), ("", false)]
    {
        assert_eq!(starts_with_verb(doc), expected, "{doc}");
    }
    let file = syn::parse_file("/// Finds it.\nfn f() {}\n/// A list.\nfn g() {}").unwrap();
    let mut prose = Prose::default();
    prose.visit_file(&file);
    assert_eq!((prose.function_docs, prose.verbs), (2, 1));
}
