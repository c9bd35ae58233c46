//! The SDK's handler: forwards each MCP method to the module of its topic, pages the lists and sets
//! their caching hints.

use std::{borrow::Cow, sync::Arc};

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CacheScope, CallToolRequestParams, CallToolResponse, CancelTaskParams,
        CompleteRequestParams, CompleteResult, GetPromptRequestParams, GetPromptResponse,
        GetSkillRequestParams, GetSkillResult, GetTaskParams, GetTaskResult, Implementation,
        ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListSkillsResult,
        ListToolsResult, PaginatedRequestParams, Prompt, ProtocolVersion,
        ReadResourceDirectoryRequestParams, ReadResourceRequestParams, ReadResourceResponse,
        ReadResourceResult, ServerCapabilities, ServerConfig, SetLevelRequestParams,
        SubscribeRequestParams, SubscriptionFilter, Tool, UnsubscribeRequestParams,
        UpdateTaskParams,
    },
    service::{NotificationContext, Peer, RequestContext, SubscriptionContext},
};
use tokio::sync::broadcast::{Receiver, error::RecvError};

use crate::{
    call::{self, Call},
    completion,
    era::Era,
    prompts, resources,
    shared::{Change, Session, Shared},
    skills, tools,
};

const LIST_TTL_MS: u64 = 60_000;
const READ_TTL_MS: u64 = 1_000;

/// A session of the fixture. All sessions of a process share its lists and tasks.
#[derive(Clone)]
pub struct Fixture {
    shared: Arc<Shared>,
    session: Arc<Session>,
    shy: bool,
    like_examples: bool,
    stateful: bool,
    skills: bool,
    only: Option<ProtocolVersion>,
}

impl Fixture {
    /// Creates a fixture for one process; a `page_size` of 0 disables paging.
    ///
    /// # Errors
    /// When the system's random source fails.
    pub fn new(era: Era, page_size: usize) -> anyhow::Result<Self> {
        Ok(Self {
            shared: Arc::new(Shared::new(era, page_size)?),
            session: Arc::default(),
            shy: false,
            like_examples: false,
            stateful: false,
            skills: false,
            only: None,
        })
    }

    pub(crate) fn new_session(&self) -> Self {
        Self { session: Arc::default(), ..self.clone() }
    }

    /// Restricts the fixture to one revision of its era.
    #[must_use]
    pub fn only(self, revision: Option<ProtocolVersion>) -> Self {
        Self { only: revision, ..self }
    }

    /// Sets whether tools that ask the client are hidden from clients without the capability.
    #[must_use]
    pub fn shy(self, shy: bool) -> Self {
        Self { shy, ..self }
    }

    /// Sets whether to behave like the SDK's examples: older tools send requests and newer tools
    /// use `input_required` in both eras; completions are not advertised and some resources are not
    /// listed; change notifications announce unchanged lists, in a legacy session only to that
    /// session.
    #[must_use]
    pub fn like_examples(self, like_examples: bool) -> Self {
        Self { like_examples, ..self }
    }

    /// Sets whether to offer tools that change the lists of one session.
    #[must_use]
    pub fn stateful(self, stateful: bool) -> Self {
        Self { stateful, ..self }
    }

    /// Sets whether to serve skills.
    #[must_use]
    pub fn skills(self, skills: bool) -> Self {
        Self { skills, ..self }
    }

    pub(crate) fn era(&self) -> Era {
        self.shared.era
    }

    fn call(
        &self,
        context: RequestContext<RoleServer>,
        responses: Option<rmcp::model::InputResponses>,
        state: Option<String>,
    ) -> Call {
        Call::new(context, Arc::clone(&self.shared), Arc::clone(&self.session), responses, state)
            .like_examples(self.like_examples)
            .stateful(self.stateful)
    }

    /// Returns a page of a list. A cursor is the offset of the page's first entry.
    fn page<T>(
        &self,
        entries: Vec<T>,
        request: Option<PaginatedRequestParams>,
    ) -> Result<(Vec<T>, Option<String>), ErrorData> {
        let cursor = request.and_then(|request| request.cursor);
        let total = entries.len();
        let start = match cursor.as_deref().map(str::parse::<usize>) {
            None => 0,
            Some(Ok(start)) if start < total && self.shared.page_size > 0 => start,
            Some(_) => return Err(ErrorData::invalid_params("unknown cursor", None)),
        };
        let size = if self.shared.page_size == 0 { total } else { self.shared.page_size };
        let end = start.saturating_add(size).min(total);
        let page = entries.into_iter().skip(start).take(size).collect();
        Ok((page, (end < total).then(|| end.to_string())))
    }
}

macro_rules! listed {
    ($fixture:ident, $result:ident, $field:ident, $entries:expr, $request:expr, $context:expr) => {{
        let ($field, next_cursor) = $fixture.page($entries, $request)?;
        let mut result = $result::with_all_items($field);
        result.next_cursor = next_cursor;
        if $fixture.call($context, None, None).is_modern() {
            result.ttl_ms = Some(LIST_TTL_MS);
            result.cache_scope = Some(CacheScope::Public);
        }
        Ok(result)
    }};
}

