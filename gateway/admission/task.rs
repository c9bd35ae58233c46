//! Tasks of the runtime.

use std::pin::Pin;

use tokio::task::JoinHandle;

/// Spawns a task, as [`tokio::spawn`] does. The future is boxed without its type, because the
/// runtime's code for a task is compiled once per type of future.
///
/// # Panics
/// Outside of a runtime.
pub fn spawn<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    let boxed: Pin<Box<dyn Future<Output = T> + Send>> = Box::pin(future);
    tokio::spawn(boxed)
}
