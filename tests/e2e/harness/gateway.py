"""Starts Lockgate with all servers as upstreams, waits until it is ready, and stops it.

It depends only on the command line, the configuration file and `GET /readyz`.
"""

import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

from .servers import Server

READY_LIMIT = 60  # seconds: Python servers start slowly on two cores
STOP_LIMIT = 15


def config_text(servers: dict[str, Server], listen: str) -> str:
    """Returns the configuration as YAML, with scalars and lists as JSON, a subset of YAML."""
    # Only the servers under test, with a longer deadline: Python servers are slow on a busy machine.
    lines = [f"listen: {listen}", "builtin: { system: false }", "limits: { discovery_deadline: 30 }",
             "http: { sse: true, drain: 0 }", "servers:"]
    for server in servers.values():
        lines.append(f"  {server.slug}:")
        if server.url:
            lines.append(f"    url: {json.dumps(server.url)}")
        else:
            lines.append(f"    command: {json.dumps(server.command[0])}")
            lines.append(f"    args: {json.dumps(server.command[1:])}")
            if server.env:
                lines.append(f"    env: {json.dumps(server.env)}")
        lines.append("    era: auto")
    return "\n".join(lines) + "\n"


class Gateway:
    def __init__(self, binary: Path, scratch: Path, servers: dict[str, Server]):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.listen = f"127.0.0.1:{probe.getsockname()[1]}"
        self.binary = binary
        self.config = scratch / "lockgate.yaml"
        self.config.write_text(config_text(servers, self.listen))
        self.log = scratch / "lockgate.log"
        self.child: subprocess.Popen | None = None

    def start(self) -> None:
        with self.log.open("wb") as out:
            self.child = subprocess.Popen(
                [str(self.binary), "serve", "--config", str(self.config), "--listen", self.listen],
                stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
        end = time.monotonic() + READY_LIMIT
        while time.monotonic() < end and self.child.poll() is None:
            if self.ready():
                return
            time.sleep(0.1)
        raise RuntimeError(f"the gateway was not ready in {READY_LIMIT} s:\n{self.said()}")

    def ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://{self.listen}/readyz", timeout=2) as answer:
                return answer.status == 200
        except (urllib.error.URLError, OSError):
            return False

    def url(self, slug: str | None, transport: str) -> str:
        last = "sse" if transport == "sse" else "mcp"
        return f"http://{self.listen}/servers/{slug}/{last}" if slug else f"http://{self.listen}/{last}"

    def stdio_command(self) -> tuple[str, ...]:
        return (str(self.binary), "stdio", "--config", str(self.config))

    def alive(self) -> bool:
        return self.child is not None and self.child.poll() is None

    def said(self) -> str:
        return self.log.read_text(errors="replace")[-3000:]

    def stop(self) -> str:
        """Stops the gateway; returns a complaint if it fails or exceeds the limit, else an empty string."""
        if self.child is None:
            return ""
        if not self.alive():
            return f"the gateway ended by itself with {self.child.returncode}:\n{self.said()}"
        self.child.terminate()
        try:
            code = self.child.wait(STOP_LIMIT)
        except subprocess.TimeoutExpired:
            os.killpg(self.child.pid, signal.SIGKILL)
            self.child.wait(5)
            return f"the gateway did not stop within {STOP_LIMIT} s of SIGTERM"
        return "" if code == 0 else f"the gateway ended with {code} on SIGTERM:\n{self.said()}"
