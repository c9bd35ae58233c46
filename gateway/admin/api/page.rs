//! Lists in pages: sorted by a key that is unique, after a cursor, up to a limit.

use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::problem::Problem;
use super::query::number;

/// Items of a page where nobody says how many.
const DEFAULT: usize = 50;
/// Most items of a page.
const MOST: usize = 200;

/// Which part of a list.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct PageQuery {
    /// Items of a page.
    #[serde(default, deserialize_with = "number")]
    #[param(minimum = 1, maximum = 200)]
    pub(crate) limit: Option<usize>,
    /// Where the page begins: `nextCursor` of the page before.
    #[serde(default)]
    #[param(max_length = 1024)]
    pub(crate) cursor: Option<String>,
    /// Only items whose name has this text in it.
    #[serde(default)]
    #[param(max_length = 256)]
    pub(crate) search: Option<String>,
}

/// A part of a list.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Page<T> {
    pub(crate) items: Vec<T>,
    /// How many there are in all pages.
    pub(crate) total: usize,
    /// Where the next page begins, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next_cursor: Option<String>,
}

impl PageQuery {
    /// The part of a list that is asked for; `key` is unique in it.
    ///
    /// # Errors
    /// The limit is out of range.
    pub(crate) fn cut<T>(
        &self,
        mut all: Vec<T>,
        key: impl Fn(&T) -> &str,
    ) -> Result<Page<T>, Problem> {
        let limit = self.limit.unwrap_or(DEFAULT);
        if !(1..=MOST).contains(&limit) {
            let detail = "`limit`: must be from 1 to 200";
            return Err(Problem::new(StatusCode::BAD_REQUEST, "INVALID_QUERY", detail));
        }
        if let Some(search) = &self.search {
            all.retain(|item| key(item).contains(search.as_str()));
        }
        all.sort_by(|one, other| key(one).cmp(key(other)));
        let total = all.len();
        if let Some(cursor) = &self.cursor {
            all.retain(|item| key(item) > cursor.as_str());
        }
        let more = all.len() > limit;
        all.truncate(limit);
        let last = all.last().filter(|_| more);
        let next_cursor = last.map(|item| key(item).to_owned());
        Ok(Page { items: all, total, next_cursor })
    }
}

#[cfg(test)]
mod tests;
