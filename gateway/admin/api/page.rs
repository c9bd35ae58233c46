//! Pages of lists: sorted by a unique key, or by a rank and then the key, after a cursor and up to
//! a limit.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt::Display;
use std::str::FromStr;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use lockgate_registry::{Page as Found, Sort};
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::access::ORGANISATION;
use super::payloads::{members, types};
use super::problem::Problem;

/// Default items per page.
pub(crate) const DEFAULT_ITEMS: usize = 50;
/// Maximum number of items per page.
const MAX_ITEMS: usize = 200;

#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub(crate) struct PartQuery {
    /// The maximum number of items per page.
    #[serde(default, deserialize_with = "number")]
    #[cfg_attr(test, param(minimum = 1, maximum = 200))]
    pub(crate) limit: Option<usize>,
    /// The start of the page: `nextCursor` of the previous page.
    #[cfg_attr(test, param(max_length = 1024))]
    pub(crate) cursor: Option<String>,
}

/// The query of a list: its part, and a filter.
#[derive(Debug, Default)]
pub(crate) struct Paged<F> {
    pub(crate) part: PartQuery,
    pub(crate) filter: F,
}

/// The query of a list that is filtered by its key only.
pub(crate) type PageQuery = Paged<SearchQuery>;

types! {
filter pub(crate) struct SearchQuery {
    /// Part of the name.
    search: Option<String> max 256,
}
}

impl<'de, F: DeserializeOwned> Deserialize<'de> for Paged<F> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut filter = Map::deserialize(deserializer)?;
        let part = ["limit", "cursor"].into_iter().filter_map(|name| filter.remove_entry(name));
        let part = read(part.collect()).map_err(D::Error::custom)?;
        let filter = read(filter).map_err(|words| D::Error::custom(add_part(words)))?;
        Ok(Self { part, filter })
    }
}

/// Adds the parameters of every list to an error that names the known parameters.
fn add_part(words: String) -> String {
    match words.rsplit_once(", expected ") {
        Some((unknown, known)) if unknown.contains("unknown field") => {
            let known = known.trim_start_matches("one of ").replace(" or ", ", ");
            format!("{unknown}, expected one of `limit`, `cursor`, {known}")
        }
        _ => words,
    }
}

impl PageQuery {
    /// Returns the requested page, sorted by `key`, which is unique in the list.
    pub(crate) fn cut<T>(&self, all: Vec<T>, key: impl Fn(&T) -> &str) -> Result<Page<T>, Problem> {
        self.part.cut(self.filter.search.as_deref(), all, key)
    }
}

/// A part of a list.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Page<T> {
    pub(crate) items: Vec<T>,
    /// The number of items in all pages.
    pub(crate) total: usize,
    /// The start of the next page, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next_cursor: Option<String>,
}

impl<T> Page<T> {
    /// Converts the items; those without a result are omitted.
    pub(crate) fn filter_map<U>(self, convert: impl FnMut(T) -> Option<U>) -> Page<U> {
        let Self { items, total, next_cursor } = self;
        Page { items: items.into_iter().filter_map(convert).collect(), total, next_cursor }
    }
}

types! {
/// The order of a list.
choice pub(crate) enum SortOrder {
    /// Ascending.
    Asc,
    /// Descending.
    Desc,
}
}

impl SortOrder {
    /// Returns whether the order is descending; ascending is the default.
    pub(crate) fn is_descending(order: Option<Self>) -> bool {
        matches!(order, Some(Self::Desc))
    }
}

/// A position in a list: rank and key.
type ListPosition = (String, String);

impl PartQuery {
    /// Returns the requested page of the items with `search` in their key, sorted by the key, which
    /// is unique in the list.
    pub(crate) fn cut<T>(
        &self,
        search: Option<&str>,
        all: Vec<T>,
        key: impl Fn(&T) -> &str,
    ) -> Result<Page<T>, Problem> {
        self.cut_sorted(search, all, key, None, |_| String::new())
    }

    /// Returns the requested page, sorted by the key, or first by a rank, if an order is given
    /// (whether it is descending). Ranks are compared as text, and contain no `|`, the separator in
    /// cursors. Fails if the cursor is for another sort order.
    pub(crate) fn cut_sorted<T>(
        &self,
        search: Option<&str>,
        mut all: Vec<T>,
        key: impl Fn(&T) -> &str,
        order: Option<bool>,
        rank: impl Fn(&T) -> String,
    ) -> Result<Page<T>, Problem> {
        let limit = self.check_limit()?.unwrap_or(DEFAULT_ITEMS);
        if let Some(search) = search {
            all.retain(|item| key(item).contains(search));
        }
        let total = all.len();
        let descending = order == Some(true);
        let placed = all.into_iter().map(|item| {
            let rank = order.map(|_| rank(&item)).unwrap_or_default();
            ((rank, key(&item).to_owned()), item)
        });
        let mut placed: Vec<(ListPosition, T)> = placed.collect();
        placed.sort_by(|(one, _), (other, _)| in_order(one, other, descending));
        if let Some(cursor) = &self.cursor {
            let after = read_cursor(cursor, order.is_some())?;
            placed.retain(|(place, _)| in_order(place, &after, descending).is_gt());
        }
        let more = placed.len() > limit;
        placed.truncate(limit);
        let next_cursor = match placed.last() {
            Some((place, _)) if more => Some(write_cursor(place, order.is_some())),
            _ => None,
        };
        let items: Vec<_> = placed.into_iter().map(|(_, item)| item).collect();
        Ok(Page { items, total, next_cursor })
    }
}

