"""Schemathesis hooks: two of three requests of an operation get existing ids instead of random text, and each response is recorded
for `main.py`. A request that may delete an item gets a new item."""

import json
import os
import sys
import threading
import urllib.error
import urllib.request

import schemathesis
from schemathesis.core.parameters import ParameterLocation
from schemathesis.generation.meta import TestPhase

GATEWAY, KEY, SERVER, ANSWERS = (os.environ[name] for name in ("API_GATEWAY", "API_KEY", "API_SERVER", "API_ANSWERS"))
# All created items belong to the caller's organisation; this is another existing one.
ORGANISATION = "acme"
TOOL = "fixture__test_simple_text"
# Its calls await the caller's approval (see the policy in main.py).
ASKED = "fixture__test_image_content"
METHODS = ("tools/list", "prompts/list", "resources/list")
# A key is usable only after the gateway has reloaded its file: only this many requests get items that need a key.
SLOW, SLOWLY = ("/keys/", "/sessions/", "/approvals/"), 8

answers = open(ANSWERS, "a", buffering=1)  # noqa: SIM115
made = {}
counts = {}
lock = threading.RLock()


def ask(method, path, body=None, key=KEY, form=None):
    headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    if form is not None:
        headers = {"origin": GATEWAY, "content-type": "application/x-www-form-urlencoded"}
        data = form.encode()
    request = urllib.request.Request(f"{GATEWAY}{path}", data=data, headers=headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            text = answer.read()
    except urllib.error.HTTPError as error:
        raise AssertionError(f"{method} {path}: {error.code} {error.read()[:300]}") from error
    return json.loads(text) if text.startswith((b"{", b"[")) else None


def name():
    counts["names"] = counts.get("names", 0) + 1
    return f"Real {counts['names']}"


def agent():
    """Returns a new agent, with at most 100 per owner: Schemathesis creates some too."""
    own = ask("GET", "/api/agents?limit=1")
    if own["total"] > 90:
        ask("DELETE", f"/api/agents/{own['items'][0]['id']}")
    return ask("POST", "/api/agents", {"name": name()})["id"]


def integration():
    return ask("POST", "/api/mcp-integrations/custom", {"name": name(), "serverUrl": SERVER})["id"]


def key(**more):
    return ask("POST", "/api/keys", {"name": name(), **more})


def organisation():
    return ask("POST", "/api/organisations", {"id": name()})["id"]


def session():
    """Returns a new console session."""
    text = key()["key"]
    before = {item["id"] for item in ask("GET", "/api/sessions?limit=200")["items"]}
    opener = urllib.request.build_opener(NoRedirect)
    request = urllib.request.Request(f"{GATEWAY}/console/sign-in", data=f"key={text}".encode(), headers={"origin": GATEWAY})
    try:
        opener.open(request, timeout=30)
    except urllib.error.HTTPError as error:
        assert error.code == 303, error.code
    return next(item["id"] for item in ask("GET", "/api/sessions?limit=200")["items"] if item["id"] not in before)


class NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


def approval():
    """Returns a call of another key that awaits approval."""
    asker = key()["key"]
    before = {item["id"] for item in ask("GET", "/api/approvals?limit=200")["items"]}
    call = threading.Thread(target=wait_for_approval, args=[asker], daemon=True)
    call.start()
    while call.is_alive():
        for item in ask("GET", "/api/approvals?limit=200")["items"]:
            if item["id"] not in before:
                return item["id"]
    raise AssertionError("the call does not wait for an approver")


def wait_for_approval(asker):
    try:
        ask("POST", f"/api/tools/{ASKED}/execute", {"arguments": {}}, key=asker)
    except (AssertionError, OSError):
        pass


def assignment(is_there):
    """Returns an agent and an integration, assigned to it or not."""
    ids = {"id": shared("agent", agent, "agents"), "integrationId": shared("integration", integration, "mcp-integrations")}
    try:
        ask("POST" if is_there else "DELETE", f"/api/agents/{ids['id']}/mcp-integrations/{ids['integrationId']}")
    except AssertionError:
        pass  # Already in this state.
    return ids


def shared(what, make, collection):
    """Returns an item shared by several requests, unless another request has deleted it."""
    try:
        ask("GET", f"/api/{collection}/{made[what]}")
    except (AssertionError, KeyError):
        made[what] = make()
    return made[what]


def find_ids(label):
    """Returns values for an operation's path that name existing items."""
    deletes = label.startswith("DELETE ")
    match label.split(" ")[1].split("/")[1:]:
        case ["servers", _, *action]:
            # Tools of the server that is switched off and on are not called.
            return {"name": "switched" if action else "fixture"}
        case ["tools", *_]:
            return {"name": TOOL}
        case ["mcp", _]:
            counts["methods"] = counts.get("methods", 0) + 1
            return {"method": METHODS[counts["methods"] % len(METHODS)]}
        case ["keys", _]:
            return {"id": key()["id"]}
        case ["sessions", _]:
            return {"id": session()}
        case ["organisations", _]:
            return {"id": organisation()}
        case ["approvals", _, *action]:
            return {"id": approval() if action else shared("approval", approval, "approvals")}
        case ["agents", _, "mcp-integrations", "{integrationId}"]:
            return assignment(deletes)
        case ["agents", "{id}", *_]:
            return {"id": agent() if deletes else shared("agent", agent, "agents")}
        case ["mcp-integrations", "{id}", *_]:
            # Each operation changes its own item.
            return {"id": integration() if deletes else shared(label, integration, "mcp-integrations")}
    return {}


def complete_body(label, body):
    """Changes a body to name existing items."""
    match label:
        case "POST /mcp-integrations/predefined":
            body["slug"] = "fixture"
        case "POST /pins/approve":
            waiting = ask("GET", "/api/pins?limit=1")["items"]
            body["tools"] = [{"name": one["name"], "fingerprint": one["fingerprint"]} for one in waiting] or body["tools"]
        case "POST /keys" if body.get("organizationId"):
            body["organizationId"] = ORGANISATION


@schemathesis.hook
def before_call(context, case, kwargs):
    meta = case.meta
    if meta is None or meta.phase.name == TestPhase.STATEFUL or case.method.upper() != case.operation.method.upper():
        return  # For another method, only the 405 is checked.
    label = case.operation.label
    with lock:
        counts[label] = counts.get(label, 0) + 1
        is_slow = label.split(" ")[1].startswith(SLOW)
        if counts[label] % 3 == 0 or (is_slow and counts[label] > SLOWLY):
            return
        if "organizationId" in (case.query or {}) and not meta.is_negative_at(ParameterLocation.QUERY):
            case.query["organizationId"] = ORGANISATION if counts[label] % 2 else "default"
        try:
            if case.path_parameters and not meta.is_negative_at(ParameterLocation.PATH):
                case.path_parameters.update(find_ids(label))
            if isinstance(case.body, dict) and not meta.is_negative_at(ParameterLocation.BODY):
                complete_body(label, case.body)
        except AssertionError as error:
            # A concurrent request interferes. If it keeps an operation from being reached, main.py fails.
            print(f"{label}: {error}", file=sys.stderr)


@schemathesis.hook
def after_call(context, case, response):
    if case.method.upper() == case.operation.method.upper():
        answers.write(f"{case.operation.label}\t{response.status_code}\n")
