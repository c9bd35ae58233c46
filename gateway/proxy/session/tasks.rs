//! The tasks that a session's client follows (2025-11-25), for its list of them and for their news.

use lockgate_upstream::ServerId;

use super::Session;

/// Tasks of one session; the oldest go.
const MAX_TASKS: usize = 256;

/// A task that a client follows.
#[derive(Clone, Debug)]
pub(crate) struct SessionTask {
    /// The id that the client knows.
    pub(crate) token: String,
    server: ServerId,
    /// The server's own id.
    pub(crate) own: String,
    news: TaskNews,
}

/// What is being done about the news of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TaskNews {
    None,
    /// It is being read.
    Reading,
    /// There is more since then.
    More,
}

impl SessionTask {
    pub(crate) fn new(token: String, server: ServerId, own: &str) -> Self {
        Self { token, server, own: own.to_owned(), news: TaskNews::None }
    }
}

impl Session {
    /// The client has a task by this id.
    pub(crate) fn remember_task(&self, task: SessionTask) {
        self.state(|state| {
            if state.tasks.len() >= MAX_TASKS {
                state.tasks.pop_front();
            }
            state.tasks.push_back(task);
        });
    }

    pub(crate) fn tasks(&self) -> Vec<String> {
        self.state(|state| {
            let mut tokens = Vec::with_capacity(state.tasks.len());
            for task in &state.tasks {
                tokens.push(task.token.clone());
            }
            tokens
        })
    }

    /// The server does not have it any more.
    pub(crate) fn forget_task(&self, token: &str) {
        self.state(|state| state.tasks.retain(|known| known.token != token));
    }

    /// A server has news of a task. Gives the id that the client knows, if it follows the task and
    /// nobody reads it just now.
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

    /// The task has been read. Whether there is more.
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
