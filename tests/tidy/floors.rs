//! Checks that the modules of a crate form layers ("floors") without import cycles. Each file of a
//! crate is a module; its imports are the paths it names, in `use` and elsewhere.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::{self, Visit};

use crate::tree::files;

/// A module's path within its crate, such as `["dispatch", "answer"]`; empty for the crate root.
type Module = Vec<String>;

/// The paths that a file names, and those that it re-exports.
#[derive(Default)]
struct Names {
    named: Vec<Vec<String>>,
    handed_on: Vec<Vec<String>>,
    /// Modules under `#[cfg(test)]`.
    for_tests: Vec<String>,
}

impl Names {
    fn of(text: &str) -> Self {
        let mut names = Self::default();
        let file = syn::parse_file(text).expect("a source file of ours");
        names.visit_file(&file);
        names
    }

    fn add_tree(&mut self, tree: &syn::UseTree, before: &[String], is_public: bool) {
        let mut path = before.to_vec();
        match tree {
            syn::UseTree::Path(part) => {
                path.push(part.ident.to_string());
                self.add_tree(&part.tree, &path, is_public);
            }
            syn::UseTree::Group(group) => {
                for tree in &group.items {
                    self.add_tree(tree, before, is_public);
                }
            }
            syn::UseTree::Name(name) => self.add(path, name.ident.to_string(), is_public),
            syn::UseTree::Rename(name) => self.add(path, name.ident.to_string(), is_public),
            syn::UseTree::Glob(_) => self.add(path, "*".into(), is_public),
        }
    }

    fn add(&mut self, mut path: Vec<String>, last: String, is_public: bool) {
        path.push(last);
        if is_public {
            self.handed_on.push(path.clone());
        }
        self.named.push(path);
    }

    /// Adds the paths in a macro's tokens, which `syn` leaves unparsed.
    fn add_tokens(&mut self, tokens: &str) {
        let words: Vec<&str> = tokens.split_whitespace().collect();
        for (at, word) in words.iter().enumerate() {
            if !matches!(*word, "crate" | "self" | "super") || words.get(at + 1) != Some(&"::") {
                continue;
            }
            let mut path = vec![(*word).to_owned()];
            let mut next = at + 1;
            while words.get(next) == Some(&"::") && next + 1 < words.len() {
                path.push(words[next + 1].to_owned());
                next += 2;
            }
            self.named.push(path);
        }
    }
}

fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let is_cfg = attribute.path().is_ident("cfg");
        is_cfg && attribute.parse_args::<syn::Ident>().is_ok_and(|condition| condition == "test")
    })
}

impl<'ast> Visit<'ast> for Names {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let attributes = match item {
            syn::Item::Mod(item) => {
                if is_for_tests(&item.attrs) {
                    self.for_tests.push(item.ident.to_string());
                }
                &item.attrs
            }
            syn::Item::Fn(item) => &item.attrs,
            syn::Item::Impl(item) => &item.attrs,
            syn::Item::Use(item) => &item.attrs,
            syn::Item::Struct(item) => &item.attrs,
            _ => return visit::visit_item(self, item),
        };
        if !is_for_tests(attributes) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if !is_for_tests(&function.attrs) {
            visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.add_tree(&item.tree, &[], !matches!(item.vis, syn::Visibility::Inherited));
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let parts = path.segments.iter().map(|segment| segment.ident.to_string());
        self.named.push(parts.collect());
        visit::visit_path(self, path);
    }

    /// Skips the path in `pub(in …)`, which is not an import.
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.add_tokens(&call.tokens.to_string());
        visit::visit_macro(self, call);
    }
}

/// The modules of a crate and their re-exports.
struct House {
    modules: BTreeMap<Module, Names>,
    handed_on: BTreeMap<Module, Module>,
}

impl House {
    /// Builds the modules from `sources`: paths below the crate's folder, with their texts.
    fn of(sources: &[(&str, &str)]) -> Self {
        let mut modules = BTreeMap::new();
        for (path, text) in sources {
            let stem = path.trim_end_matches(".rs");
            let module =
                if stem == "lib" { vec![] } else { stem.split('/').map(str::to_owned).collect() };
            modules.insert(module, Names::of(text));
        }
        let for_tests: Vec<Module> = modules
            .iter()
            .flat_map(|(module, names)| names.for_tests.iter().map(move |name| child(module, name)))
            .collect();
        modules.retain(|module: &Module, _| !for_tests.iter().any(|test| module.starts_with(test)));
        let mut house = Self { modules, handed_on: BTreeMap::new() };
        for (module, names) in &house.modules {
            for path in &names.handed_on {
                let (Some(target), Some(last)) = (house.absolute(module, path), path.last()) else {
                    continue;
                };
                house.handed_on.insert(child(module, last), target);
            }
        }
        house
    }

