//! An index over all policies. It finds the policies that concern a caller, and among those the
//! policies that concern a target. The cost hardly depends on the number of policies.

use globset::Glob;

use crate::pattern::{self, BitSet};
use crate::rule::Rule;
use crate::target::TargetKind;
use crate::who::{LISTS, Who};
use crate::words::{Word, WordIndex};
use crate::{Subject, Target};

#[derive(Debug)]
pub(crate) struct Index {
    size: usize,
    who: Vec<pattern::Index>,
    /// Policies about callers without a credential, and policies about all others.
    anonymous: [BitSet; 2],
    endpoints: pattern::Index,
    servers: pattern::Index,
    not_servers: pattern::Index,
    categories: pattern::Index,
    /// For each of [`TargetKind::ALL`], its patterns and the policies that name only other kinds.
    kinds: Vec<(pattern::Index, BitSet)>,
    words: WordIndex,
    not_words: WordIndex,
    annotated: Vec<u32>,
    methods: BitSet,
}

/// Indexes the patterns of all policies for the same kind of name.
fn index_globs(
    rules: &[Rule],
    pick: impl Fn(&Rule) -> Option<&[Glob]>,
) -> Result<pattern::Index, String> {
    pattern::Index::new(rules.len(), pick_lists(rules, pick))
}

fn index_words(
    rules: &[Rule],
    pick: impl Fn(&Rule) -> Option<&[Word]>,
) -> Result<WordIndex, String> {
    WordIndex::new(rules.len(), pick_lists(rules, pick))
}

/// Returns the selected list of each policy that has it, with the index of the policy.
fn pick_lists<'a, T: 'a>(
    rules: &'a [Rule],
    pick: impl Fn(&'a Rule) -> Option<&'a [T]>,
) -> impl Iterator<Item = (u32, &'a [T])> {
    let rules_with_places = (0u32..).zip(rules);
    rules_with_places.filter_map(move |(at, rule)| Some((at, pick(rule)?)))
}

/// Indexes the patterns at a position of the lists of [`Who`].
fn index_who(rules: &[Rule], place: usize) -> Result<pattern::Index, String> {
    index_globs(rules, |rule| rule.who.lists.get(place)?.1.as_deref())
}

fn index_kind(rules: &[Rule], kind: TargetKind) -> Result<(pattern::Index, BitSet), String> {
    let unmeant = find_rules(rules, |rule| rule.what.names_kinds() && rule.what.of(kind).is_none());
    Ok((index_globs(rules, |rule| rule.what.of(kind))?, unmeant))
}

fn find_rules(rules: &[Rule], fits: impl Fn(&Rule) -> bool) -> BitSet {
    let mut found = BitSet::none(rules.len());
    for (at, rule) in (0u32..).zip(rules) {
        if fits(rule) {
            found.insert(at);
        }
    }
    found
}

impl Index {
    /// Builds the index. Fails if the patterns are too large in total.
    pub(crate) fn new(rules: &[Rule]) -> Result<Self, String> {
        let who = (0..LISTS).map(|place| index_who(rules, place));
        let who = who.collect::<Result<_, _>>()?;
        let kinds = TargetKind::ALL.into_iter().map(|kind| index_kind(rules, kind));
        let kinds = kinds.collect::<Result<_, _>>()?;
        Ok(Self {
            size: rules.len(),
            who,
            anonymous: [
                find_rules(rules, |rule| rule.who.anonymous == Some(true)),
                find_rules(rules, |rule| rule.who.anonymous == Some(false)),
            ],
            endpoints: index_globs(rules, |rule| rule.what.endpoints.as_deref())?,
            servers: index_globs(rules, |rule| rule.what.servers.as_deref())?,
            not_servers: index_globs(rules, |rule| rule.what.not_servers.as_deref())?,
            categories: index_globs(rules, |rule| rule.what.categories.as_deref())?,
            kinds,
            words: index_words(rules, |rule| rule.what.words.as_deref())?,
            not_words: index_words(rules, |rule| rule.what.not_words.as_deref())?,
            annotated: find_rules(rules, |rule| rule.what.annotations.is_some()).iter().collect(),
            methods: find_rules(rules, |rule| rule.what.methods.is_some()),
        })
    }

    pub(crate) fn tells_callers_apart(&self) -> bool {
        let [only_anonymous, only_known] = &self.anonymous;
        let is_about_who = !self.who.iter().all(pattern::Index::is_unused);
        is_about_who
            || !self.endpoints.is_unused()
            || !only_anonymous.is_empty()
            || !only_known.is_empty()
    }

    /// Returns the policies that concern a caller at an endpoint.
    pub(crate) fn concerning(&self, subject: &Subject<'_>, endpoint: &str) -> BitSet {
        let mut bits = BitSet::none(self.size);
        for bit in (0u32..).take(self.size) {
            bits.insert(bit);
        }
        for (index, names) in self.who.iter().zip(Who::names(subject)) {
            index.narrow(&mut bits, self.size, names.iter());
        }
        let [only_anonymous, only_known] = &self.anonymous;
        bits.exclude(if subject.is_anonymous() { only_known } else { only_anonymous });
        self.endpoints.narrow(&mut bits, self.size, [endpoint].iter());
        bits
    }

    /// Returns the policies among `concerning` that concern a target.
    pub(crate) fn about(&self, concerning: &BitSet, rules: &[Rule], target: &Target<'_>) -> BitSet {
        let mut bits = concerning.clone();
        bits.exclude(&self.methods);
        self.server(&mut bits, target.server);
        self.categories.narrow(&mut bits, self.size, target.category.into_iter());
        let Some((index, unmeant)) = self.kinds.get(target.kind as usize) else {
            return BitSet::none(self.size);
        };
        bits.exclude(unmeant);
        index.narrow(&mut bits, self.size, target.spellings().iter());
        self.narrow_by_words(&mut bits, target);
        for &at in &self.annotated {
            let rule = rules.get(at as usize);
            if bits.contains(at) && !matches!(rule, Some(rule) if rule.what.annotations_fit(target))
            {
                bits.remove(at);
            }
        }
        bits
    }

    fn narrow_by_words(&self, bits: &mut BitSet, target: &Target<'_>) {
        let named = self.words.restricted();
        let excluded = self.not_words.restricted();
        if target.kind != TargetKind::Tool {
            bits.exclude(named);
            bits.exclude(excluded);
            return;
        }
        if !named.is_empty() {
            bits.keep(named, &self.words.fits(self.size, target.own));
        }
        if !excluded.is_empty() {
            bits.exclude(&self.not_words.fits(self.size, target.own));
        }
    }

    fn server(&self, bits: &mut BitSet, server: &str) {
        self.servers.narrow(bits, self.size, [server].iter());
        if !self.not_servers.is_unused() {
            bits.exclude(&self.not_servers.fits(self.size, [server].iter()));
        }
    }

    /// Returns the policies among `concerning` that concern a server.
    pub(crate) fn about_server(&self, concerning: &BitSet, server: &str) -> BitSet {
        let mut bits = concerning.clone();
        bits.exclude(&self.methods);
        self.server(&mut bits, server);
        bits
    }

    pub(crate) fn methods(&self) -> &BitSet {
        &self.methods
    }
}
