//! Obtains the approval that a policy requires before a call reaches its server: from the caller,
//! from other approvers, or both. The approved call is executed unchanged and once. Calls that need
//! no approval do not pass through here.

pub(crate) mod call;

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use lockgate_authn::Principal;
use lockgate_policy::ApprovalRule;
use lockgate_protocol::key::Key;
use lockgate_protocol::method::Method;
use lockgate_protocol::sealed::Purpose;
use lockgate_protocol::{meta, question, write};
use lockgate_telemetry::Notification;
use lockgate_telemetry::audit::RecordError;
use lockgate_text::{hex, json};
use lockgate_upstream::QuestionError;
use scopeguard::{ScopeGuard, guard};
use serde_json::{Value, json};
use tokio::sync::mpsc::error::TrySendError;
use tokio_util::sync::CancellationToken;

use crate::approvals::waiting::{Ending, WaitingCall, join_names, name_of};
use crate::approvals::{Announcement, AskedCall, CallerAnswer, Nonce, WaitingApproval};
use crate::approve::call::{KEY, is_approval, seal_question, show_text};
use crate::approvers::{join_people, record_approval};
use crate::authorize::Permitted;
use crate::client_channel::CallChannel;
use crate::context::RequestContext;
use crate::gateway::Gateway;
use crate::peers::{Waiting, add_holder};
use crate::rescue::{ApprovalError, RequestError};
use crate::rights::name_principal;
use crate::transport::Text;
use call::ApprovedCall;

/// The outcome of the approval step.
pub(crate) enum Step {
    Go(Permitted),
    /// The caller is asked with this response.
    Ask(Text),
}

struct Asking<'a> {
    gateway: &'a Gateway,
    context: &'a RequestContext,
    permitted: Permitted,
    call: ApprovedCall,
}

/// Obtains the approval of a call, or returns the response that asks its caller for it.
///
/// # Errors
/// The call is not approved.
pub(crate) async fn obtain_approval(
    gateway: &Gateway,
    context: &RequestContext,
    permitted: Permitted,
    channel: Option<&CallChannel>,
) -> Result<Step, RequestError> {
    let first = permitted.approvals().first().map(|rule| Arc::clone(&rule.rule));
    let server = permitted.server().qualified_name().into_owned();
    let step = match ApprovedCall::new(context, &permitted) {
        Ok(call) => Asking { gateway, context, permitted, call }.run(channel).await,
        Err(refusal) => Err(ApprovalError::Unshowable(refusal.0)),
    };
    step.map_err(|error| match error {
        ApprovalError::Unrecorded(error) => error.into(),
        error => RequestError::unapproved(&error, first.as_ref()).of_server(&server),
    })
}

/// Refuses a built-in tool's nested call if it needs approval, because its caller cannot be asked.
pub(crate) fn refuse_nested(permitted: Permitted) -> Result<Permitted, RequestError> {
    match permitted.approvals().first() {
        None => Ok(permitted),
        Some(rule) => {
            let error = ApprovalError::Nested;
            let problem = RequestError::unapproved(&error, Some(&rule.rule));
            Err(problem.of_server(&permitted.server().qualified_name()))
        }
    }
}

