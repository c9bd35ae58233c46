//! The compiled model of a program: its options, their values, and its operands.

use std::collections::BTreeMap;

use super::builtin;
use super::spec::{MAX_ITEMS, ModelSpec, Style};

/// Nesting limit of subcommands.
const MAX_DEPTH: usize = 3;
/// Syntax of an option that consists only of digits.
const DIGITS: &str = "-#";
/// Units of a count.
const UNITS: &str = "b k K M G kB KB MB GB KiB MiB GiB";

#[derive(Debug)]
pub(super) struct Model {
    /// The words that lead to this model, for messages: `git log`.
    pub(super) name: String,
    /// The model as written, without its subcommands.
    pub(super) spec: ModelSpec,
    pub(super) flags: BTreeMap<String, Value>,
    /// Whether digits alone are an option, as in `head -5`.
    pub(super) digits: bool,
    pub(super) operands: Vec<Operand>,
    pub(super) subcommands: BTreeMap<String, Model>,
}

/// Whether and how an option takes a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    None,
    /// In the same word or in the next word.
    Required(ParameterKind),
    /// In the same word, or omitted.
    Attached(ParameterKind),
    /// As `Required`, but omitted if the option is the last argument.
    UnlessLast(ParameterKind),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ParameterKind {
    Text,
    Path,
    Number,
    /// Digits with a sign and a unit: `+5`, `-10`, `4k`, `1MiB`.
    Count,
    /// A format for commits in git, without placeholders that start gpg.
    Format,
    /// Fields of references that git prints or sorts by, without those that start gpg.
    Fields,
    OneOf(Vec<String>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Operand {
    pub(super) kind: ParameterKind,
    pub(super) optional: bool,
    pub(super) repeats: bool,
}

impl Model {
    /// Compiles the model of a program, at depth 1, or of a subcommand.
    pub(super) fn compile(name: &str, mut spec: ModelSpec, depth: usize) -> Result<Self, String> {
        let (flags, operands) =
            check(&spec, depth).map_err(|words| format!("models: {name}: {words}"))?;
        let mut subcommands = BTreeMap::new();
        for (sub, spec) in std::mem::take(&mut spec.subcommands) {
            let model = Self::compile(&format!("{name} {sub}"), spec, depth + 1)?;
            subcommands.insert(sub, model);
        }
        let digits = spec.flags.iter().any(|text| text == DIGITS);
        Ok(Self { name: name.to_owned(), spec, flags, digits, operands, subcommands })
    }

    /// Returns whether the word after this option is always its value, even if it begins with a
    /// dash: a search pattern.
    pub(super) fn takes_anything(&self, flag: &str) -> bool {
        matches!(self.name.as_str(), "grep" | "git grep") && matches!(flag, "-e" | "--regexp")
    }
}

/// Checks a model without its subcommands. Returns its options and operands.
fn check(
    spec: &ModelSpec,
    depth: usize,
) -> Result<(BTreeMap<String, Value>, Vec<Operand>), String> {
    if depth > MAX_DEPTH {
        return Err(format!("subcommands go at most {MAX_DEPTH} deep"));
    }
    let longest = spec.flags.len().max(spec.begins_with.len());
    if longest.max(spec.operands.len()).max(spec.subcommands.len()) > MAX_ITEMS {
        return Err(format!("a list has more than {MAX_ITEMS} items"));
    }
    let named = spec.flags.iter().filter(|text| *text != DIGITS);
    let flags = named.map(|text| flag(text, spec.style)).collect::<Result<BTreeMap<_, _>, _>>()?;
    let operands = spec.operands.iter().map(|text| operand(text));
    let operands = operands.collect::<Result<Vec<_>, _>>()?;
    if let Some((_, before)) = operands.split_last()
        && before.iter().any(|operand| operand.repeats)
    {
        return Err("only the last operand may repeat".into());
    }
    let needed = [&spec.need, &spec.operands_need, &spec.first_operand_unless];
    if let Some(flag) = needed.into_iter().flatten().find(|flag| !flags.contains_key(*flag)) {
        return Err(format!("`{flag}` is not among the flags"));
    }
    if !spec.subcommands.is_empty() && (!operands.is_empty() || spec.style != Style::Gnu) {
        return Err("a program with subcommands must have style gnu and no operands".into());
    }
    Ok((flags, operands))
}

/// Parses an option such as `-n=number`.
fn flag(text: &str, style: Style) -> Result<(String, Value), String> {
    let (flag, value) = match text.split_once('=') {
        None => (text, Value::None),
        Some((flag, of)) => match (flag.strip_suffix('?'), flag.strip_suffix('~')) {
            (Some(flag), _) => (flag, Value::Attached(kind(of)?)),
            (_, Some(flag)) => (flag, Value::UnlessLast(kind(of)?)),
            _ => (flag, Value::Required(kind(of)?)),
        },
    };
    let name = flag.trim_start_matches('-');
    let dashes = flag.len() - name.len();
    let printable =
        flag.bytes().all(|b| b.is_ascii_graphic()) && !flag.contains(['=', '\'', '"', '\\']);
    let fits = match style {
        Style::Gnu => (dashes == 1 && name.len() == 1) || (dashes == 2 && name.len() > 1),
        Style::Words => !name.is_empty() && dashes <= 2,
        Style::Plain => return Err(format!("`{text}`: style plain has no flags")),
    };
    if !fits || !printable {
        return Err(format!(
            "`{text}` is not a flag: write -x or --name, with =text, =path, =number, =count or \
                =a|b for a value"
        ));
    }
    Ok((flag.to_owned(), value))
}

fn kind(text: &str) -> Result<ParameterKind, String> {
    match text {
        "text" => Ok(ParameterKind::Text),
        "path" => Ok(ParameterKind::Path),
        "number" => Ok(ParameterKind::Number),
        "count" => Ok(ParameterKind::Count),
        "format" => Ok(ParameterKind::Format),
        "fields" => Ok(ParameterKind::Fields),
        _ => match alternatives(text) {
            Some(words) => Ok(ParameterKind::OneOf(words)),
            None => Err(format!(
                "`{text}` is not a kind of value: text, path, number, count, or words with | \
                    between them"
            )),
        },
    }
}

/// Parses words separated by `|`, none of them empty.
fn alternatives(text: &str) -> Option<Vec<String>> {
    let words = Vec::from_iter(text.split('|').map(str::to_owned));
    let are_whole = words.len() > 1 && words.iter().all(|word| !word.is_empty());
    are_whole.then_some(words)
}

fn operand(text: &str) -> Result<Operand, String> {
    let once = text.strip_suffix("...").unwrap_or(text);
    let repeats = once.len() < text.len();
    let bare = once.strip_suffix('?').unwrap_or(once);
    let optional = repeats || bare.len() < once.len();
    Ok(Operand { kind: kind(bare)?, optional, repeats })
}

impl ParameterKind {
    pub(super) fn fits(&self, value: &str) -> bool {
        match self {
            Self::Text | Self::Path => true,
            Self::Number => {
                (1..=18).contains(&value.len()) && value.bytes().all(|b| b.is_ascii_digit())
            }
            Self::Count => {
                let bare = value.strip_prefix(['+', '-']).unwrap_or(value);
                let unit = bare.trim_start_matches(|c: char| c.is_ascii_digit());
                (1..=18).contains(&(bare.len() - unit.len()))
                    && (unit.is_empty() || UNITS.split(' ').any(|known| known == unit))
            }
            Self::Format => builtin::is_format(value),
            Self::Fields => builtin::are_fields(value),
            Self::OneOf(words) => words.iter().any(|word| word == value),
        }
    }

    /// Describes the expected value for a message.
    pub(super) fn words(&self) -> String {
        match self {
            Self::Text => "text".into(),
            Self::Path => "a path".into(),
            Self::Number => "a number".into(),
            Self::Count => "a number, such as 10".into(),
            Self::Format => format!(
                "a format without %G, which starts gpg, or one of {}",
                builtin::FORMATS.join(", ")
            ),
            Self::Fields => "fields without %G and `signature`, which start gpg,".into(),
            Self::OneOf(words) => format!("one of {}", words.join(", ")),
        }
    }
}
