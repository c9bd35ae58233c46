//! An index over all policies. It finds the policies that concern a caller, and among those the
//! policies that concern a target. The cost hardly depends on the number of policies.

use bit_set::BitSet;

use crate::class::{LISTS, Who};
use crate::pattern::{GlobIndex, keep};
use crate::rule::Rule;
use crate::target::TargetKind;
use crate::words::WordIndex;
use crate::{Subject, Target};

#[derive(Debug)]
pub(crate) struct Index {
    size: usize,
    who: Vec<GlobIndex>,
    /// Policies about callers without a credential, and policies about all others.
    anonymous: [BitSet; 2],
    endpoints: GlobIndex,
    servers: GlobIndex,
    not_servers: GlobIndex,
    categories: GlobIndex,
    /// For each of [`TargetKind::ALL`], its patterns and the policies that name only other kinds.
    kinds: Vec<(GlobIndex, BitSet)>,
    words: WordIndex,
    not_words: WordIndex,
    annotated: BitSet,
    methods: BitSet,
}

fn index_kind(rules: &[Rule], kind: TargetKind) -> Result<(GlobIndex, BitSet), String> {
    let unmeant = find_rules(rules, |rule| rule.what.names_kinds() && rule.what.of(kind).is_none());
    Ok((GlobIndex::new(rules, |rule| rule.what.of(kind))?, unmeant))
}

fn find_rules(rules: &[Rule], fits: impl Fn(&Rule) -> bool) -> BitSet {
    let fitting = rules.iter().enumerate().filter(|(_, rule)| fits(rule));
    fitting.map(|(at, _)| at).collect()
}

impl Index {
    /// Builds the index. Fails if the patterns are too large in total.
    pub(crate) fn new(rules: &[Rule]) -> Result<Self, String> {
        let who = (0..LISTS)
            .map(|place| GlobIndex::new(rules, |rule| rule.who.lists.get(place)?.1.as_deref()));
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
            endpoints: GlobIndex::new(rules, |rule| rule.what.endpoints.as_deref())?,
            servers: GlobIndex::new(rules, |rule| rule.what.servers.as_deref())?,
            not_servers: GlobIndex::new(rules, |rule| rule.what.not_servers.as_deref())?,
            categories: GlobIndex::new(rules, |rule| rule.what.categories.as_deref())?,
            kinds,
            words: WordIndex::new(rules, |rule| rule.what.words.as_deref())?,
            not_words: WordIndex::new(rules, |rule| rule.what.not_words.as_deref())?,
            annotated: find_rules(rules, |rule| rule.what.annotations.is_some()),
            methods: find_rules(rules, |rule| rule.what.methods.is_some()),
        })
    }

    pub(crate) fn tells_callers_apart(&self) -> bool {
        let [only_anonymous, only_known] = &self.anonymous;
        let mut patterns = self.who.iter().chain([&self.endpoints]);
        !patterns.all(GlobIndex::is_unused) || !only_anonymous.is_empty() || !only_known.is_empty()
    }

    /// Returns the policies that concern a caller at an endpoint.
    pub(crate) fn concerning(&self, subject: &Subject<'_>, endpoint: &str) -> BitSet {
        let mut bits = BitSet::from_iter(0..self.size);
        for (index, names) in self.who.iter().zip(Who::names(subject)) {
            index.narrow(&mut bits, names.iter());
        }
        let [only_anonymous, only_known] = &self.anonymous;
        bits.difference_with(if subject.is_anonymous() { only_known } else { only_anonymous });
        self.endpoints.narrow(&mut bits, [endpoint].iter());
        bits
    }

    /// Returns the policies among `concerning` that concern a target.
    pub(crate) fn about(&self, concerning: &BitSet, rules: &[Rule], target: &Target<'_>) -> BitSet {
        let mut bits = concerning.clone();
        bits.difference_with(&self.methods);
        self.server(&mut bits, target.server);
        self.categories.narrow(&mut bits, target.category.into_iter());
        let Some((index, unmeant)) = self.kinds.get(target.kind as usize) else {
            return BitSet::new();
        };
        bits.difference_with(unmeant);
        index.narrow(&mut bits, target.spellings().iter());
        self.narrow_by_words(&mut bits, target);
        for at in &self.annotated {
            if !rules.get(at).is_some_and(|rule| rule.what.annotations_fit(target)) {
                bits.remove(at);
            }
        }
        bits
    }

    fn narrow_by_words(&self, bits: &mut BitSet, target: &Target<'_>) {
        let named = self.words.restricted();
        let excluded = self.not_words.restricted();
        if target.kind != TargetKind::Tool {
            bits.difference_with(named);
            bits.difference_with(excluded);
            return;
        }
        if !named.is_empty() {
            keep(bits, named, &self.words.fits(target.own));
        }
        if !excluded.is_empty() {
            bits.difference_with(&self.not_words.fits(target.own));
        }
    }

    fn server(&self, bits: &mut BitSet, server: &str) {
        self.servers.narrow(bits, [server].iter());
        if !self.not_servers.is_unused() {
            bits.difference_with(&self.not_servers.fits([server].iter()));
        }
    }

    /// Returns the policies among `concerning` that concern a server.
    pub(crate) fn about_server(&self, concerning: &BitSet, server: &str) -> BitSet {
        let mut bits = concerning.clone();
        bits.difference_with(&self.methods);
        self.server(&mut bits, server);
        bits
    }

    pub(crate) fn methods(&self) -> &BitSet {
        &self.methods
    }
}
