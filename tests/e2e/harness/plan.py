"""Multiplies cases by clients, eras and endpoints into sessions: a connected client that plays several cases.

Cases with the same connection, answers and naming share a session.
"""

import json
import re
from dataclasses import dataclass, field

from .cases import Case
from .clients import CLIENTS, SSE_CLIENTS, ClientKind
from .naming import Merged, Plain
from .servers import Server

WHERE = ("direct", "merged", "own", "stdio", "agent")
# The servers added over the API and assigned to an agent, and their clients.
AGENT_SERVERS = ("everything-http", "time")
AGENT_CLIENTS = ("py-legacy", "py-auto", "ts-legacy", "ts-modern")
ALL_ERAS = ("legacy", "modern")
ASKED = "elicitation|sampling"
# Without `--full`: the `SERVER CASE` of each client and endpoint, as regular expressions. One client of each era plays everything
# at `/mcp`, and one client everything at the servers' own endpoints; the other libraries play the cases that differ.
SHORT = {
    ("merged", "py-legacy"): "",
    ("merged", "ts-modern"): "",
    ("merged", "py-auto"): "^everything-http (tools answer|elicitation, accepted)",
    ("merged", "ts-auto"): "^everything-http (tools answer|elicitation, accepted)",
    ("merged", "sdk-legacy"): "^everything-http (?!resource updates|list changes|log|no log)",
    ("merged", "sdk-sse"): "^everything-http (?!resource updates|list changes|log|no log)",
    ("merged", "inspector-modern"): "^everything-http (lists|tools answer|prompts)",
    ("merged", "inspector-legacy"): "^everything-http tools answer",
    ("own", "ts-legacy"): "",
    ("own", "py-modern"): "^(everything|everything-http|time|fetch) ",
    ("own", "sdk-legacy"): "^everything-http (unknown|wrong|elicitation required)",
    ("own", "inspector-auto"): "^time time: tools answer",
    ("own", "py-sse"): "^everything-http (tools answer|progress|elicitation, accepted|resource updates$)",
    ("own", "ts-sse"): "^everything-http (tools answer|cancellation|sampling)",
    ("stdio", "py-modern"): f"^(?!.*({ASKED}))|elicitation, accepted",
    ("stdio", "ts-legacy"): f"^(?!.*({ASKED}))|sampling",
    ("agent", "ts-modern"): "",
    ("agent", "py-legacy"): "^time |^everything-http (lists|tools answer|elicitation, accepted)",
}


def is_short(where: str, client: str, slug: str, case: str) -> bool:
    pattern = SHORT.get((where, client))
    return pattern is not None and bool(re.search(pattern, f"{slug} {case}"))


@dataclass
class Part:
    """A case for a server, in a session."""

    case: Case
    slug: str  # "" for all servers
    view: Plain


@dataclass
class Session:
    where: str
    client: ClientKind
    slug: str  # the endpoint's server; "" for the merged endpoint
    era: str
    answers: dict
    exclusive: bool
    errors: bool
    parts: list[Part] = field(default_factory=list)

    @property
    def title(self) -> str:
        return f"{self.where:<6} {self.client.name}" + (f" {self.slug}" if self.slug else "")


def sessions(cases: list[Case], servers: dict[str, Server], wanted) -> list[Session]:
    """`wanted(where, client_name, slug, case_name)` selects; the order is that of the cases."""
    found: dict[tuple, Session] = {}
    for case in cases:
        for where in (*case.where, *(("agent",) if "merged" in case.where and case.servers != ("",) else ())):
            for client in clients_for(where):
                for slug in case.servers:
                    place_part(found, case, where, client, slug, servers, wanted)
    return list(found.values())


def clients_for(where: str) -> list[ClientKind]:
    return [*CLIENTS.values(), *(SSE_CLIENTS.values() if where != "stdio" else ())]


def place_part(found, case, where, client, slug, servers, wanted) -> None:
    if where == "agent" and (slug not in AGENT_SERVERS or client.name not in AGENT_CLIENTS):
        return
    target = meant_server(where, client, slug)
    if target and target not in servers:
        return
    era = client.era_with(servers[target].eras if where == "direct" else ALL_ERAS)
    if era not in case.eras or not playable(case, where, client) or not wanted(where, client.name, target, case.name):
        return
    shared = where in ("merged", "stdio", "agent")
    view = Merged(target) if shared and target else Plain()
    endpoint = "" if shared else target
    errors = case.errors and where == "direct"
    # Over stdio each session has a separate gateway, so no state is shared.
    key = (where, client.name, endpoint, json.dumps(case.answers), case.exclusive, errors)
    if key not in found:
        alone = case.exclusive and where in ("merged", "own", "agent")
        found[key] = Session(where, client, endpoint, era, case.answers, alone, errors)
    found[key].parts.append(Part(case, target, view))


def meant_server(where: str, client: ClientKind, slug: str) -> str:
    """SSE clients connect to the SSE twin of the HTTP server; behind the gateway to that server itself, and to all servers."""
    if client.transport == "sse":
        twin = "everything-sse" if where == "direct" else "everything-http"
        return {"everything-http": twin, "": "no SSE server" if where == "direct" else ""}.get(slug, "no SSE server")
    return slug


def playable(case: Case, where: str, client: ClientKind) -> bool:
    if client.one_shot:  # a process per step; over stdio each would start a gateway
        return case.inspector and (where != "stdio" or case.servers == ("",))
    return True
