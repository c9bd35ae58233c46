//! Settings as written: numbers with a range and a default, sizes, durations, booleans, text and
//! lists. Each is also readable from text, because environment variables and references are text.
//! No message quotes a value. [`settings`](crate::settings) declares the sections of layers.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::marker::PhantomData;
use std::path::PathBuf;
use std::time::Duration;

use serde::de::{self, Deserialize, Deserializer, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};

#[cfg(feature = "schema")]
#[doc(hidden)]
pub use schemars;

mod section;

/// Separates a mistake from the hint in messages of deserializers.
pub const HINT: &str = " — ";

/// The unit of a number.
pub trait Unit {
    /// The noun in messages, such as `a number of seconds`.
    const NOUN: &'static str;
    const EXAMPLE: &'static str;
    /// Pattern of the textual form, for editors.
    #[cfg(feature = "schema")]
    const PATTERN: &'static str;
    fn parse(text: &str) -> Option<u64>;
    fn say(value: u64) -> String;
}

pub struct Count;
pub struct Second;
pub struct Byte;

impl Unit for Count {
    const NOUN: &'static str = "a whole number";
    const EXAMPLE: &'static str = "100";
    #[cfg(feature = "schema")]
    const PATTERN: &'static str = r"^([0-9]+|.*\$\{.+\}.*)$";

    fn parse(text: &str) -> Option<u64> {
        text.parse().ok()
    }

    fn say(value: u64) -> String {
        value.to_string()
    }
}

impl Unit for Second {
    const NOUN: &'static str = "a number of seconds";
    const EXAMPLE: &'static str = "30, 30s or 2m";
    #[cfg(feature = "schema")]
    const PATTERN: &'static str = r"^([0-9]+ *[smh]?|.*\$\{.+\}.*)$";

    fn parse(text: &str) -> Option<u64> {
        scaled(text, &[("", 1), ("s", 1), ("m", 60), ("h", 3600)])
    }

    fn say(value: u64) -> String {
        format!("{value} s")
    }
}

impl Unit for Byte {
    const NOUN: &'static str = "a size in bytes";
    const EXAMPLE: &'static str = "65536, 64KiB or 16MB";
    #[cfg(feature = "schema")]
    const PATTERN: &'static str = r"^([0-9]+ *(B|[kKMG]B|[KMG]iB)?|.*\$\{.+\}.*)$";

    fn parse(text: &str) -> Option<u64> {
        const UNITS: &[(&str, u64)] = &[
            ("", 1),
            ("B", 1),
            ("kB", 1000),
            ("KB", 1000),
            ("MB", 1_000_000),
            ("GB", 1_000_000_000),
            ("KiB", 1 << 10),
            ("MiB", 1 << 20),
            ("GiB", 1 << 30),
        ];
        scaled(text, UNITS)
    }

    fn say(value: u64) -> String {
        let units = [
            ("GiB", 1 << 30),
            ("GB", 1_000_000_000),
            ("MiB", 1 << 20),
            ("MB", 1_000_000),
            ("KiB", 1 << 10),
        ];
        for (name, unit) in units {
            if value >= unit && value.is_multiple_of(unit) {
                return format!("{}{name}", value / unit);
            }
        }
        value.to_string()
    }
}

fn scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let (_, factor) = units.iter().find(|(name, _)| *name == unit.trim())?;
    number.parse::<u64>().ok()?.checked_mul(*factor)
}

/// A number from `MIN` to `MAX`; `DEFAULT` if not given.
pub struct Bounded<U, const MIN: u64, const MAX: u64, const DEFAULT: u64> {
    value: u64,
    unit: PhantomData<U>,
}

pub type Whole<const MIN: u64, const MAX: u64, const DEFAULT: u64> =
    Bounded<Count, MIN, MAX, DEFAULT>;
pub type Seconds<const MIN: u64, const MAX: u64, const DEFAULT: u64> =
    Bounded<Second, MIN, MAX, DEFAULT>;