impl ServerHandler for Fixture {
    fn get_info(&self) -> ServerConfig {
        let mut capabilities = ServerCapabilities::builder()
            .enable_completions()
            .enable_logging()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_resources()
            .enable_resources_list_changed()
            .enable_resources_subscribe()
            .enable_tools()
            .enable_tool_list_changed()
            .build();
        if self.like_examples {
            capabilities.completions = None;
        }
        if self.shared.era != Era::Legacy {
            let tasks = ServerCapabilities::builder().enable_tasks().build();
            capabilities.extensions = tasks.extensions;
        }
        if self.skills {
            let skills = ServerCapabilities::builder().enable_skills_with_directory_read().build();
            let extensions = capabilities.extensions.get_or_insert_default();
            extensions.extend(skills.extensions.unwrap_or_default());
        }
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("fixture-server", env!("CARGO_PKG_VERSION")))
            .with_instructions("Every tool here exists to be tested.")
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        match &self.only {
            Some(only) => Cow::Owned(vec![only.clone()]),
            None => self.shared.era.revisions(),
        }
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let mut tools = tools::list(&self.shared);
        if self.stateful {
            tools.extend(tools::session::list(self.session.is_signed_in()));
        }
        if self.shy {
            let declared = context.client_capabilities().unwrap_or_default();
            tools.retain(|tool| tools::can_be_offered(&tool.name, &declared));
        }
        listed!(self, ListToolsResult, tools, tools, request, context)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        tools::list(&self.shared).into_iter().find(|tool| tool.name == name)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let call = self.call(context, request.input_responses, request.request_state);
        tools::call(&call, &request.name, &request.arguments.unwrap_or_default()).await
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let mut all = prompts::list(&self.shared);
        if self.stateful && self.session.is_signed_in() {
            all.push(Prompt::new("test_secret_prompt", Some("Of one session"), None));
        }
        listed!(self, ListPromptsResult, prompts, all, request, context)
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let call = self.call(context, request.input_responses, request.request_state);
        prompts::get(&call, &request.name, &request.arguments.unwrap_or_default()).await
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let mut entries = resources::list(&self.shared);
        if self.like_examples {
            entries.retain(|resource| resource.uri.starts_with("test://static-"));
        }
        if self.skills {
            entries.extend(skills::resources());
        }
        listed!(self, ListResourcesResult, resources, entries, request, context)
    }

    async fn list_skills(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListSkillsResult, ErrorData> {
        listed!(self, ListSkillsResult, skills, skills::list(), request, context)
    }

    async fn get_skill(
        &self,
        request: GetSkillRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetSkillResult, ErrorData> {
        let mut result = GetSkillResult::new(skills::get(&request.uri)?);
        if self.call(context, None, None).is_modern() {
            result = result.with_ttl_ms(READ_TTL_MS).with_cache_scope(CacheScope::Public);
        }
        Ok(result)
    }

    async fn read_resource_directory(
        &self,
        request: ReadResourceDirectoryRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let children = skills::children(&request.uri)?;
        let page = PaginatedRequestParams::default().with_cursor(request.cursor);
        listed!(self, ListResourcesResult, resources, children, Some(page), context)
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let entries = resources::templates();
        listed!(self, ListResourceTemplatesResult, templates, entries, request, context)
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let contents = match skills::read(&request.uri).filter(|_| self.skills) {
            Some(contents) => contents,
            None => resources::read(&self.shared, &request.uri)?,
        };
        let mut result = ReadResourceResult::new(vec![contents]);
        if self.call(context, None, None).is_modern() {
            result.ttl_ms = Some(READ_TTL_MS);
            result.cache_scope = Some(CacheScope::Private);
        }
        Ok(result.into())
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if self.session.subscribe(request.uri) {
            Ok(())
        } else {
            Err(ErrorData::invalid_params("too many subscriptions", None))
        }
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.session.unsubscribe(&request.uri);
        Ok(())
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        self.shared.open(requested);
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut changes = self.shared.opened(context.requested());
        let sink = context.sink();
        loop {
            let change = tokio::select! {
                () = context.cancelled() => return Ok(()),
                change = changes.recv() => change,
            };
            // The sink drops notifications that the client did not request.
            let _ = match change {
                Ok(Change::Tools) => sink.notify_tool_list_changed().await,
                Ok(Change::Prompts) => sink.notify_prompt_list_changed().await,
                Ok(Change::Resources) => sink.notify_resource_list_changed().await,
                Ok(Change::Resource(uri)) => sink.notify_resource_updated(uri).await,
                Err(RecvError::Lagged(_)) => Ok(()),
                Err(RecvError::Closed) => return Ok(()),
            };
        }
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        let (shared, session) = (Arc::clone(&self.shared), Arc::clone(&self.session));
        // Subscribes before the client's next request.
        let changes = shared.changes();
        tokio::spawn(tell(context.peer, changes, session));
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if self.call(context, None, None).is_modern() {
            return Err(ErrorData::method_not_found::<rmcp::model::SetLevelRequestMethod>());
        }
        self.session.set_level(request.level);
        Ok(())
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        completion::complete(&request)
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        self.shared.tasks.get_task(&request.task_id).map(GetTaskResult::new)
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.shared.tasks.update_task(&request.task_id, request.input_responses)
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.shared.tasks.cancel_task(&request.task_id)
    }
}

/// Forwards changes to a legacy session until it ends.
async fn tell(peer: Peer<RoleServer>, mut changes: Receiver<Change>, session: Arc<Session>) {
    // The end of a session is detected at the next change, when the peer returns an error.
    loop {
        let told = match changes.recv().await {
            Ok(change) => call::tell(&peer, &session, change).await,
            Err(RecvError::Lagged(_)) => Ok(()),
            Err(RecvError::Closed) => return,
        };
        if told.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests;
