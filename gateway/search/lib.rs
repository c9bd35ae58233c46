//! Search for tools by words: BM25F over names, titles, servers, descriptions and parameters;
//! optionally also by vectors. In process and deterministic: equal tools and queries give equal
//! results.

mod find;
mod index;
mod query;
mod vectors;
mod words;

pub use find::{Hit, Part, find};
pub use index::{Builder, Document, Index};
pub use query::{MAX_QUERY_BYTES, MAX_QUERY_TERMS, Query, QueryError, Synonyms};
pub use vectors::{Vector, find_similar, normalize};

#[cfg(test)]
mod corpora;
