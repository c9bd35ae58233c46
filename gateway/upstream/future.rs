//! The futures that traits of this layer give.

use std::pin::Pin;

/// A future that borrows and may move between threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
