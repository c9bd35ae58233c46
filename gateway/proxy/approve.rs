//! The step between a call that policies allow and its server where one of them asks: the caller
//! approves it, or others do, or it is not made. What was approved is what runs, once. Calls that
//! no policy asks about do not come here.

pub(crate) mod answer;
pub(crate) mod call;

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use lockgate_authn::Principal;
use lockgate_policy::ApprovalRule;
use lockgate_protocol::meta;
use lockgate_protocol::method::Method;
use lockgate_protocol::question;
use lockgate_protocol::revision::Era;
use lockgate_protocol::write::{self, Object};
use lockgate_telemetry::audit;
use lockgate_upstream::QuestionError;
use serde_json::{Value, json};

use crate::approvals::asked::{AskedCall, Nonce};
use crate::approvals::bounds::Bounds;
use crate::approvals::waiting::{Ending, WaitingCall};
use crate::authorize::Permitted;
use crate::client_channel::CallChannel;
use crate::context::RequestContext;
use crate::gateway::Gateway;
use crate::rescue::{ApprovalError, RequestError};
use crate::rights::CallerRights;
use crate::transport::Text;
use answer::{CallerAnswer, KEY, is_approval};
use call::ApprovedCall;

/// What comes of a call that has to be approved.
pub(crate) enum Step {
    /// It was approved.
    Go(Permitted),
    /// Its caller is asked, by this answer.
    Ask(Text),
}

/// One call on its way to an approval.
struct Asking<'a> {
    gateway: &'a Gateway,
    context: &'a RequestContext,
    permitted: Permitted,
    call: ApprovedCall,
    bounds: Bounds,
}

/// Has a call approved.
///
/// # Errors
/// It is not, in words for its caller.
pub(crate) async fn obtain_approval(
    gateway: &Gateway,
    context: &RequestContext,
    permitted: Permitted,
    channel: Option<&CallChannel>,
) -> Result<Step, RequestError> {
    let first = permitted.approvals().first().map(|rule| Arc::clone(&rule.rule));
    let step = match ApprovedCall::new(context, &permitted) {
        Ok(call) => {
            let bounds = bounds(context);
            Asking { gateway, context, permitted, call, bounds }.run(channel).await
        }
        Err(refusal) => Err(ApprovalError::Unshowable(refusal.0).into()),
    };
    step.map_err(|stop| match stop {
        Stop::Approval(error) => RequestError::unapproved(&error, first.as_ref(), context.era()),
        Stop::Request(problem) => problem,
    })
}

/// The server of an approved call has paused it with questions to a modern client, whose next
/// request goes on with it.
pub(crate) fn open_round(gateway: &Gateway, context: &RequestContext, permitted: &Permitted) {
    if let Some(digest) = permitted.approved() {
        gateway.approvals.asked.open_round(*digest, bounds(context));
    }
}

/// A call that a built-in tool makes for its caller: nobody can be asked about it.
pub(crate) fn refuse_nested(
    context: &RequestContext,
    permitted: &Permitted,
) -> Result<(), RequestError> {
    match permitted.approvals().first() {
        None => Ok(()),
        Some(rule) => {
            let error = ApprovalError::Nested;
            Err(RequestError::unapproved(&error, Some(&rule.rule), context.era()))
        }
    }
}

fn bounds(context: &RequestContext) -> Bounds {
    let limits = &context.snapshot.config.limits;
    Bounds { all: limits.approvals, of_principal: limits.approvals_per_principal }
}

/// Why a call is not made.
enum Stop {
    Approval(ApprovalError),
    Request(RequestError),
}

impl From<ApprovalError> for Stop {
    fn from(error: ApprovalError) -> Self {
        Self::Approval(error)
    }
}

impl From<RequestError> for Stop {
    fn from(problem: RequestError) -> Self {
        Self::Request(problem)
    }
}

