//! The future type of this crate's traits.

use std::pin::Pin;

/// A boxed future that borrows and is `Send`.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
