//! Memory accounting of lists, while they are read and for as long as they are referenced. Lists of
//! the operator's servers are charged to the budget of messages; those of organisations have their
//! own budgets, in which lists of resting servers are evicted for others.

use std::sync::Arc;

use lockgate_admission::budget::{Budget, Hold};

/// Uncharged bytes per operator's server: the operator decides on their number.
const UNCHARGED_BYTES: usize = 64 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoRoom {
    /// The limit of a server.
    OfServer,
    /// The limit of all servers together.
    OfAll,
}

/// A budget for lists.
pub(crate) trait ListAccount: Send + Sync {
    fn budget(&self) -> &Arc<Budget>;

    /// Evicts lists of resting servers to free at least `bytes`, as far as possible.
    fn make_room(&self, bytes: usize);
}

/// The memory of a server's lists while they are read.
pub(crate) struct ListHold {
    accounts: Vec<Arc<dyn ListAccount>>,
    holds: Vec<Hold>,
    bytes: usize,
    free: usize,
    most: usize,
}

/// The charge of lists, held for as long as they are referenced.
#[derive(Clone, Default)]
pub struct ListMemory(Vec<Arc<ListHold>>);

impl ListHold {
    /// Creates the charge for a server of the operator.
    pub(crate) fn of_operator(budget: &Arc<Budget>) -> Self {
        let holds = vec![Hold::none(Arc::clone(budget))];
        Self { accounts: Vec::new(), holds, bytes: 0, free: UNCHARGED_BYTES, most: usize::MAX }
    }

    /// Creates the charge for a server with the limit `most`, which counts in all of the accounts.
    pub(crate) fn in_accounts(accounts: Vec<Arc<dyn ListAccount>>, most: usize) -> Self {
        let holds: Vec<_> =
            accounts.iter().map(|account| Hold::none(Arc::clone(account.budget()))).collect();
        Self { accounts, holds, bytes: 0, free: 0, most }
    }

    /// Removes the uncharged part: these lists exist once per client, and the number of clients is
    /// unbounded.
    pub(crate) fn count_all(self) -> Self {
        Self { free: 0, ..self }
    }

    /// Charges more bytes.
    ///
    /// # Errors
    /// [`NoRoom`]: the bytes were not charged.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), NoRoom> {
        let total = self.bytes.saturating_add(bytes);
        if total > self.most {
            return Err(NoRoom::OfServer);
        }
        let counted = total.saturating_sub(self.free);
        for (at, hold) in self.holds.iter_mut().enumerate() {
            let more = counted.saturating_sub(hold.bytes());
            if hold.grow(more).is_ok() {
                continue;
            }
            let Some(account) = self.accounts.get(at) else { return Err(NoRoom::OfAll) };
            account.make_room(more);
            hold.grow(more).map_err(|_| NoRoom::OfAll)?;
        }
        self.bytes = total;
        Ok(())
    }

    pub(crate) fn most(&self) -> String {
        format!("{} MiB", self.most >> 20)
    }

    pub(crate) fn finish(self) -> ListMemory {
        ListMemory(vec![Arc::new(self)])
    }
}

impl ListMemory {
    /// Adds the charge of other lists, which share items with these.
    pub(crate) fn add(&mut self, other: &Self) {
        self.0.extend(other.0.iter().cloned());
    }
}

lockgate_text::debug_fields!(ListMemory);

#[cfg(test)]
mod tests;
