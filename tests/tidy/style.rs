//! Limits on combinators in a statement, closures and tuples bound by `let`, long lines, and matches
//! that `if`, `?` or a method expresses.

use std::collections::BTreeMap;

use syn::visit::{self, Visit};

use crate::tree::{File, files, hold};

/// Combinators of iterators, options, results and futures, each a step for the reader to follow.
const COMBINATORS: [&str; 46] = [
    "all",
    "and",
    "and_then",
    "any",
    "chain",
    "cloned",
    "collect",
    "copied",
    "count",
    "enumerate",
    "filter",
    "filter_map",
    "find",
    "find_map",
    "flat_map",
    "flatten",
    "fold",
    "for_each",
    "inspect",
    "inspect_err",
    "is_none_or",
    "is_ok_and",
    "is_some_and",
    "map",
    "map_err",
    "map_or",
    "map_or_else",
    "max_by_key",
    "min_by_key",
    "ok_or",
    "ok_or_else",
    "or_else",
    "partition",
    "position",
    "rev",
    "scan",
    "skip",
    "skip_while",
    "take_while",
    "then",
    "then_some",
    "unwrap_or_default",
    "unwrap_or_else",
    "unzip",
    "xor",
    "zip",
];
/// Combinators that a statement may have.
const MAX_COMBINATORS: usize = 2;
const MAX_COLUMNS: usize = 100;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    lines: usize,
    combinators: usize,
    dense: usize,
    closures: usize,
    tuples: usize,
    long_lines: usize,
    matches_on_bool: usize,
    /// Arms such as `Ok(x) => Ok(x)`.
    passing_arms: usize,
}

/// Matches on `bool`, and passing arms, of all crates together. These numbers may only fall.
const MAX_MATCHES: usize = 5;

impl Counts {
    fn of(text: &str) -> Self {
        let mut counts = Self::default();
        let file = syn::parse_file(text).expect("a source file of ours");
        counts.visit_file(&file);
        counts.lines = text.lines().count();
        counts.long_lines = text.lines().filter(|line| line.chars().count() > MAX_COLUMNS).count();
        counts
    }

    fn add(&mut self, other: Self) {
        self.lines += other.lines;
        self.combinators += other.combinators;
        self.dense += other.dense;
        self.closures += other.closures;
        self.tuples += other.tuples;
        self.long_lines += other.long_lines;
        self.matches_on_bool += other.matches_on_bool;
        self.passing_arms += other.passing_arms;
    }
}

impl<'ast> Visit<'ast> for Counts {
    fn visit_stmt(&mut self, statement: &'ast syn::Stmt) {
        let mut own = OwnCombinators(0);
        own.visit_stmt(statement);
        self.combinators += own.0;
        self.dense += usize::from(own.0 > MAX_COMBINATORS);
        if let syn::Stmt::Local(local) = statement
            && let Some(init) = &local.init
        {
            self.closures += usize::from(matches!(&*init.expr, syn::Expr::Closure(_)));
            let pair = (&local.pat, &*init.expr);
            self.tuples += usize::from(matches!(pair, (syn::Pat::Tuple(_), syn::Expr::Tuple(_))));
        }
        visit::visit_stmt(self, statement);
    }

    fn visit_expr_match(&mut self, expression: &'ast syn::ExprMatch) {
        self.matches_on_bool += usize::from(expression.arms.iter().any(is_bool));
        self.passing_arms += expression.arms.iter().filter(|arm| passes(arm)).count();
        visit::visit_expr_match(self, expression);
    }
}

fn is_bool(arm: &syn::Arm) -> bool {
    matches!(&arm.pat, syn::Pat::Lit(literal) if matches!(literal.lit, syn::Lit::Bool(_)))
}

/// Returns whether an arm returns the `Ok` or `Some` that it matched.
fn passes(arm: &syn::Arm) -> bool {
    let (syn::Pat::TupleStruct(pattern), syn::Expr::Call(call)) = (&arm.pat, &*arm.body) else {
        return false;
    };
    let (Some(syn::Pat::Ident(bound)), Some(syn::Expr::Path(given))) =
        (pattern.elems.first(), call.args.first())
    else {
        return false;
    };
    let syn::Expr::Path(function) = &*call.func else { return false };
    let is_same = |name| pattern.path.is_ident(name) && function.path.is_ident(name);
    (is_same("Ok") || is_same("Some")) && given.path.is_ident(&bound.ident) && arm.guard.is_none()
}

