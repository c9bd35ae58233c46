//! A part of a list that a page has read as a whole, with the addresses of the parts beside it.

use super::redirect::PagePath;

/// Number of items per page.
const PAGE: usize = 100;

pub(crate) struct ListPart<T> {
    pub(crate) items: Vec<T>,
    /// The position of the first item, from 1.
    pub(crate) first: usize,
    pub(crate) total: usize,
    pub(crate) previous: Option<String>,
    pub(crate) next: Option<String>,
}

impl<T> ListPart<T> {
    /// Returns the page of this number, from 1; the nearest if there is no such page.
    pub(crate) fn cut(all: Vec<T>, page: &str, path: &PagePath) -> Self {
        let total = all.len();
        let page: usize = page.parse().unwrap_or(1);
        let page = page.clamp(1, total.div_ceil(PAGE).max(1));
        let start = (page - 1) * PAGE;
        let items: Vec<T> = all.into_iter().skip(start).take(PAGE).collect();
        let previous = (page > 1).then(|| write_page(path, page - 1));
        let next = (start + items.len() < total).then(|| write_page(path, page + 1));
        Self { items, first: start + 1, total, previous, next }
    }

    pub(crate) fn last(&self) -> usize {
        self.first + self.items.len() - 1
    }
}

fn write_page(path: &PagePath, page: usize) -> String {
    path.clone().with("page", &page.to_string()).into_text()
}

#[cfg(test)]
mod tests;
