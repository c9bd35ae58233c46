//! All policies at once: which of them concern a caller, and which of those something that it asks
//! for. The work hardly grows with the number of policies.

use globset::Glob;

use crate::bitset::BitSet;
use crate::pattern;
use crate::rule::Rule;
use crate::target::Kind;
use crate::who::Who;
use crate::words::{Word, WordIndex};
use crate::{Subject, Target};

/// See the module.
#[derive(Debug)]
pub(crate) struct Index {
    size: usize,
    who: [pattern::Index; 6],
    /// Policies about callers without a credential, and those about all others.
    anonymous: [BitSet; 2],
    endpoints: pattern::Index,
    servers: pattern::Index,
    not_servers: pattern::Index,
    categories: pattern::Index,
    /// For each kind of thing: patterns, and the policies that name other kinds alone.
    kinds: [(pattern::Index, BitSet); 5],
    words: WordIndex,
    not_words: WordIndex,
    annotated: Vec<u32>,
    /// Policies about methods.
    methods: BitSet,
}

const KINDS: [Kind; 5] =
    [Kind::Tool, Kind::Prompt, Kind::Resource, Kind::PromptCompletion, Kind::ResourceCompletion];

impl Index {
    /// # Errors
    /// The patterns are too large together.
    pub(crate) fn new(rules: &[Rule]) -> Result<Self, String> {
        let size = rules.len();
        let all = || (0u32..).zip(rules);
        let lists = |pick: &dyn Fn(&Rule) -> Option<&[Glob]>| {
            let picked: Vec<(u32, &[Glob])> =
                all().filter_map(|(at, rule)| Some((at, pick(rule)?))).collect();
            pattern::Index::new(size, picked.into_iter())
        };
        let words = |pick: &dyn Fn(&Rule) -> Option<&[Word]>| {
            let picked: Vec<(u32, &[Word])> =
                all().filter_map(|(at, rule)| Some((at, pick(rule)?))).collect();
            WordIndex::new(size, picked.into_iter())
        };
        let set = |pick: &dyn Fn(&Rule) -> bool| {
            let mut bits = BitSet::none(size);
            all().filter(|(_, rule)| pick(rule)).for_each(|(at, _)| bits.insert(at));
            bits
        };
        let who = |n: usize| {
            lists(&|rule| rule.who.lists().get(n).and_then(|(_, globs)| globs.as_deref()))
        };
        let kind = |kind: Kind| {
            let unmeant = set(&|rule| rule.what.names_kinds() && rule.what.of(kind).is_none());
            lists(&|rule| rule.what.of(kind)).map(|index| (index, unmeant))
        };
        let [tools, prompts, resources, prompt_values, resource_values] = KINDS.map(kind);
        Ok(Self {
            size,
            who: [who(0)?, who(1)?, who(2)?, who(3)?, who(4)?, who(5)?],
            anonymous: [true, false].map(|wanted| set(&|rule| rule.who.anonymous == Some(wanted))),
            endpoints: lists(&|rule| rule.what.endpoints.as_deref())?,
            servers: lists(&|rule| rule.what.servers.as_deref())?,
            not_servers: lists(&|rule| rule.what.not_servers.as_deref())?,
            categories: lists(&|rule| rule.what.categories.as_deref())?,
            kinds: [tools?, prompts?, resources?, prompt_values?, resource_values?],
            words: words(&|rule| rule.what.words.as_deref())?,
            not_words: words(&|rule| rule.what.not_words.as_deref())?,
            annotated: all()
                .filter(|(_, rule)| rule.what.annotations.is_some())
                .map(|(at, _)| at)
                .collect(),
            methods: set(&|rule| rule.what.methods.is_some()),
        })
    }

    /// Whether who asks, or where, makes any difference.
    pub(crate) fn tells_callers_apart(&self) -> bool {
        !(self.who.iter().all(pattern::Index::is_unused)
            && self.endpoints.is_unused()
            && self.anonymous.iter().all(BitSet::is_empty))
    }

    /// The policies that concern a caller at an endpoint.
    pub(crate) fn concerning(&self, subject: &Subject<'_>, endpoint: &str) -> BitSet {
        let mut bits = BitSet::none(self.size);
        (0u32..).take(self.size).for_each(|at| bits.insert(at));
        for (index, names) in self.who.iter().zip(Who::names(subject)) {
            index.narrow(&mut bits, self.size, names.iter());
        }
        let [only_anonymous, only_known] = &self.anonymous;
        let excluded = if subject.is_anonymous() { only_known } else { only_anonymous };
        excluded.iter().for_each(|at| bits.remove(at));
        self.endpoints.narrow(&mut bits, self.size, [endpoint].iter());
        bits
    }

    /// Those of them that concern what is asked for.
    pub(crate) fn about(&self, concerning: &BitSet, rules: &[Rule], target: &Target<'_>) -> BitSet {
        let mut bits = concerning.clone();
        self.methods.iter().for_each(|at| bits.remove(at));
        self.server(&mut bits, target.server);
        self.categories.narrow(&mut bits, self.size, target.category.into_iter());
        let [tools, prompts, resources, prompt_values, resource_values] = &self.kinds;
        let (index, unmeant) = match target.kind {
            Kind::Tool => tools,
            Kind::Prompt => prompts,
            Kind::Resource => resources,
            Kind::PromptCompletion => prompt_values,
            Kind::ResourceCompletion => resource_values,
        };
        unmeant.iter().for_each(|at| bits.remove(at));
        index.narrow(&mut bits, self.size, target.spellings().iter());
        self.narrow_by_words(&mut bits, target);
        for &at in &self.annotated {
            if bits.contains(at)
                && !rules.get(at as usize).is_some_and(|rule| rule.what.annotations_fit(target))
            {
                bits.remove(at);
            }
        }
        bits
    }

    /// Takes out the policies that go by words and whose words do not fit.
    fn narrow_by_words(&self, bits: &mut BitSet, target: &Target<'_>) {
        let named = self.words.restricted();
        let excluded = self.not_words.restricted();
        if target.kind != Kind::Tool {
            named.iter().chain(excluded.iter()).for_each(|at| bits.remove(at));
            return;
        }
        if !named.is_empty() {
            bits.keep(named, &self.words.fits(self.size, target.own));
        }
        if !excluded.is_empty() {
            self.not_words.fits(self.size, target.own).iter().for_each(|at| bits.remove(at));
        }
    }

    fn server(&self, bits: &mut BitSet, server: &str) {
        self.servers.narrow(bits, self.size, [server].iter());
        if !self.not_servers.is_unused() {
            self.not_servers.fits(self.size, [server].iter()).iter().for_each(|at| bits.remove(at));
        }
    }

    /// Those that concern a server, whatever of it is asked for.
    pub(crate) fn about_server(&self, concerning: &BitSet, server: &str) -> BitSet {
        let mut bits = concerning.clone();
        self.methods.iter().for_each(|at| bits.remove(at));
        self.server(&mut bits, server);
        bits
    }

    /// Those about methods.
    pub(crate) fn methods(&self) -> &BitSet {
        &self.methods
    }
}