impl Asking<'_> {
    async fn run(self, channel: Option<&CallChannel>) -> Result<Step, ApprovalError> {
        let answer = self.permitted.answer().copied();
        if answer.is_none() && self.context.request.param(Key::RequestState).is_some() {
            // The next round of an approved call, paused by its server's questions.
            return if self.gateway.approvals.asked.take_round(&self.call.digest) {
                Ok(self.go())
            } else {
                Err(ApprovalError::Unknown)
            };
        }
        let mut approvers = Vec::new();
        let rules = self.permitted.approvals();
        let own = rules.iter().any(|rule| rule.is_for_caller());
        let others = rules.iter().any(|rule| !rule.is_for_caller());
        if others && !self.has_approvers() {
            return Err(ApprovalError::NobodyToAsk);
        }
        match (answer, own) {
            (Some(answer), _) => {
                self.take_question(&answer)?;
                match answer.approves {
                    Some(true) => {}
                    Some(false) => self.deny(&self.context.rights.principal)?,
                    None => return self.ask_by_result(),
                }
            }
            (None, true) if self.context.protocol().asks_by_result => {
                return self.ask_by_result();
            }
            (None, true) => self.ask_in_session(channel).await?,
            (None, false) => {}
        }
        if own {
            approvers.push(self.context.rights.principal.clone());
        }
        if others {
            approvers.extend(self.wait_for_others(channel).await?);
        }
        self.check_unchanged()?;
        self.check_approvers(&approvers)?;
        self.record("approved", &approvers)?;
        Ok(self.go())
    }

    fn go(self) -> Step {
        let digest = self.call.digest;
        Step::Go(self.permitted.with_approval(digest))
    }

    /// Returns whether anyone but the caller could approve: approvers use HTTP and their own
    /// credential.
    fn has_approvers(&self) -> bool {
        let authenticator = &self.context.snapshot.authenticator;
        self.gateway.approvals.are_open() && authenticator.has_credentials()
    }

    /// Returns the rules that require the caller's approval, or those that require others'.
    fn rules(&self, for_caller: bool) -> Vec<Arc<ApprovalRule>> {
        let mut rules = self.permitted.approvals().to_vec();
        rules.retain(|rule| rule.is_for_caller() == for_caller);
        rules
    }

    /// Returns the time to answer: the shortest of the rules' limits and `approval_timeout`.
    fn life(&self, for_caller: bool) -> Duration {
        let mut life = self.context.snapshot.config.limits.approval_timeout;
        for rule in self.permitted.approvals() {
            if let Some(expires) = rule.expires
                && rule.is_for_caller() == for_caller
            {
                life = life.min(expires);
            }
        }
        life
    }

    fn question(&self) -> Value {
        self.call.question(self.context, &self.permitted, &self.rules(true))
    }

    /// Asks a caller that answers with its next request.
    fn ask_by_result(&self) -> Result<Step, ApprovalError> {
        let Self { context, permitted, call, .. } = self;
        let params = self.question();
        let text = params.to_string();
        let declared = &context.caller.capabilities;
        if !question::may_ask(declared, Method::Elicit, text.as_bytes(), context.revision) {
            return Err(ApprovalError::CannotAsk);
        }
        let life = self.life(true);
        let nonce: Nonce = hex::random_bytes().ok_or(ApprovalError::Unknown)?;
        let server = &**permitted.server();
        let state = seal_question(context, server, permitted.target(), &nonce, life);
        let mut state = state.ok_or(ApprovalError::Unknown)?;
        if let Some(address) = self.gateway.own_address() {
            let sealer = &context.snapshot.sealer;
            state = add_holder(sealer, context.bind(), state, Waiting::Approval, address);
        }
        let asked = AskedCall {
            owner: context.rights.principal.clone(),
            digest: call.digest,
            policies: context.snapshot.policy.fingerprint(),
            expires: Instant::now() + life,
        };
        let kept = self.gateway.approvals.asked.ask(nonce, asked, &context.snapshot.config.limits);
        kept.map_err(ApprovalError::NoRoom)?;
        self.record("asked", &[])?;
        let requests = json!({KEY: {"method": Method::Elicit.as_str(), "params": params}});
        let info: Value = json::from_slice(&context.snapshot.info).unwrap_or_default();
        let result = json!({
            "resultType": "input_required",
            "inputRequests": requests,
            "requestState": state,
            "_meta": {meta::SERVER_INFO: info},
        });
        let result = write::result(context.request.id(), result.to_string().as_bytes());
        Ok(Step::Ask(result.into()))
    }

    /// Takes the question of a modern caller's request, answered or not, and checks that it is
    /// about this call.
    fn take_question(&self, answer: &CallerAnswer) -> Result<(), ApprovalError> {
        let asked = self.gateway.approvals.asked.take(&answer.nonce);
        let asked = asked.ok_or(ApprovalError::Unknown)?;
        if asked.expires <= Instant::now() {
            return Err(ApprovalError::StateExpired);
        }
        if asked.policies != self.context.snapshot.policy.fingerprint() {
            return Err(ApprovalError::Changed("the policies"));
        }
        if asked.digest != self.call.digest || asked.owner != self.context.rights.principal {
            return Err(ApprovalError::Other);
        }
        Ok(())
    }

    async fn ask_in_session(&self, channel: Option<&CallChannel>) -> Result<(), ApprovalError> {
        let channel = channel.ok_or(ApprovalError::CannotAsk)?;
        let params = self.question().to_string();
        self.record("asked", &[])?;
        let gone = self.watch_departure();
        let answer = tokio::select! {
            answer = channel.ask_own(params.as_bytes(), self.life(true)) => answer,
            () = self.gateway.stopping.cancelled() => return Err(ApprovalError::Stopping),
            () = channel.client_left() => return Err(ApprovalError::Left),
        };
        ScopeGuard::into_inner(gone);
        match answer {
            Ok(result) => {
                if is_approval(&json::from_slice(&result).unwrap_or(Value::Null)) {
                    Ok(())
                } else {
                    self.deny(&self.context.rights.principal)
                }
            }
            Err(QuestionError::Undeclared) => Err(ApprovalError::CannotAsk),
            Err(QuestionError::Refused { .. } | QuestionError::Unusable(_)) => {
                self.deny(&self.context.rights.principal)
            }
            Err(_) => self.expire(),
        }
    }

    async fn wait_for_others(
        &self,
        channel: Option<&CallChannel>,
    ) -> Result<Vec<Principal>, ApprovalError> {
        let life = self.life(false);
        let id = hex::random::<8>().ok_or(ApprovalError::Unknown)?;
        let rules = self.rules(false);
        let shown = self.call.show(self.context, &self.permitted);
        let requester = self.context.rights.principal.clone();
        let expires = SystemTime::now() + life;
        let (call, mut receiver) = WaitingCall::new(id.clone(), requester, shown, rules, expires);
        let held = self.gateway.approvals.waiting.hold(call, &self.context.snapshot.config.limits);
        let _permit = held.map_err(ApprovalError::NoRoom)?;
        self.record("asked", &[])?;
        let over = CancellationToken::new();
        let _over = over.clone().drop_guard();
        self.announce(&id, expires, &over);
        let gone = self.watch_departure();
        let client_left = async {
            match channel {
                Some(channel) => channel.client_left().await,
                // A modern call is dropped when its client disconnects.
                None => std::future::pending().await,
            }
        };
        let ending = tokio::select! {
            biased;
            ending = &mut receiver => ending.ok(),
            () = client_left => return Err(ApprovalError::Left),
            () = tokio::time::sleep(life) => {
                // A vote that was confirmed in the meantime has to count.
                receiver.close();
                receiver.try_recv().ok()
            }
            () = self.gateway.stopping.cancelled() => return Err(ApprovalError::Stopping),
        };
        ScopeGuard::into_inner(gone);
        match ending {
            Some(Ending::Approved(by)) => Ok(by),
            Some(Ending::Denied(by)) => self.deny(&by),
            None => self.expire(),
        }
    }
}

