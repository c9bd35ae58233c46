"""Judges the reports of a session: a verdict per case, with the differences if it fails."""

from dataclasses import dataclass

from . import matching
from .clients import REVISIONS
from .naming import exposed_item, exposed_pattern, exposed_step, fill
from .plan import Part, Session

OWN_KEYS = ("expect", "error", "notes", "asked", "rising", "eras", "direct", "legacy", "modern")
LIST_KEY = {"tools": "name", "prompts": "name", "resources": "uri", "resourceTemplates": "uriTemplate"}
# `execution` belongs to one revision, so a gateway removes it for others; `_meta` is hop-by-hop.
HOP_KEYS = ("execution", "_meta")
# The inspector always declares roots, sampling and elicitation. server-everything then has these tools too, if the gateway relays
# questions: to a server over HTTP, in the legacy era. The cases on questions judge that with other clients.
OPTIONAL_TOOLS = {"inspector.py": ("get-roots-list", "trigger-sampling-request", "trigger-elicitation-request",
                                   "trigger-url-elicitation")}
# Clients that share an upstream connection see the session resources made by the case on list changes.
MADE_BY_A_CASE = "/session/e2e-"
# TypeScript clients lose a progress notification that arrives in one chunk with its response.
KNOWN_FAULTS = ("Received a progress notification for an unknown token",)


@dataclass
class Verdict:
    name: str
    reasons: list[str]


def steps_of(part: Part, session: Session, words: dict[str, str]) -> list[dict]:
    """Returns the steps of a case for this era and endpoint, with the server's own names."""
    found = []
    for step in part.case.steps:
        if session.era not in step.get("eras", (session.era,)):
            continue
        step = {**step, **step.get(session.era, {}), **(step.get("direct", {}) if session.where == "direct" else {})}
        found.append(fill(step, words))
    return found


def sent(step: dict, part: Part) -> dict:
    """Returns the driver's input: without expectations, and with the names of this endpoint."""
    return exposed_step(bare(step), part.view)


def bare(step: dict) -> dict:
    kept = {key: value for key, value in step.items() if key not in OWN_KEYS}
    if "steps" in kept:
        kept["steps"] = [bare(inner) for inner in kept["steps"]]
    return kept


def connection(session: Session, reports: list[dict]) -> list[str]:
    if not reports:
        return ["the driver reported nothing"]
    if not reports[0]["ok"]:
        return [f"connect: {matching.short(reports[0].get('error'), 400)}"]
    result = reports[0]["result"]
    reasons = []
    if result.get("protocolVersion") not in (None, REVISIONS[session.era]):
        reasons.append(f"connect: revision {result['protocolVersion']}, want {REVISIONS[session.era]}")
    if session.client.name != "py-modern" and "tools" not in (result.get("capabilities") or {}):
        reasons.append(f"connect: no tools capability in {matching.short(result.get('capabilities'))}")
    for report in reports:
        # After an error on a resumable stream sdk 1.x requests a replay, and server-everything replays all streams.
        # Only their combination does that; behind the gateway it is a fault like any other.
        if session.errors:
            break
        if report["step"] == "close":  # closing aborts the client's own streams, which some report
            continue
        faults = [n["params"]["message"] for n in report["notifications"] if n["method"] == "error"]
        reasons += [f"client fault: {fault[:300]}" for fault in faults if not fault.startswith(KNOWN_FAULTS)]
    if reports[-1]["step"] in ("close", "run") and not reports[-1]["ok"]:
        reasons.append(f"{reports[-1]['step']}: {matching.short(reports[-1].get('error'), 300)}")
    return reasons


def case(part: Part, steps: list[dict], reports: list[dict], listing, optional=()) -> list[str]:
    """`listing(kind, slug)` returns the direct listing of a server, or of all servers for ""."""
    reasons = []
    for index, step in enumerate(steps):
        where = f"step {index + 1} {step['do']} {step.get('name', step.get('uri', ''))}".rstrip()
        if index >= len(reports):
            return [*reasons, f"{where}: no report"]
        wanted = exposed_pattern({k: step[k] for k in OWN_KEYS if k in step}, part.view)
        reasons += [f"{where}: {line}" for line in judged(wanted, reports[index], reports[index:], part, listing, optional)]
    return reasons


def judged(wanted, report: dict, later: list[dict], part: Part, listing, optional) -> list[str]:
    error, expect = wanted.get("error"), wanted.get("expect", {"$any": True})
    if error is not None:
        codes = error if isinstance(error, list) else [error]
        got = report["result"] if report["ok"] else report["error"].get("code")
        reasons = [] if not report["ok"] and got in codes else [f"want error {error}, got {matching.short(got, 300)}"]
    elif not report["ok"]:
        return [f"error {matching.short(report['error'], 400)}"]
    elif isinstance(expect, dict) and "$listing" in expect:
        kind, slug = expect["$listing"], getattr(part.view, "slug", "")
        expected, result = listing(kind, part.slug), report["result"]
        if slug and part.slug:  # one server's part of the merged list
            expected = [(item, part.view) for item, _ in expected]
            mine = (f"{slug}__", f"{slug}+", f"ui://{slug}+")
            result = {kind: [item for item in result[kind] if item[LIST_KEY[kind]].startswith(mine)]}
        reasons = same_list(kind, result, expected, optional)
    else:
        reasons = matching.differences(expect, report["result"])
    notes = [n for r in later for n in r["notifications"]]
    asked = [n for r in later for n in r["asked"]]
    reasons += matching.differences({"$has": wanted.get("notes", [])}, notes, "notifications")
    reasons += matching.differences({"$has": wanted.get("asked", [])}, asked, "asked")
    if "rising" in wanted:
        values = [n["params"]["progress"] for n in report["notifications"] if n["method"] == "notifications/progress"]
        reasons += matching.differences({"$rising": wanted["rising"]}, values, "progress")
    return reasons


def same_list(kind: str, result: dict, expected: list[tuple], optional: tuple[str, ...]) -> list[str]:
    """`expected` is (item, view) pairs. The order is free: it is stable only in a single server's list."""
    key = LIST_KEY[kind]
    want = {item[key]: item for item in (exposed_item(kind, own, view) for own, view in expected)}
    got = {item.get(key): item for item in result[kind]}
    reasons = [f"missing {name}" for name in sorted(want.keys() - got.keys())]
    reasons += [f"unexpected {name}" for name in sorted(got.keys() - want.keys())
                if not name.endswith(optional) and MADE_BY_A_CASE not in name]
    if len(got) != len(result[kind]):
        reasons.append(f"{len(result[kind]) - len(got)} listed twice")
    for name in sorted(want.keys() & got.keys()):
        ours, theirs = ({k: v for k, v in item.items() if k not in HOP_KEYS} for item in (want[name], got[name]))
        reasons += matching.differences({"$exactly": ours}, theirs, name)
    return reasons


def verdicts(session: Session, scripts: list[list[dict]], reports: list[dict], listing) -> list[Verdict]:
    found = [Verdict(f"{session.title}: connects", connection(session, reports))]
    at = 1
    for part, steps in zip(session.parts, scripts):
        slug = f" [{part.slug}]" if part.slug and not session.slug else ""
        name = f"{session.title}: {part.case.name}{slug}"
        if not reports or not reports[0]["ok"]:
            found.append(Verdict(name, ["not connected"]))
        else:
            mine = [r for r in reports[at:at + len(steps)] if r["step"] not in ("close", "run")]
            optional = OPTIONAL_TOOLS.get(session.client.driver, ())
            found.append(Verdict(name, case(part, steps, mine, listing, optional)))
        at += len(steps)
    return found