/// The requested part of a list that the registry pages itself.
pub(crate) struct Part {
    /// The number of preceding items.
    pub(crate) offset: usize,
    pub(crate) limit: Option<usize>,
}

impl PartQuery {
    /// Returns the requested number of items per page.
    pub(crate) fn check_limit(&self) -> Result<Option<usize>, Problem> {
        match self.limit {
            Some(limit) if !(1..=MAX_ITEMS).contains(&limit) => {
                Err(Problem::in_query("`limit`: must be from 1 to 200"))
            }
            limit => Ok(limit),
        }
    }

    /// Returns the requested part of a list that the registry pages itself.
    pub(crate) fn read(&self) -> Result<Part, Problem> {
        let limit = self.check_limit()?;
        let offset = match self.cursor.as_deref().map(str::parse) {
            None => 0,
            Some(Ok(offset)) => offset,
            Some(Err(_)) => return Err(Problem::in_query("`cursor`: is not from a response")),
        };
        Ok(Part { offset, limit })
    }
}

impl Part {
    pub(crate) fn make_page<T, U>(&self, found: Found<T>, show: impl FnMut(T) -> U) -> Page<U> {
        let items: Vec<U> = found.items.into_iter().map(show).collect();
        let next = self.offset.saturating_add(items.len());
        let has_more = next < found.total && !items.is_empty();
        let next_cursor = if has_more { Some(next.to_string()) } else { None };
        Page { items, total: found.total, next_cursor }
    }
}

types! {
/// The sort key of integrations and agents.
#[derive(Default)]
choice pub(crate) enum StoredSort {
    #[default]
    Name,
    CreatedAt,
    UpdatedAt,
}
}

impl From<StoredSort> for Sort {
    fn from(sort: StoredSort) -> Self {
        match sort {
            StoredSort::Name => Self::Name,
            StoredSort::CreatedAt => Self::CreatedAt,
            StoredSort::UpdatedAt => Self::UpdatedAt,
        }
    }
}

/// Compares positions. Keys of equal ranks ascend in either order of ranks.
fn in_order(one: &ListPosition, other: &ListPosition, descending: bool) -> Ordering {
    let ranks = one.0.cmp(&other.0);
    let ranks = if descending { ranks.reverse() } else { ranks };
    ranks.then_with(|| one.1.cmp(&other.1))
}

fn write_cursor((rank, key): &ListPosition, has_rank: bool) -> String {
    if has_rank { format!("{rank}|{key}") } else { key.clone() }
}

fn read_cursor(cursor: &str, has_rank: bool) -> Result<ListPosition, Problem> {
    if !has_rank {
        return Ok((String::new(), cursor.to_owned()));
    }
    match cursor.split_once('|') {
        Some((rank, key)) => Ok((rank.to_owned(), key.to_owned())),
        None => Err(Problem::in_query("`cursor`: is from a list with another sort order")),
    }
}

// Strict parsing of queries: unknown and repeated parameters are errors.

/// A query as `T`, which rejects unknown parameters. `organizationId` is excluded.
pub(crate) struct Query<T>(pub(crate) T);

/// Parses parameters that are not empty.
pub(crate) fn query<T: DeserializeOwned>(given: &[(&str, &str)]) -> Result<Query<T>, Problem> {
    let given = given.iter().filter(|(_, value)| !value.is_empty());
    Ok(Query(parse(given.map(|(name, value)| ((*name).into(), (*value).into())))?))
}

impl<S: Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let query = parts.uri.query().unwrap_or("");
        Ok(Self(parse(form_urlencoded::parse(query.as_bytes()))?))
    }
}

fn parse<'a, T: DeserializeOwned>(
    query: impl Iterator<Item = (Cow<'a, str>, Cow<'a, str>)>,
) -> Result<T, Problem> {
    let mut all = Map::new();
    for (name, value) in query {
        if name == ORGANISATION {
            continue;
        }
        if all.insert(name.to_string(), Value::String(value.into_owned())).is_some() {
            let name: String = name.chars().take(64).collect();
            return Err(Problem::in_query(format!("the parameter `{name}` is repeated")));
        }
    }
    read(all).map_err(Problem::in_query)
}

/// Deserializes parameters; the error names the wrong one.
pub(crate) fn read<T: DeserializeOwned>(all: Map<String, Value>) -> Result<T, String> {
    serde_path_to_error::deserialize(Value::Object(all)).map_err(|error| {
        let path = error.path().to_string();
        let words = error.into_inner().to_string();
        let name: String = path.chars().take(64).collect();
        if path == "." { words } else { format!("`{name}`: {words}") }
    })
}

/// Deserializes a number from text.
pub(crate) fn number<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: Display>,
{
    let text = String::deserialize(deserializer)?;
    text.parse().map(Some).map_err(D::Error::custom)
}

/// Deserializes a `true` or `false` from text.
pub(crate) fn flag<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<bool>, D::Error> {
    number(deserializer)
}

#[cfg(test)]
mod tests;