// Announces to the configured webhook that a call waits for approvers. Sending never blocks: a
// message that finds the queue full is dropped and counted.

impl Asking<'_> {
    /// Queues the announcement of a call, valid until `over`. A caller's share of the queue is
    /// limited to the number of its calls that may wait at once.
    fn announce(&self, id: &str, expires: SystemTime, over: &CancellationToken) {
        let approvals = &self.gateway.approvals;
        let Some(sender) = approvals.announcements() else { return };
        let most = self.context.snapshot.config.limits.approvals_per_principal;
        let share = approvals.announced.take(&self.context.rights.principal, most);
        let Some(_share) = share else { return self.drop_announcement(id) };
        let until = expires.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs() + 1;
        let sealer = &self.context.snapshot.sealer;
        let Ok(token) = sealer.seal(Purpose::ApprovalLink, &[id.as_bytes()], until, b"") else {
            return;
        };
        let principal = &self.context.rights.principal;
        let needs = self.rules(false).iter().map(|rule| rule.needs()).collect();
        let organisation = principal.named_organisation();
        let tool = self.permitted.listed.as_deref().unwrap_or("");
        let approval = WaitingApproval {
            id: id.to_owned(),
            caller: name_principal(principal),
            organisation: organisation.map(str::to_owned),
            tool: show_text(tool),
            server: self.permitted.server().slug().to_owned(),
            needs,
            asked: SystemTime::now(),
            expires,
            token,
        };
        let announcement = Announcement { approval, over: over.clone(), _share };
        if let Err(TrySendError::Full(_)) = sender.try_send(announcement) {
            self.drop_announcement(id);
        }
    }

    fn drop_announcement(&self, id: &str) {
        self.gateway.metrics.notified(Notification::Dropped);
        tracing::warn!(id, "message dropped: the webhook's queue is full");
    }
}

