//! Evaluation of policy for a visible item: rate limits, then arguments, and the error of a denial.

use lockgate_policy::{DenyReason, HeldPermit, PolicyDenial, Target, TargetKind, Verdict};
use lockgate_protocol::key::Key;
use lockgate_protocol::method::Method;

use super::permitted::{Judgement, describe_reason};
use crate::context::RequestContext;
use crate::rescue::RequestError;
use crate::rights::CallerRights;
use crate::snapshot::Snapshot;

/// Charges a request for no particular server (lists, discovery) to the caller's rate limits.
pub(crate) fn admit(
    snapshot: &Snapshot,
    rights: &CallerRights,
    method: Method,
) -> Result<Vec<HeldPermit>, RequestError> {
    take_allowance(snapshot, rights, method, None)
}

fn take_allowance(
    snapshot: &Snapshot,
    rights: &CallerRights,
    method: Method,
    about: Option<(&Verdict, &Target<'_>)>,
) -> Result<Vec<HeldPermit>, RequestError> {
    let policy = &snapshot.policy;
    let limiter = &*snapshot.limiter;
    let held = policy.limit(limiter, &rights.class, method.as_str(), &rights.subject(), about);
    held.map_err(|limited| RequestError::limited(method, &limited))
}

/// Decides on a visible item: rate limits, then arguments.
pub(super) fn evaluate(
    context: &RequestContext,
    verdict: &Verdict,
    target: &Target<'_>,
) -> Result<Judgement, RequestError> {
    evaluate_target(context, verdict, target).map_err(|problem| problem.of_server(target.server))
}

fn evaluate_target(
    context: &RequestContext,
    verdict: &Verdict,
    target: &Target<'_>,
) -> Result<Judgement, RequestError> {
    let rights = &context.rights;
    let held =
        take_allowance(&context.snapshot, rights, context.request.method, Some((verdict, target)))?;
    let policy = &context.snapshot.policy;
    let subject = rights.subject();
    let question = rights.question(&subject, target);
    let arguments =
        if verdict.reads_arguments() { context.request.param(Key::Arguments) } else { None };
    let passed = match policy.evaluate(verdict, &question, arguments) {
        Ok(passed) => passed,
        Err(denied) => return Err(write_denial(target, denied)),
    };
    if let Some(denied) = &passed.dry_run {
        let who = subject.principal();
        let reason = describe_reason(&denied.reason);
        let tool = target.exposed;
        let rule = &*denied.rule;
        tracing::info!(target: "audit", decision = "dry-run", who, tool, rule, %reason, "would be \
            denied");
    }
    Ok(Judgement { passed, held, response: verdict.response().cloned() })
}

/// Builds the response to denied arguments: for a tool a result that the model can read and
/// correct, as the specification requires for invalid input; for other items an error.
fn write_denial(target: &Target<'_>, denied: PolicyDenial) -> RequestError {
    let rule = &*denied.rule;
    if let DenyReason::Failure(failure) | DenyReason::Unjudged(failure, _) = &denied.reason {
        tracing::warn!(
            tool = target.exposed,
            rule,
            failure,
            "denied, because a policy could not be evaluated"
        );
    }
    let words = match denied.reason {
        DenyReason::Arguments(refusal) => format!("refused by policy {rule}: {refusal}"),
        DenyReason::Failure(_) => {
            format!("refused by policy {rule}, which cannot evaluate this call")
        }
        DenyReason::Unjudged(_, argument) => {
            format!("refused by policy {rule}, which cannot evaluate this call: {argument}")
        }
        DenyReason::Hidden | DenyReason::Unapproved => format!("refused by policy {rule}"),
    };
    let problem = match target.kind {
        TargetKind::Tool => RequestError::tool_error(words),
        _ => RequestError::invalid(words),
    };
    problem.denied(denied.rule)
}

/// Returns the error for a missing or hidden item. The request counts against the method's rate
/// limits, so that names cannot be guessed without bound.
pub(super) fn answer_missing(context: &RequestContext, problem: RequestError) -> RequestError {
    take_allowance(&context.snapshot, &context.rights, context.request.method, None)
        .err()
        .unwrap_or(problem)
}
