"""Starts fixtures and gateways, polls until they are ready, and ends each by its id."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

from .install import ROOT

START_SECONDS = 20
STOP_SECONDS = 5
_children: set[subprocess.Popen] = set()
_is_over = threading.Event()


def end_children(*_signal) -> None:
    """Handles SIGTERM and SIGINT: other threads would not end their children, and would start more."""
    _is_over.set()
    for child in list(_children):
        if child.poll() is None:
            child.kill()
    raise SystemExit(130)


def fixture_binary() -> Path:
    return _binary("LOCKGATE_FIXTURE", "fixture-server", "tests/support/build")


def gateway_binary() -> Path:
    return _binary("LOCKGATE_BIN", "lockgate", "cargo build")


def _binary(variable: str, name: str, command: str) -> Path:
    path = Path(os.environ.get(variable, ROOT / "target" / "debug" / name)).resolve()
    if not path.exists():
        raise SystemExit(f"{path} does not exist; build it with `{command}` or set {variable}")
    return path


def _environment() -> dict[str, str]:
    """Returns our environment without the gateway's settings: a gateway under test is configured only by its file. The harness's own
    variables stay, because the client half starts the harness again below the suite."""
    own = ("LOCKGATE_BIN", "LOCKGATE_FIXTURE", "LOCKGATE_CACHE")
    return {name: value for name, value in os.environ.items() if name in own or not name.startswith("LOCKGATE_")}


@contextlib.contextmanager
def running(command: list[str], log: Path, output=None):
    """Runs a child process until the end of the block, with its standard error, and its output unless redirected, in `log`."""
    if _is_over.is_set():
        raise RuntimeError("interrupted")
    with log.open("wb") as errors:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output or errors,
            stderr=errors,
            env=_environment(),
        )
    _children.add(child)
    try:
        yield child
    finally:
        _children.discard(child)
        if child.poll() is None:
            child.send_signal(signal.SIGTERM)
            try:
                child.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait(STOP_SECONDS)
        if child.stdout:
            child.stdout.close()


@contextlib.contextmanager
def gateway(servers: dict, folder: Path):
    """Runs a gateway with these servers; yields its base URL once it is ready."""
    port = free_port()
    listen = f"127.0.0.1:{port}"
    config = folder / "lockgate.yaml"
    # JSON is YAML.
    # A gateway under test has no clients to drain when it stops.
    settings = {"listen": listen, "http": {"drain": 0}, "servers": servers}
    if any("auth" in server for server in servers.values()):
        settings["http"]["public_url"] = f"http://{listen}"
    config.write_text(json.dumps(settings, indent=2) + "\n")
    command = [str(gateway_binary()), "serve", "--config", str(config), "--listen", listen]
    log = folder / "gateway.log"
    with running(command, log) as child:
        deadline = time.monotonic() + START_SECONDS
        while not _answers(f"http://{listen}/readyz"):
            if child.poll() is not None or time.monotonic() > deadline:
                tail = log.read_text(errors="replace")[-2000:]
                raise RuntimeError(f"the gateway is not ready (exit {child.poll()}):\n{tail}")
            # There is no event for an opened port, so poll.
            time.sleep(0.02)
        yield f"http://{listen}"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as response:
            return response.status == 200
    except (urllib.error.URLError, OSError):
        return False


def fixture_names(url: str) -> list[str]:
    """Returns every tool and prompt in the lists of a modern fixture."""
    return [
        entry["name"]
        for method, field in (("tools/list", "tools"), ("prompts/list", "prompts"))
        for entry in _modern_call(url, method)[field]
    ]


def _modern_call(url: str, method: str) -> dict:
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": meta}}
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": method,
    }
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=10) as response:
        text = response.read().decode()
    if text.startswith("{"):
        return json.loads(text)["result"]
    data = [line[5:] for line in text.splitlines() if line.startswith("data:")]
    messages = [json.loads(line) for line in data if line.strip()]
    return next(message["result"] for message in messages if message.get("id") == 1)


def scratch():
    return tempfile.TemporaryDirectory(prefix="lockgate-conformance-", ignore_cleanup_errors=True)