pub type Size<const MIN: u64, const MAX: u64, const DEFAULT: u64> =
    Bounded<Byte, MIN, MAX, DEFAULT>;

impl<U, const MIN: u64, const MAX: u64, const DEFAULT: u64> Bounded<U, MIN, MAX, DEFAULT> {
    pub fn get(&self) -> u64 {
        self.value
    }

    pub fn duration(&self) -> Duration {
        Duration::from_secs(self.value)
    }
}

impl<U, const MIN: u64, const MAX: u64, const DEFAULT: u64> Default
    for Bounded<U, MIN, MAX, DEFAULT>
{
    fn default() -> Self {
        Self { value: DEFAULT, unit: PhantomData }
    }
}

impl<'de, U: Unit, const MIN: u64, const MAX: u64, const DEFAULT: u64> Deserialize<'de>
    for Bounded<U, MIN, MAX, DEFAULT>
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = deserializer.deserialize_any(Number::<U>(PhantomData))?;
        if number < i128::from(MIN) || number > i128::from(MAX) {
            return Err(de::Error::custom(out_of_range(MIN, MAX, DEFAULT, U::say)));
        }
        Ok(Self { value: u64::try_from(number).unwrap_or(MAX), unit: PhantomData })
    }
}

/// Returns the message for a number out of range. Not generic, because its code is shared
/// by about a hundred number types.
fn out_of_range(min: u64, max: u64, default: u64, say: fn(u64) -> String) -> String {
    let hint = match default {
        0 if min > 0 => "remove it for the default".to_string(),
        _ => format!("the default is {}", say(default)),
    };
    format!("must be from {} to {}{HINT}{hint}", say(min), say(max))
}

struct Number<U>(PhantomData<U>);

impl<U: Unit> Visitor<'_> for Number<U> {
    type Value = i128;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(U::NOUN)
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<i128, E> {
        Ok(value.into())
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<i128, E> {
        Ok(value.into())
    }

    fn visit_i128<E: de::Error>(self, value: i128) -> Result<i128, E> {
        Ok(value)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<i128, E> {
        match U::parse(text.trim()) {
            Some(value) => Ok(value.into()),
            None => Err(E::custom(format!("must be {}{HINT}write {}", U::NOUN, U::EXAMPLE))),
        }
    }
}

impl<U: Unit, const MIN: u64, const MAX: u64, const DEFAULT: u64> Serialize
    for Bounded<U, MIN, MAX, DEFAULT>
{
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let said = U::say(self.value);
        if said.ends_with('B') {
            serializer.serialize_str(&said)
        } else {
            serializer.serialize_u64(self.value)
        }
    }
}

/// `true` or `false`; `DEFAULT` if not given.
pub struct Toggle<const DEFAULT: bool>(pub bool);

impl<const DEFAULT: bool> Default for Toggle<DEFAULT> {
    fn default() -> Self {
        Self(DEFAULT)
    }
}

impl<'de, const DEFAULT: bool> Deserialize<'de> for Toggle<DEFAULT> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ToggleVisitor;

        impl Visitor<'_> for ToggleVisitor {
            type Value = bool;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("true or false")
            }

            fn visit_bool<E: de::Error>(self, value: bool) -> Result<bool, E> {
                Ok(value)
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<bool, E> {
                match text.trim().to_ascii_lowercase().as_str() {
                    "true" => Ok(true),
                    "false" => Ok(false),
                    _ => Err(E::custom(format!("must be true or false{HINT}write true or false"))),
                }
            }
        }

        Ok(Self(deserializer.deserialize_any(ToggleVisitor)?))
    }
}

impl<const DEFAULT: bool> Serialize for Toggle<DEFAULT> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bool(self.0)
    }
}

/// Any text. Numbers and booleans must be quoted, because their spelling would be lost. No `Debug`
/// and no `Serialize`, because the text may be a secret.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Text(pub String);

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;

        impl Visitor<'_> for TextVisitor {
            type Value = String;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<String, E> {
                if text.contains('\0') {
                    return Err(E::custom(format!("must not contain NUL{HINT}remove it")));
                }
                Ok(text.to_string())
            }
        }

        Ok(Self(deserializer.deserialize_any(TextVisitor)?))
    }
}

