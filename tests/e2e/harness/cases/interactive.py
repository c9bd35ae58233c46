"""Cases in which server-everything asks the client: elicitation, sampling and roots.

Clients of both eras, over HTTP and over stdio: for a modern client the gateway parks the call during the question.
"""

from . import Case
from .everything import TEXT, call, text

SERVERS = ("everything", "everything-http")
HTTP = ("everything-http",)
OWN = ("direct", "own")
EVERYWHERE = ("direct", "merged", "own", "stdio")
BOTH = ("legacy", "modern")
PERSON = {"name": "Ann", "integer": 7, "untitledSingleSelectEnum": "Ross"}
ACCEPT = {"elicitation": {"action": "accept", "content": PERSON}}
DECLINE = {"elicitation": {"action": "decline"}}
MODEL = {"sampling": {"role": "assistant", "content": {"type": "text", "text": "a reply"}, "model": "test-model"}}
ROOTS = {"roots": [{"uri": "file:///srv/lock", "name": "Lock"}, {"uri": "file:///srv/gate", "name": "Gate"}]}
FORM = {"method": "elicitation/create", "params": {
    "message": {"$regex": "Please provide inputs"},
    "requestedSchema": {"required": ["name"], "properties": {
        "titledMultipleSelectEnum": {"items": {"anyOf": [{"const": "fish-1"}, {"const": "fish-2"}, {"const": "fish-3"}]}},
        "legacyTitledEnum": {"enumNames": ["Cats", "Dogs", "Birds", "Fish", "Reptiles"]}}}}}
LINK = {"method": "elicitation/create", "params": {"mode": "url", "url": "https://example.com/consent"}}
ASK_MODEL = {"method": "sampling/createMessage", "params": {
    "maxTokens": 64, "systemPrompt": "You are a helpful test server.",
    "messages": [{"role": "user", "content": {"type": "text", "text": {"$regex": "what now"}}}]}}


def shows(name):
    """Checks that the tool, which requires the capability, is listed."""
    return {"do": "list_tools", "expect": {"tools": {"$has": [{"name": {"$name": name}}]}}}


FORM_STEPS = [
    shows("trigger-elicitation-request"),
    call("trigger-elicitation-request", asked=[FORM], expect={"content": {"$has": [
        {"text": {"$regex": "- Name: Ann\n- Favorite Integer: 7"}}]}}),
]
SAMPLING_STEPS = [
    shows("trigger-sampling-request"),
    call("trigger-sampling-request", {"prompt": "what now", "maxTokens": 64}, asked=[ASK_MODEL],
         expect=text({"$regex": "a reply.*"})),
]

CASES = [
    Case("elicitation, accepted", SERVERS, FORM_STEPS, ACCEPT, BOTH, EVERYWHERE),
    Case("elicitation, declined", SERVERS, [
        call("trigger-elicitation-request", asked=[FORM], expect={"content": {"$has": [
            {"text": {"$regex": "User declined"}}]}}),
    ], DECLINE, BOTH, EVERYWHERE),
    Case("elicitation of a URL", SERVERS, [
        shows("trigger-url-elicitation"),
        call("trigger-url-elicitation", {"url": "https://example.com/consent"}, asked=[LINK],
             expect={"content": {"$has": [{"text": {"$regex": "User completed the URL elicitation"}}]}}),
    ], {"elicitation": {"action": "accept"}}, BOTH, EVERYWHERE),
    Case("elicitation required, as an error", HTTP, [
        call("trigger-url-elicitation", {"url": "https://example.com/${id}", "errorPath": True}, error=-32042),
    ], {"elicitation": {"action": "accept"}}, ("legacy",), OWN, errors=True),
    # Such a client has a separate session at the server, which keeps subscriptions per session.
    Case("resource updates of a client that can be asked", HTTP, [
        {"do": "mark"},
        {"do": "subscribe", "uri": TEXT, "expect": {}},
        call("toggle-subscriber-updates", expect=text({"$regex": "^Started"})),
        {"do": "wait_for", "method": "notifications/resources/updated", "timeout": 8, "expect": {}},
        call("toggle-subscriber-updates", expect=text({"$regex": "^Stopped"})),
        {"do": "unsubscribe", "uri": TEXT, "expect": {}},
    ], ACCEPT, ("legacy",), OWN, exclusive=True),
    Case("sampling", SERVERS, SAMPLING_STEPS, MODEL, BOTH, EVERYWHERE),
    Case("roots", HTTP, [
        {"do": "wait", "seconds": 0.7},  # the server asks 350 ms after `initialized`
        shows("get-roots-list"),
        call("get-roots-list", expect=text({"$regex": r"2 total.*Lock.*file:///srv/lock.*Gate"})),
    ], ROOTS, ("legacy",), OWN),
    Case("interactive tools are hidden from a client that cannot answer", HTTP, [
        {"do": "list_tools", "expect": {"tools": {"$lacks": [{"name": {"$name": "trigger-elicitation-request"}},
                                                            {"name": {"$name": "trigger-sampling-request"}}]}}},
    ], {}, BOTH, OWN),
]
