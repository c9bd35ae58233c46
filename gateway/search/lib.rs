//! Search for tools by words: BM25F over names, titles, servers, descriptions and parameters;
//! optionally also by vectors. In process and deterministic: equal tools and queries give equal
//! results.

mod find;
mod index;
mod query;
mod words;

pub use find::{Hit, Part, Vector, find, find_similar, normalize};
pub use index::{Builder, Document, Index};
pub use query::{MAX_QUERY_BYTES, MAX_QUERY_TERMS, Query, QueryError, Synonyms};

#[cfg(test)]
mod tests;
