//! The memory of lists: what they take while they are read and for as long as anybody has them. The
//! lists of the operator's servers count among the bytes of messages; those of organisations have
//! accounts of their own, where lists at rest make room for others.

use std::sync::Arc;

use lockgate_admission::budget::{Budget, Hold};

/// Bytes of a server's lists that count nowhere: the operator decides how many servers there are.
const FREE: usize = 64 << 10;

/// Why there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoRoom {
    /// One server may not have more.
    OfServer,
    /// All have too much together.
    OfAll,
}

/// An account of lists.
pub(crate) trait ListAccount: Send + Sync {
    fn budget(&self) -> &Arc<Budget>;

    /// Has lists forgotten that nobody uses, as far as that helps.
    fn make_room(&self, bytes: usize);
}

/// The memory of the lists of one server while they are read.
pub(crate) struct ListHold {
    accounts: Vec<Arc<dyn ListAccount>>,
    holds: Vec<Hold>,
    bytes: usize,
    free: usize,
    most: usize,
}

/// Held by lists for as long as anybody has them.
#[derive(Clone, Default)]
pub struct ListMemory(Vec<Arc<ListHold>>);

impl ListHold {
    /// Of one of the operator's servers.
    pub(crate) fn of_operator(budget: &Arc<Budget>) -> Self {
        let holds = vec![Hold::none(Arc::clone(budget))];
        Self { accounts: Vec::new(), holds, bytes: 0, free: FREE, most: usize::MAX }
    }

    /// Of a server that may have so much, and counts in all of these.
    pub(crate) fn in_accounts(accounts: Vec<Arc<dyn ListAccount>>, most: usize) -> Self {
        let mut holds = Vec::with_capacity(accounts.len());
        for account in &accounts {
            holds.push(Hold::none(Arc::clone(account.budget())));
        }
        Self { accounts, holds, bytes: 0, free: 0, most }
    }

    /// Counts all of it: there is one for each client, as many as clients want.
    pub(crate) fn count_all(self) -> Self {
        Self { free: 0, ..self }
    }

    /// Takes more.
    ///
    /// # Errors
    /// [`NoRoom`]: this is left out.
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

    /// As much as a server may have, in words.
    pub(crate) fn most(&self) -> String {
        format!("{} MiB", self.most >> 20)
    }

    pub(crate) fn finish(self) -> ListMemory {
        ListMemory(vec![Arc::new(self)])
    }
}

impl ListMemory {
    /// These lists have items of the other ones, too.
    pub(crate) fn add(&mut self, other: &Self) {
        self.0.extend(other.0.iter().cloned());
    }
}

impl std::fmt::Debug for ListMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ListMemory")
    }
}

#[cfg(test)]
mod tests;