    /// Resolves a path from the crate root; returns `None` for paths of other crates.
    fn absolute(&self, from: &Module, path: &[String]) -> Option<Module> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => Some(rest.to_vec()),
            "self" => Some([from, rest].concat()),
            "super" => {
                let (_, parent) = from.split_last()?;
                if rest.first().is_some_and(|next| next == "super") {
                    return self.absolute(&parent.to_vec(), rest);
                }
                Some([parent, rest].concat())
            }
            _ if path.len() > 1 && self.modules.contains_key(&child(from, first)) => {
                Some([from, path].concat())
            }
            _ => None,
        }
    }

    /// Returns the module that defines the item at this path, following re-exports.
    fn home(&self, path: Module) -> Option<Module> {
        let mut path = path;
        for _ in 0..8 {
            let known = (0..=path.len())
                .rev()
                .find(|length| self.modules.contains_key(&path[..*length]))?;
            let name = path.get(..=known);
            let Some(target) = name.and_then(|name| self.handed_on.get(name)) else {
                return Some(path[..known].to_vec());
            };
            path = [target, &path[known + 1..]].concat();
        }
        None
    }

    /// Returns the imports of each module. The crate root is skipped: it only re-exports.
    fn arrows(&self) -> BTreeMap<&Module, BTreeSet<Module>> {
        let mut arrows = BTreeMap::new();
        for (module, names) in self.modules.iter().filter(|(module, _)| !module.is_empty()) {
            let mut imported = BTreeSet::new();
            for path in names.named.iter().filter(|path| !names.handed_on.contains(path)) {
                let target = self.absolute(module, path).and_then(|path| self.home(path));
                imported.extend(target.filter(|target| target != module && !target.is_empty()));
            }
            arrows.insert(module, imported);
        }
        arrows
    }

    /// Returns the floors from the top down, each module above its imports, without [`Self::knotted`]
    /// modules and those above them.
    fn floors(&self) -> Vec<Vec<String>> {
        let arrows = self.arrows();
        let mut floors: BTreeMap<&Module, usize> = BTreeMap::new();
        while floors.len() < arrows.len() {
            let before = floors.len();
            for (module, imported) in &arrows {
                if imported.iter().all(|below| floors.contains_key(below)) {
                    let highest = imported.iter().map(|below| floors[below]).max();
                    floors.entry(module).or_insert(highest.map_or(0, |below| below + 1));
                }
            }
            if floors.len() == before {
                break;
            }
        }
        let mut drawn = vec![Vec::new(); floors.values().max().map_or(0, |top| top + 1)];
        for (module, floor) in floors {
            drawn[floor].push(module.join("/"));
        }
        drawn.reverse();
        drawn
    }

    /// Returns the modules that import themselves, directly or through others.
    fn knotted(&self) -> Vec<String> {
        let arrows = self.arrows();
        let reaches_itself = |module: &&Module| {
            let mut seen = BTreeSet::new();
            let mut ahead: Vec<&Module> = arrows[module].iter().collect();
            while let Some(next) = ahead.pop() {
                if next == *module {
                    return true;
                }
                if seen.insert(next) {
                    ahead.extend(arrows.get(next).into_iter().flatten());
                }
            }
            false
        };
        arrows.keys().copied().filter(reaches_itself).map(|module| module.join("/")).collect()
    }
}

fn child(module: &Module, name: &str) -> Module {
    let mut child = module.clone();
    child.push(name.to_owned());
    child
}

/// Returns the sources of each crate of the gateway, by folder.
fn crates() -> BTreeMap<&'static str, Vec<(&'static str, &'static str)>> {
    let manifests = files().iter().filter_map(|file| file.path.strip_suffix("/Cargo.toml"));
    let mut folders: Vec<&str> =
        manifests.filter(|folder| folder.starts_with("gateway/")).collect();
    folders.push("gateway");
    let mut crates: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for file in files()
        .iter()
        .filter(|file| file.is_rust() && !file.is_test() && !file.path.contains("/examples/"))
    {
        let folder = folders.iter().find(|folder| {
            file.path.strip_prefix(**folder).is_some_and(|path| path.starts_with('/'))
        });
        let Some(folder) = folder else { continue };
        crates
            .entry(*folder)
            .or_default()
            .push((&file.path[folder.len() + 1..], file.text.as_str()));
    }
    crates
}

#[test]
#[allow(clippy::print_stdout, reason = "the floors, for ARCHITECTURE.md's command")]
fn no_modules_import_each_other() {
    let crates = crates();
    assert!(crates.len() >= 12, "only {} crates were looked at", crates.len());
    let mut knots = Vec::new();
    for (folder, sources) in &crates {
        let house = House::of(sources);
        println!("{folder}, from the top:");
        let floors = house.floors();
        for (at, modules) in floors.iter().enumerate() {
            println!("{:>3}  {}", floors.len() - at, modules.join(" "));
        }
        let knotted = house.knotted();
        if !knotted.is_empty() {
            knots.push(format!("{folder}: {}", knotted.join(", ")));
        }
    }
    assert!(knots.is_empty(), "modules that import each other:\n{}", knots.join("\n"));
}

#[test]
fn planted_knots_are_found() {
    let knotted = |sources: &[(&str, &str)]| House::of(sources).knotted();
    let root = ("lib.rs", "mod a; mod b; pub use a::A;");
    assert!(
        knotted(&[root, ("a.rs", "use crate::b::B; pub struct A;"), ("b.rs", "pub struct B;")])
            .is_empty()
    );
    let both = [
        root,
        ("a.rs", "use crate::b::B; pub struct A;"),
        ("b.rs", "fn f() -> crate::A { todo() }"),
    ];
    assert_eq!(knotted(&both), ["a", "b"], "through what the crate hands on");
    let around = [
        ("a.rs", "use crate::b;"),
        ("b.rs", "use super::c::{D, E};"),
        ("c.rs", "fn f() { log!(crate::a::G) }"),
    ];
    assert_eq!(knotted(&around), ["a", "b", "c"]);
    let parent =
        [("a.rs", "mod b; use b::B; pub struct A;"), ("a/b.rs", "use super::A; pub struct B(A);")];
    assert_eq!(knotted(&parent), ["a", "a/b"]);
    let hands_on = [
        ("a.rs", "mod b; pub use b::B; pub struct A;"),
        ("a/b.rs", "use super::A; pub struct B(A);"),
    ];
    assert!(knotted(&hands_on).is_empty(), "handing on is no import");
    let tests = [
        ("a.rs", "#[cfg(test)] mod b; fn f() { b::g() }"),
        ("b.rs", ""),
        ("a/b.rs", "use super::*;"),
    ];
    assert!(knotted(&tests).is_empty());
}
