//! Pages of lists: sorted by a unique key, or by a rank and then the key, after a cursor and up to
//! a limit.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt::Display;
use std::str::FromStr;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::access::ORGANISATION;
use super::payloads::{members, types};
use super::problem::{Problem, Result};

/// Default items per page.
pub(crate) const DEFAULT_ITEMS: usize = 50;
/// Maximum number of items per page.
pub(crate) const MAX_ITEMS: usize = 200;

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
    pub(crate) search: Option<String> max 256,
}
}

impl<'de, F: DeserializeOwned> Deserialize<'de> for Paged<F> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut filter = Map::deserialize(deserializer)?;
        let part = ["limit", "cursor"].into_iter().filter_map(|name| filter.remove_entry(name));
        let part = read(part.collect()).map_err(D::Error::custom)?;
        let filter = read(filter).map_err(D::Error::custom)?;
        Ok(Self { part, filter })
    }
}

impl PageQuery {
    /// Returns the requested page, sorted by `key`, which is unique in the list.
    pub(crate) fn cut<T>(&self, all: Vec<T>, key: impl Fn(&T) -> &str) -> Result<Page<T>> {
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
    pub(crate) fn map<U>(self, convert: impl FnMut(T) -> U) -> Page<U> {
        let Self { items, total, next_cursor } = self;
        Page { items: items.into_iter().map(convert).collect(), total, next_cursor }
    }

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

/// A position in a list: the rank, unless the list is sorted by the key alone, and the key, which
/// is unique in the list. Ranks are compared as text, and contain no `|`, the separator in cursors.
pub(crate) type ListPosition = (Option<String>, String);

impl PartQuery {
    /// Returns the requested page of the items with `search` in their key, sorted by the key, which
    /// is unique in the list.
    pub(crate) fn cut<T>(
        &self,
        search: Option<&str>,
        all: Vec<T>,
        key: impl Fn(&T) -> &str,
    ) -> Result<Page<T>> {
        self.cut_sorted(search, all, key, false, |_| None)
    }

    /// Returns the requested page of the items with `search` in their key, sorted by their ranks,
    /// if they have ranks, and their keys.
    pub(crate) fn cut_sorted<T>(
        &self,
        search: Option<&str>,
        mut all: Vec<T>,
        key: impl Fn(&T) -> &str,
        is_descending: bool,
        rank: impl Fn(&T) -> Option<String>,
    ) -> Result<Page<T>> {
        if let Some(search) = search {
            all.retain(|item| key(item).contains(search));
        }
        let placed = all.into_iter().map(|item| ((rank(&item), key(&item).to_owned()), item));
        self.cut_placed(placed.collect(), is_descending)
    }

    /// Returns the requested page, sorted by position. Fails if the cursor is for another sort
    /// order.
    pub(crate) fn cut_placed<T>(
        &self,
        mut placed: Vec<(ListPosition, T)>,
        is_descending: bool,
    ) -> Result<Page<T>> {
        let limit = self.check_limit()?.unwrap_or(DEFAULT_ITEMS);
        let total = placed.len();
        placed.sort_by(|(one, _), (other, _)| in_order(one, other, is_descending));
        if let Some(cursor) = &self.cursor
            && let Some(((rank, _), _)) = placed.first()
        {
            let after = read_cursor(cursor, rank.is_some())?;
            placed.retain(|(place, _)| in_order(place, &after, is_descending).is_gt());
        }
        let has_more = placed.len() > limit;
        placed.truncate(limit);
        let last = placed.last().filter(|_| has_more);
        let next_cursor = last.map(|((rank, key), _)| match rank {
            Some(rank) => format!("{rank}|{key}"),
            None => key.clone(),
        });
        Ok(Page { items: placed.into_iter().map(|(_, item)| item).collect(), total, next_cursor })
    }

    /// Returns the requested number of items per page.
    pub(crate) fn check_limit(&self) -> Result<Option<usize>> {
        match self.limit {
            Some(limit) if !(1..=MAX_ITEMS).contains(&limit) => {
                Err(Problem::in_query("`limit`: must be from 1 to 200"))
            }
            limit => Ok(limit),
        }
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

impl StoredSort {
    /// Returns the position of an item of the registry. Names are sorted ignoring case.
    pub(crate) fn place(
        self,
        name: &str,
        id: &str,
        (created, updated): (i64, i64),
    ) -> ListPosition {
        let rank = match self {
            Self::Name => name.to_lowercase().replace('|', " "),
            Self::CreatedAt => format!("{created:020}"),
            Self::UpdatedAt => format!("{updated:020}"),
        };
        (Some(rank), id.to_owned())
    }
}

/// Compares positions. Keys of equal ranks ascend in either order of ranks.
fn in_order(one: &ListPosition, other: &ListPosition, is_descending: bool) -> Ordering {
    let keys = one.1.cmp(&other.1);
    match (one.0.cmp(&other.0), is_descending) {
        (Ordering::Equal, true) if one.0.is_none() => keys.reverse(),
        (ranks, false) => ranks.then(keys),
        (ranks, true) => ranks.reverse().then(keys),
    }
}

fn read_cursor(cursor: &str, has_rank: bool) -> Result<ListPosition> {
    if !has_rank {
        return Ok((None, cursor.to_owned()));
    }
    let (rank, key) = cursor
        .split_once('|')
        .ok_or_else(|| Problem::in_query("`cursor`: is from a list with another sort order"))?;
    Ok((Some(rank.to_owned()), key.to_owned()))
}

// Strict parsing of queries: unknown and repeated parameters are errors.

/// A query as `T`, which rejects unknown parameters. `organizationId` is excluded.
pub(crate) struct Query<T>(pub(crate) T);

/// Parses parameters that are not empty.
pub(crate) fn query<T: DeserializeOwned>(given: &[(&str, &str)]) -> Result<Query<T>> {
    let given = given.iter().filter(|(_, value)| !value.is_empty());
    Ok(Query(parse(given.map(|(name, value)| ((*name).into(), (*value).into())))?))
}

impl<S: Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self> {
        let query = parts.uri.query().unwrap_or("");
        Ok(Self(parse(form_urlencoded::parse(query.as_bytes()))?))
    }
}

fn parse<'a, T: DeserializeOwned>(
    query: impl Iterator<Item = (Cow<'a, str>, Cow<'a, str>)>,
) -> Result<T> {
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
