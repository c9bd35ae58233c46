"""Servers that require the caller's identity: a server of the Python SDK verifies with PyJWT, which fetches the gateway's keys.
Every client library, in both eras, over HTTP as two callers and over stdio, at a server of each era.
"""

import json
import os
import subprocess
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .clients import CLIENTS, HERE, Place, play
from .gateway import Gateway
from .judge import Verdict

CLIENT_NAMES = ("py-legacy", "py-modern", "ts-legacy", "ts-modern", "sdk-legacy")
SERVERS = {"crm": "auto", "old": "legacy"}
# Without `--full`: each client as one caller, and both callers and stdio once in each era.
SHORT = {"py-legacy": ("alice", "bob"), "py-modern": ("alice", "stdio"), "ts-legacy": ("alice", "stdio"),
         "ts-modern": ("alice", "bob"), "sdk-legacy": ("alice",)}
SHORT_AFTER_ROTATION = {"py-legacy": ("alice",), "ts-modern": ("bob",)}


class Knowing:
    """A gateway with keys for two callers, and a program for each server."""

    def __init__(self, binary: Path, scratch: Path, yard):
        self.binary, self.yard, self.children = binary, yard, []
        self.scratch = scratch / "identity"
        self.scratch.mkdir()
        for name in ("old.pem", "new.pem"):
            subprocess.run(["openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out",
                            str(self.scratch / name)], check=True, capture_output=True)
        self.gateway = Gateway(binary, self.scratch, {})
        self.public = f"http://{self.gateway.listen}"
        self.urls = {slug: self.serve(slug) for slug in SERVERS}
        self.keys = {name: self.create_key(name) for name in ("alice", "bob")}
        self.configure(["old.pem"])

    def serve(self, slug: str) -> str:
        return self.launch("knowing_server.py", f"urn:{slug}", self.public, f"{self.public}/.well-known/jwks.json")

    def launch(self, driver: str, *words: str) -> str:
        """Starts a server that prints its port; returns its address."""
        command = [str(self.yard.python / "python"), str(HERE / "drivers" / driver), *words]
        env = {k: v for k, v in os.environ.items() if k.lower() not in ("http_proxy", "https_proxy", "all_proxy")}
        said = (self.scratch / f"{len(self.children)}.log").open("w")
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, text=True, env=env)
        self.children.append(child)
        return f"http://127.0.0.1:{int(child.stdout.readline())}/mcp"

    def create_key(self, name: str) -> str:
        made = subprocess.run([str(self.binary), "keys", "create", name, "--json", "--file", str(self.scratch / "keys.yaml")],
                              check=True, capture_output=True, text=True)
        return json.loads(made.stdout)["key"]

    def configure(self, keys: list[str]) -> None:
        servers = {slug: {"url": url, "era": SERVERS[slug], "identity": {"audience": f"urn:{slug}"}}
                   for slug, url in self.urls.items()}
        self.write(servers, identity={"keys": [f"file:{name}" for name in keys]})

    def write(self, servers: dict, **more) -> None:
        config = {"listen": self.gateway.listen, "builtin": {"system": False}, "limits": {"discovery_deadline": 30},
                  "auth": {"keys_file": "keys.yaml"}, "http": {"public_url": self.public, "drain": 0}, "servers": servers, **more}
        new = self.scratch / "new.yaml"
        new.write_text(json.dumps(config))
        new.rename(self.gateway.config)

    def published(self) -> list[str]:
        with urllib.request.urlopen(f"{self.public}/.well-known/jwks.json", timeout=5) as answer:
            return [key["kid"] for key in json.load(answer)["keys"]]

    def rotate(self) -> None:
        """Rotates to a signing key that is new to the servers."""
        before = self.published()
        self.configure(["new.pem", "old.pem"])
        end = time.monotonic() + 20
        while time.monotonic() < end and len(self.published()) != 2:
            time.sleep(0.1)
        if self.published()[1:] != before:
            raise RuntimeError(f"{before} became {self.published()}")

    def stop(self) -> str:
        complaint = self.gateway.stop()
        for child in self.children:
            child.terminate()
            child.wait(10)
        return complaint


def asked(knowing: Knowing, cache: Path, name: str, place: Place, want: str) -> list[str]:
    """Returns the errors in the servers' view of this caller."""
    script = {"steps": [{"do": "call_tool", "name": f"{slug}__whoami", "arguments": {}} for slug in SERVERS]}
    reports, err = play(CLIENTS[name], cache, place, script)
    reasons = [] if len(reports) >= 1 + len(SERVERS) else [f"{len(reports)} reports: {err[-400:]}"]
    for slug, report in zip(SERVERS, reports[1:]):
        said = report["result"]["content"][0].get("text") if report["ok"] else str(report["error"])
        reasons += [] if said == want else [f"{slug}: want {want}, got {said}"]
    return reasons


def refused(url: str, headers: dict[str, str]) -> list[str]:
    """Returns an error if a server answers a caller that bypasses the gateway."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=5) as answer:
            return [f"it answered {answer.status}"]
    except urllib.error.HTTPError as error:
        return [] if error.code == 401 else [str(error)]


def run(binary: Path, cache: Path, scratch: Path, yard, jobs: int, full: bool):
    all_callers = dict.fromkeys(CLIENT_NAMES, ("alice", "bob", "stdio"))
    turns = {"": all_callers if full else SHORT, ", after a rotation": all_callers if full else SHORT_AFTER_ROTATION}
    knowing = Knowing(binary, scratch, yard)

    def verdict(name: str, caller: str, turn: str) -> Verdict:
        if caller == "stdio":
            place, want = Place(command=knowing.gateway.stdio_command()), "local|user"
        else:
            key = knowing.keys[caller]
            place, want = Place(url=f"{knowing.public}/mcp", token=key), f"key|{key.split('_')[1]}"
        return Verdict(f"identity {name}: {caller} is known{turn}", asked(knowing, cache, name, place, want))

    try:
        knowing.gateway.start()
        for turn, clients in turns.items():
            if turn:
                knowing.rotate()
            with ThreadPoolExecutor(max(1, jobs)) as pool:
                todo = [(name, caller, turn) for name, callers in clients.items() for caller in callers]
                yield from pool.map(lambda one: verdict(*one), todo)
        forged = {"Lockgate-Identity": "eyJhbGciOiJub25lIn0.eyJzdWIiOiJyb290In0."}
        for what, headers in (("nobody", {}), ("a forger", forged)):
            reasons = [line for url in knowing.urls.values() for line in refused(url, headers)]
            yield Verdict(f"identity: {what} is refused", reasons)
    finally:
        complaint = knowing.stop()
    yield Verdict("identity: the gateway stops on SIGTERM", [complaint] if complaint else [])