// The end of an approval: its log and audit records, and checks that the policies, the caller, the
// tool and the approvers have not changed in the meantime.

impl Asking<'_> {
    /// Returns a guard that records the approval as abandoned: the client has disconnected, or the
    /// gateway stops. It is defused once the approval was decided or has expired.
    fn watch_departure<'a>(&'a self) -> ScopeGuard<&'a Self, impl FnOnce(&'a Self)> {
        guard(self, |asking: &'a Self| {
            let _ = asking.record("gone", &[]);
        })
    }

    fn deny<T>(&self, by: &Principal) -> Result<T, ApprovalError> {
        self.record("denied", std::slice::from_ref(by))?;
        let is_caller = *by == self.context.rights.principal;
        let who = if is_caller { "its caller".to_owned() } else { name_of(by) };
        Err(ApprovalError::Denied(who))
    }

    fn expire<T>(&self) -> Result<T, ApprovalError> {
        self.record("expired", &[])?;
        Err(ApprovalError::Expired)
    }

    /// Records a state in the log and the audit trail. If the operator requires audit records, a
    /// failed record stops the call.
    fn record(&self, state: &'static str, by: &[Principal]) -> Result<(), RecordError> {
        let Self { gateway, context, permitted, call } = self;
        let rule = join_names(permitted.approvals());
        let people = join_people(by, name_principal);
        let who = name_principal(&context.rights.principal);
        let tool = permitted.listed.as_deref().unwrap_or("");
        tracing::info!(target: "audit", approval = state, who, tool, rule, by = people, "approval");
        let server = permitted.server().qualified_name();
        let about = [&server, tool, &call.digest_text()];
        record_approval(gateway, (state, &rule), &context.rights.principal, by, about)
    }

    /// Checks that the approvers' credentials are still valid, with the same roles.
    fn check_approvers(&self, approvers: &[Principal]) -> Result<(), ApprovalError> {
        let now = self.gateway.snapshot();
        for approver in approvers {
            let current = now.authenticator.current(approver);
            if current.is_none_or(|current| current.roles != approver.roles) {
                return Err(ApprovalError::Changed("the credential of an approver"));
            }
        }
        Ok(())
    }

    /// Checks that the policies, the caller's rights and the tool are those of the question.
    fn check_unchanged(&self) -> Result<(), ApprovalError> {
        let was = self.context;
        let now = self.gateway.snapshot();
        if now.policy.fingerprint() != was.snapshot.policy.fingerprint() {
            return Err(ApprovalError::Changed("the policies"));
        }
        let Some(principal) = now.authenticator.current(&was.rights.principal) else {
            return Err(ApprovalError::Changed("the caller's credential is no longer valid"));
        };
        let before = &was.rights.principal;
        let same = principal.roles == before.roles
            && principal.scopes == before.scopes
            && principal.named_organisation() == before.named_organisation()
            && principal.agent == before.agent;
        if !same {
            return Err(ApprovalError::Changed("the rights of the caller's credential"));
        }
        let rights = now.rights_of(principal, &was.rights.endpoint);
        let view = self.gateway.view(&self.gateway.own_clients_of(was), &now, &rights);
        let name = was.request.param_str(Key::Name);
        let name = name.as_deref().unwrap_or("");
        if let Some(view) = view
            && let Some(seen) = view.tool(name)
            && let Some(before) = was.view.tool(name)
            && seen.entry.item.text == before.entry.item.text
            && Arc::ptr_eq(&seen.entry.server, self.permitted.server())
        {
            return Ok(());
        }
        Err(ApprovalError::Changed("the tool"))
    }
}
