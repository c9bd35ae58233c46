"""A gateway without configured servers: an administrator adds them over the API, and assigns them to an agent.

The servers are real HTTP servers: server-everything, and the time server behind a bridge with an API key.
It depends only on the API as documented in docs/api.md.
"""

import json
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

from .gateway import Gateway
from .servers import Server, Yard

KEY = "e2e-key-of-the-bridge"
# Seconds from the creation of an integration to the result of its first call: usually 0.3, but other steps of tests/run use both cores.
FIRST_CALL = 3.0
START_LIMIT = 30  # seconds

CONFIG = """listen: {listen}
builtin: {{ system: false }}
http: {{ drain: 0 }}
egress: {{ organisations: local }}
store: {{ keys: [a-key-of-the-ring-that-is-long-enough] }}
"""


def serve_bridged(yard: Yard, server: Server) -> str:
    """Starts a stdio server behind the npm package `mcp-proxy`, which requires its key."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    bridge = str(yard.packages.parent / "mcp-proxy/dist/bin/mcp-proxy.mjs")
    log = yard.scratch / f"bridge-{server.slug}.log"
    with log.open("wb") as out:
        yard.children.append(subprocess.Popen(
            [yard.node, bridge, "--host", "127.0.0.1", "--port", str(port), "--apiKey", KEY, "--server", "stream",
             "--", *server.command], stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT))
    end = time.monotonic() + START_LIMIT
    while time.monotonic() < end:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return f"http://127.0.0.1:{port}/mcp"
        time.sleep(0.1)
    raise RuntimeError(f"the bridge did not start: {log.read_text()[-500:]}")


class Organisation(Gateway):
    """A gateway with an agent's endpoint."""

    def __init__(self, binary: Path, scratch: Path, yard: Yard, servers: dict[str, Server]):
        super().__init__(binary, scratch, {})
        self.config.write_text(CONFIG.format(listen=self.listen))
        self.yard = yard
        self.servers = {"everything-http": servers["everything-http"], "time": servers["time"]}
        self.agent = ""
        self.complaints: list[str] = []

    def start(self) -> None:
        super().start()
        self.agent = self.ask("POST", "/agents", {"name": "e2e"})["id"]
        for server in self.servers.values():
            body = {"name": server.slug, "authMethod": "none", "serverUrl": server.url}
            if not server.url:
                url = serve_bridged(self.yard, server)
                body |= {"serverUrl": url, "authMethod": "api_key", "headerName": "X-API-Key", "credentials": KEY}
            made = self.ask("POST", "/mcp-integrations/custom", body)
            began = time.monotonic()
            if made["slug"] != server.slug:
                self.complaints.append(f"{server.slug} is called {made['slug']}")
            self.ask("POST", f"/agents/{self.agent}/mcp-integrations/{made['id']}")
            self.await_tools(server.slug)
            if (took := time.monotonic() - began) > FIRST_CALL:
                self.complaints.append(f"{server.slug}: {took:.2f} s from its creation to its first answer")

    def ask(self, verb: str, path: str, body: dict | None = None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://{self.listen}/api{path}", data, {"Content-Type": "application/json"},
                                         method=verb)
        with urllib.request.urlopen(request, timeout=START_LIMIT) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def await_tools(self, slug: str) -> None:
        """Waits until the agent's list has the server's tools; the gateway's own list waits for new servers."""
        meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
                "io.modelcontextprotocol/clientInfo": {"name": "e2e", "version": "1"}}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}}
        head = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
                "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list"}
        end = time.monotonic() + START_LIMIT
        while time.monotonic() < end:
            request = urllib.request.Request(self.url(None, "http"), json.dumps(body).encode(), head)
            with urllib.request.urlopen(request, timeout=START_LIMIT) as answer:
                if f'"{slug}__' in answer.read().decode():
                    return
            time.sleep(0.05)
        raise RuntimeError(f"{slug} has no tools:\n{self.said()}")

    def url(self, slug: str | None, transport: str) -> str:
        return f"http://{self.listen}/agents/{self.agent}/mcp"

    def stop(self) -> str:
        return "; ".join(filter(None, [super().stop(), *self.complaints]))