/// A list of texts, or a text with commas between the items (except inside brackets or braces).
#[derive(Clone, Default)]
pub struct List(pub Vec<String>);

/// Maximum items of a list.
const MAX_ITEMS: usize = 1000;

impl<const N: usize> From<[&str; N]> for List {
    fn from(items: [&str; N]) -> Self {
        Self(items.map(str::to_owned).to_vec())
    }
}

impl<'de> Deserialize<'de> for List {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ListVisitor;

        impl<'de> Visitor<'de> for ListVisitor {
            type Value = Vec<String>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Vec<String>, E> {
                Ok(split(text))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<String>, A::Error> {
                let mut list = Vec::new();
                while let Some(Text(item)) = seq.next_element()? {
                    list.push(item);
                }
                Ok(list)
            }
        }

        let list = deserializer.deserialize_any(ListVisitor)?;
        if list.len() > MAX_ITEMS {
            return Err(de::Error::custom(format!(
                "must have at most {MAX_ITEMS} items{HINT}use wider patterns"
            )));
        }
        Ok(Self(list))
    }
}

/// A setting as written, which is used as a `T`.
pub trait Written<T> {
    fn plain(self) -> T;
}

/// Implements [`Written`] for numbers that are used as these types.
macro_rules! numbers {
    ($($number:ty),+) => { $(
        impl<U, const MIN: u64, const MAX: u64, const DEFAULT: u64> Written<$number>
            for Bounded<U, MIN, MAX, DEFAULT>
        {
            fn plain(self) -> $number {
                <$number>::try_from(self.value).unwrap_or(<$number>::MAX)
            }
        }
    )+ };
}

numbers!(u16, u32, usize);

impl<U, const MIN: u64, const MAX: u64, const DEFAULT: u64> Written<u64>
    for Bounded<U, MIN, MAX, DEFAULT>
{
    fn plain(self) -> u64 {
        self.value
    }
}

impl<const MIN: u64, const MAX: u64, const DEFAULT: u64> Written<Duration>
    for Seconds<MIN, MAX, DEFAULT>
{
    fn plain(self) -> Duration {
        self.duration()
    }
}

impl<const DEFAULT: bool> Written<bool> for Toggle<DEFAULT> {
    fn plain(self) -> bool {
        self.0
    }
}

impl Written<String> for Text {
    fn plain(self) -> String {
        self.0
    }
}

impl Written<PathBuf> for Text {
    fn plain(self) -> PathBuf {
        self.0.into()
    }
}

impl<T: From<String>> Written<Vec<T>> for List {
    fn plain(self) -> Vec<T> {
        self.0.into_iter().map(T::from).collect()
    }
}

impl Written<BTreeSet<String>> for List {
    fn plain(self) -> BTreeSet<String> {
        self.0.into_iter().collect()
    }
}

impl<T, W: Written<T>> Written<Option<T>> for Option<W> {
    fn plain(self) -> Option<T> {
        self.map(W::plain)
    }
}

impl<T, W: Written<T>> Written<Vec<T>> for Vec<W> {
    fn plain(self) -> Vec<T> {
        self.into_iter().map(W::plain).collect()
    }
}

impl<T, W: Written<T>> Written<BTreeMap<String, T>> for BTreeMap<String, W> {
    fn plain(self) -> BTreeMap<String, T> {
        self.into_iter().map(|(key, value)| (key, value.plain())).collect()
    }
}

fn split(text: &str) -> Vec<String> {
    let mut depth = 0_i32;
    let items = text.split(|c: char| {
        depth += i32::from(matches!(c, '{' | '[')) - i32::from(matches!(c, '}' | ']'));
        c == ',' && depth <= 0
    });
    let items = items.map(|item| item.trim().to_owned());
    items.filter(|item| !item.is_empty()).collect()
}

#[cfg(feature = "schema")]
mod schema;
