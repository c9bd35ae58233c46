//! The tasks that a session's client follows (2025-11-25), for task lists and status notifications.

use lockgate_upstream::ServerId;

use super::Session;

/// Tasks of a session; the oldest are dropped.
const MAX_TASKS: usize = 256;

#[derive(Clone, Debug)]
pub(crate) struct SessionTask {
    /// The id that the client received.
    pub(crate) token: String,
    server: ServerId,
    /// The server's own id.
    pub(crate) own: String,
    news: TaskNews,
}

/// The state of reading a changed task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TaskNews {
    None,
    /// A read is in progress.
    Reading,
    /// The task changed again during the read.
    More,
}

impl SessionTask {
    pub(crate) fn new(token: String, server: ServerId, own: &str) -> Self {
        Self { token, server, own: own.to_owned(), news: TaskNews::None }
    }
}

impl Session {
    pub(crate) fn remember_task(&self, task: SessionTask) {
        self.state(|state| {
            if state.tasks.len() >= MAX_TASKS {
                state.tasks.pop_front();
            }
            state.tasks.push_back(task);
        });
    }

    pub(crate) fn tasks(&self) -> Vec<String> {
        self.state(|state| state.tasks.iter().map(|task| task.token.clone()).collect())
    }

    pub(crate) fn forget_task(&self, token: &str) {
        self.state(|state| state.tasks.retain(|known| known.token != token));
    }

    /// Records a change of a task. Returns the client's id if the client follows the task and no
    /// read is in progress.
    pub(crate) fn begin_task_read(&self, server: &ServerId, own: &str) -> Option<String> {
        let mut state = self.state.lock();
        let tasks = &mut state.as_mut()?.tasks;
        let task = tasks.iter_mut().find(|task| task.server == *server && task.own == own)?;
        if task.news != TaskNews::None {
            task.news = TaskNews::More;
            return None;
        }
        task.news = TaskNews::Reading;
        Some(task.token.clone())
    }

    /// Ends a read. Returns whether the task changed again.
    pub(crate) fn end_task_read(&self, token: &str) -> bool {
        let mut state = self.state.lock();
        let Some(state) = state.as_mut() else { return false };
        let Some(task) = state.tasks.iter_mut().find(|task| task.token == token) else {
            return false;
        };
        let has_more = task.news == TaskNews::More;
        task.news = if has_more { TaskNews::Reading } else { TaskNews::None };
        has_more
    }
}
