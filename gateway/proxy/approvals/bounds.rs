//! How many calls may wait for people.

/// How many may wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) all: usize,
    pub(crate) of_principal: usize,
}

/// There is no room for one more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoRoom {
    All,
    OfPrincipal,
}