/// The number of combinators in a statement, without nested statements.
struct OwnCombinators(usize);

impl<'ast> Visit<'ast> for OwnCombinators {
    fn visit_block(&mut self, _: &'ast syn::Block) {}

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        self.0 += usize::from(COMBINATORS.contains(&call.method.to_string().as_str()));
        visit::visit_expr_method_call(self, call);
    }
}

/// Returns the crate of a file below `gateway`; `root` for the program itself.
fn crate_of(path: &str) -> Option<&str> {
    let path = path.strip_prefix("gateway/")?;
    let folder = path.split('/').next()?;
    let is_crate = files().iter().any(|file| file.path == format!("gateway/{folder}/Cargo.toml"));
    Some(if is_crate { folder } else { "root" })
}

fn counts() -> BTreeMap<&'static str, Counts> {
    let mut counts: BTreeMap<_, Counts> = BTreeMap::new();
    for file in files()
        .iter()
        .filter(|file| file.is_rust() && !file.is_test() && !file.path.contains("/examples/"))
    {
        if let Some(name) = crate_of(&file.path) {
            counts.entry(name).or_default().add(Counts::of(&file.text));
        }
    }
    counts
}

#[test]
#[allow(clippy::print_stdout, reason = "the counts, for whoever lowers the table")]
fn statements_stay_plain() {
    let mut offences = Vec::new();
    let mut all = Counts::default();
    for (name, counts) in counts() {
        println!("{name}: {counts:?}");
        all.add(counts);
        for (count, what) in [
            (counts.dense, "statements with more than two combinators"),
            (counts.closures, "closures bound by `let`"),
            (counts.tuples, "tuples bound by `let`"),
            (counts.long_lines, "lines over 100 columns"),
        ] {
            if count > 0 {
                offences.push(format!("{name}: {count} {what}"));
            }
        }
    }
    println!("all: {all:?}");
    for (count, what) in
        [(all.matches_on_bool, "matches on a bool"), (all.passing_arms, "arms like Ok(x) => Ok(x)")]
    {
        if count > MAX_MATCHES {
            offences.push(format!("all: {count} {what}, {MAX_MATCHES} at most"));
        }
    }
    assert!(offences.is_empty(), "{}", offences.join("\n"));
}

#[test]
fn planted_statements_are_counted() {
    let counted = |body: &str| Counts::of(&format!("fn f() {{ {body} }}"));
    assert_eq!(counted("let a = b.iter().map(c).collect();").dense, 0);
    assert_eq!(counted("let a = b.iter().filter(d).map(c).collect();").dense, 1);
    let inner = counted("a.map(|b| { let c = b.map(d).filter(e); c })");
    assert_eq!((inner.combinators, inner.dense), (3, 0), "statements within count by themselves");
    assert_eq!(counted("match a { true => b, false => c }").matches_on_bool, 1);
    assert_eq!(counted("match a { Ok(b) => Ok(b), Err(c) => d }").passing_arms, 1);
    assert_eq!(counted("match a { Ok(b) => Ok(c), Some(b) => Ok(b) }").passing_arms, 0);
    assert_eq!(counted("let f = |a| a + 1;").closures, 1);
    assert_eq!(counted("let (a, b) = (1, 2);").tuples, 1);
    assert_eq!(counted("let (a, b) = c();").tuples, 0);
    assert_eq!(Counts::of(&format!("// {}", "x".repeat(97))).long_lines, 0);
    assert_eq!(Counts::of(&format!("// {}", "x".repeat(98))).long_lines, 1);
}

/// `lockgate_text::json` rejects a key that makes serde_json parse texts within texts without end.
#[test]
fn json_has_one_entry() {
    let is_judged = |file: &File| {
        let is_product = file.is_rust() && !file.is_test() && file.path.starts_with("gateway/");
        is_product && file.path != "gateway/text/json.rs"
    };
    hold(is_judged, 300, |file| {
        let found = ["from_slice", "from_str", "from_reader"]
            .map(|name| format!("serde_json::{name}"))
            .into_iter()
            .filter(|call| file.text.contains(call));
        found.map(|call| format!("use lockgate_text::json instead of {call}")).collect()
    });
}