impl Asking<'_> {
    async fn run(self, channel: Option<&CallChannel>) -> Result<Step, Stop> {
        let answer = self.permitted.answer().copied();
        if answer.is_none() && self.context.request.param("requestState").is_some() {
            // The next round of a call that was approved and whose server has questions.
            return match self.gateway.approvals.asked.take_round(&self.call.digest) {
                true => Ok(self.go()),
                false => Err(ApprovalError::Unknown.into()),
            };
        }
        let rules: Vec<Arc<ApprovalRule>> = self.permitted.approvals().to_vec();
        let mut approvers = Vec::new();
        let own = rules.iter().any(|rule| rule.is_for_caller());
        match (answer, own) {
            (Some(answer), _) => self.take_answer(answer)?,
            (None, true) if self.context.era() == Era::Modern => return self.ask_modern(),
            (None, true) => self.ask_legacy(channel).await?,
            (None, false) => {}
        }
        if own {
            approvers.push(self.context.principal.clone());
        }
        if rules.iter().any(|rule| !rule.is_for_caller()) {
            approvers.extend(self.wait_for_others().await?);
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

    /// How long somebody has for an answer.
    fn life(&self, for_caller: bool) -> Duration {
        let longest = self.context.snapshot.config.limits.approval_timeout;
        let rules = self.permitted.approvals().iter();
        let rules = rules.filter(|rule| rule.is_for_caller() == for_caller);
        rules.filter_map(|rule| rule.expires).fold(longest, Duration::min)
    }

    fn question(&self) -> Value {
        let rules = self.permitted.approvals().iter().map(|rule| &**rule);
        let own: Vec<&ApprovalRule> = rules.filter(|rule| rule.is_for_caller()).collect();
        self.call.question(self.context, &self.permitted, &own)
    }

    /// Asks a modern caller, whose next request brings the answer.
    fn ask_modern(&self) -> Result<Step, Stop> {
        let Self { context, permitted, call, .. } = self;
        let params = self.question();
        let text = params.to_string();
        let declared = &context.caller.capabilities;
        if !question::may_ask(declared, Method::Elicit, text.as_bytes(), context.revision) {
            return Err(ApprovalError::CannotAsk.into());
        }
        let life = self.life(true);
        let mut nonce = Nonce::default();
        getrandom::fill(&mut nonce).map_err(|_| ApprovalError::Unknown)?;
        let slug = permitted.server().slug();
        let state = answer::seal(context, slug, permitted.target(), &nonce, life)
            .ok_or(ApprovalError::Unknown)?;
        let asked = AskedCall {
            owner: context.principal.clone(),
            digest: call.digest,
            policies: context.snapshot.policy.fingerprint(),
            expires: Instant::now() + life,
        };
        let table = &self.gateway.approvals.asked;
        table.ask(nonce, asked, self.bounds).map_err(ApprovalError::NoRoom)?;
        self.record("asked", &[])?;
        let requests = json!({KEY: {"method": Method::Elicit.as_str(), "params": params}});
        let mut result = Vec::with_capacity(text.len() + state.len() + 256);
        let mut object = Object::open(&mut result);
        object.string("resultType", "input_required");
        object.raw("inputRequests", requests.to_string().as_bytes());
        object.string("requestState", &state);
        let mut inner = Object::open(object.key("_meta"));
        inner.raw(meta::SERVER_INFO, &context.snapshot.info);
        inner.close();
        object.close();
        Ok(Step::Ask(write::result(context.request.id(), &result).into()))
    }

    /// Holds the answer of a modern caller against what it was asked.
    fn take_answer(&self, answer: CallerAnswer) -> Result<(), Stop> {
        let asked = self.gateway.approvals.asked.take(&answer.nonce);
        let asked = asked.ok_or(ApprovalError::Unknown)?;
        if asked.policies != self.context.snapshot.policy.fingerprint() {
            return Err(ApprovalError::Changed("the policies").into());
        }
        if asked.digest != self.call.digest || asked.owner != self.context.principal {
            return Err(ApprovalError::Other.into());
        }
        match answer.approves {
            true => Ok(()),
            false => self.deny(&self.context.principal),
        }
    }

    /// Asks a legacy caller on its session.
    async fn ask_legacy(&self, channel: Option<&CallChannel>) -> Result<(), Stop> {
        let channel = channel.ok_or(ApprovalError::CannotAsk)?;
        let params = self.question().to_string();
        self.record("asked", &[])?;
        let asked = channel.ask_own(params.as_bytes());
        let answer = tokio::select! {
            answer = tokio::time::timeout(self.life(true), asked) => answer,
            () = self.gateway.stopping.cancelled() => return Err(ApprovalError::Stopping.into()),
        };
        match answer {
            Ok(Ok(result)) => {
                match is_approval(&serde_json::from_slice(&result).unwrap_or_default()) {
                    true => Ok(()),
                    false => self.deny(&self.context.principal),
                }
            }
            Ok(Err(QuestionError::Undeclared)) => Err(ApprovalError::CannotAsk.into()),
            Ok(Err(QuestionError::Refused { .. })) => self.deny(&self.context.principal),
            Ok(Err(_)) | Err(_) => self.expire(),
        }
    }

    /// Waits until everybody who has to approve the call has.
    async fn wait_for_others(&self) -> Result<Vec<Principal>, Stop> {
        let life = self.life(false);
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(|_| ApprovalError::Unknown)?;
        let id: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut rules = self.permitted.approvals().to_vec();
        rules.retain(|rule| !rule.is_for_caller());
        let shown = self.call.show(self.context, &self.permitted);
        let requester = self.context.principal.clone();
        let expires = SystemTime::now() + life;
        let (call, mut receiver) = WaitingCall::new(id, requester, shown, rules, expires);
        let waiting = &self.gateway.approvals.waiting;
        let _permit = waiting.hold(call, self.bounds).map_err(ApprovalError::NoRoom)?;
        self.record("asked", &[])?;
        let mut gone = GoneRecord { asking: self, is_over: false };
        let ending = tokio::select! {
            biased;
            ending = &mut receiver => ending.ok(),
            () = tokio::time::sleep(life) => {
                // Whoever was told that an approval counted was told the truth.
                receiver.close();
                receiver.try_recv().ok()
            }
            () = self.gateway.stopping.cancelled() => return Err(ApprovalError::Stopping.into()),
        };
        gone.is_over = true;
        match ending {
            Some(Ending::Approved(by)) => Ok(by),
            Some(Ending::Denied(by)) => self.deny(&by),
            None => self.expire(),
        }
    }

    fn deny<T>(&self, by: &Principal) -> Result<T, Stop> {
        self.record("denied", std::slice::from_ref(by))?;
        let who = match *by == self.context.principal {
            true => "its caller".to_owned(),
            false => format!("{}|{}", by.issuer, by.subject),
        };
        Err(ApprovalError::Denied(who).into())
    }

    fn expire<T>(&self) -> Result<T, Stop> {
        self.record("expired", &[])?;
        Err(ApprovalError::Expired.into())
    }

    /// Whoever approved the call has to be who it was while others thought about it.
    fn check_approvers(&self, approvers: &[Principal]) -> Result<(), ApprovalError> {
        let now = self.gateway.snapshot();
        for approver in approvers {
            let current = now.authenticator.current(approver);
            if current.is_none_or(|current| current.roles != approver.roles) {
                return Err(ApprovalError::Changed("the credential of somebody who approved it"));
            }
        }
        Ok(())
    }

    /// Nothing may have changed of what was approved while somebody thought about it.
    fn check_unchanged(&self) -> Result<(), ApprovalError> {
        let was = self.context;
        let now = self.gateway.snapshot();
        if now.policy.fingerprint() != was.snapshot.policy.fingerprint() {
            return Err(ApprovalError::Changed("the policies"));
        }
        let Some(principal) = now.authenticator.current(&was.principal) else {
            return Err(ApprovalError::Changed("the caller's credential is not good any more"));
        };
        let before = &was.principal;
        let same = principal.roles == before.roles
            && principal.scopes == before.scopes
            && principal.organisation == before.organisation
            && principal.agent == before.agent;
        if !same {
            return Err(ApprovalError::Changed("what the caller's credential grants"));
        }
        let rights = CallerRights::new(&now.policy, principal, &was.endpoint);
        let view = self.gateway.directory.view(&was.endpoint, &now, &rights);
        let name = was.request.param_str("name").unwrap_or_default();
        let seen = view.as_ref().and_then(|view| view.tool(&name));
        let before = was.view.tool(&name);
        let same = seen.zip(before).is_some_and(|(seen, before)| {
            seen.entry.item.text == before.entry.item.text
                && Arc::ptr_eq(&seen.entry.server, self.permitted.server())
        });
        if same { Ok(()) } else { Err(ApprovalError::Changed("the tool")) }
    }

    /// Writes what happened into the log and the audit trail; without a record the call is not
    /// made, if the operator says so.
    fn record(&self, state: &'static str, by: &[Principal]) -> Result<(), RequestError> {
        let Self { gateway, context, permitted, call, .. } = self;
        let names: Vec<&str> = permitted.approvals().iter().map(|rule| &*rule.rule).collect();
        let rule = names.join(", ");
        let people: Vec<String> =
            by.iter().map(|one| format!("{}|{}", one.issuer, one.subject)).collect();
        let people = people.join(", ");
        let who = format!("{}|{}", context.principal.issuer, context.principal.subject);
        let tool = permitted.listed().unwrap_or_default();
        tracing::info!(target: "audit", approval = state, who, tool, rule, by = people, "approval");
        let Some(trail) = &gateway.audit else { return Ok(()) };
        let digest = call.digest_text();
        let written = trail.approval(&audit::Approval {
            state,
            rule: &rule,
            issuer: &context.principal.issuer,
            subject: &context.principal.subject,
            by: &people,
            server: permitted.server().slug(),
            name: tool,
            digest: &digest,
        });
        written.map_err(|unwritable| RequestError::unrecorded(&unwritable))
    }
}

/// Records that nobody waits for the approval any more: the client has left, or the gateway ends.
struct GoneRecord<'a> {
    asking: &'a Asking<'a>,
    is_over: bool,
}

impl Drop for GoneRecord<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            drop(self.asking.record("gone", &[]));
        }
    }
}
