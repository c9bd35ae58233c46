"""Every operation of the gateway's own OpenAPI document, asked by Schemathesis, and a session of a client that is made from it; on a
store of SQLite and on one of PostgreSQL."""

import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import ExitStack, contextmanager
from pathlib import Path

BIN, FIXTURE, TOOLS = (os.environ[name] for name in ("LOCKGATE_BIN", "LOCKGATE_FIXTURE", "API_TOOLS"))
# The same requests each time; SEED=random asks others, EXAMPLES more of them.
SEED = os.environ.get("SEED", "20261123")
EXAMPLES = os.environ.get("EXAMPLES", "6")
# A schema does not say all that is refused: cursors of another list, names that are taken, addresses that nobody may reach.
LEFT_OUT = "positive_data_acceptance"


def wait_for(what, look):
    end = time.monotonic() + 20
    while time.monotonic() < end:
        found = look()
        if found:
            return found
        time.sleep(0.05)
    raise SystemExit(f"waited too long: {what}")


@contextmanager
def running(command, **options):
    child = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, **options)
    try:
        yield child
    finally:
        child.send_signal(signal.SIGTERM)
        try:
            child.wait(20)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


@contextmanager
def postgres():
    """A server of its own on a socket in a temporary folder; gives its URL."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    initdb = found[-1] if found else shutil.which("initdb")
    if not initdb:
        raise SystemExit("please install: postgresql")
    programs = Path(initdb).parent
    with tempfile.TemporaryDirectory(prefix="lockgate-pg") as folder:
        options = {}
        if os.getuid() == 0:
            # It refuses to run as root.
            shutil.chown(folder, "nobody")
            options = {"user": "nobody"}
        data, quiet = Path(folder, "data"), {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder, **options}
        subprocess.run([initdb, "-D", data, "-U", "lockgate", "-A", "trust", "-N"], check=True, **quiet)
        command = [programs / "postgres", "-D", data, "-k", folder, "-c", "listen_addresses=", "-c", "fsync=off"]
        with running(command, **quiet):
            socket = Path(folder, ".s.PGSQL.5432")
            wait_for("PostgreSQL", socket.exists)
            yield f"postgres://lockgate@{folder.replace('/', '%2F')}/postgres"


@contextmanager
def fixture():
    with running([FIXTURE, "--http", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True) as child:
        yield child.stdout.readline().split()[1]


class Gateway:
    def __init__(self, folder, log, key):
        self.folder, self.log, self.key = folder, log, key
        self.url = wait_for("the gateway listens", lambda: find_url(log))

    def ask(self, path):
        headers = {"authorization": f"Bearer {self.key}"}
        with urllib.request.urlopen(urllib.request.Request(f"{self.url}{path}", headers=headers), timeout=10) as answer:
            return answer.read()


def find_url(log):
    found = re.search(r" listens on (http://[0-9.:]+)", log.read_text())
    return found and found[1]


@contextmanager
def gateway(server, store):
    with tempfile.TemporaryDirectory(prefix="lockgate-api") as name:
        folder = Path(name)
        ring = folder / "ring.key"
        ring.write_text(secrets.token_hex(24))
        ring.chmod(0o600)
        config = {
            "auth": {"keys_file": "keys.yaml"},
            "store": {"keys": [f"file:{ring}"], **({"url": "file:url"} if store else {})},
            "audit": {"output": "file", "file": "audit.jsonl"},
            "pins": {"file": "lockgate.pins.json", "new": "report", "changed": "report"},
            "catalogue": {"fixture": {"url": server, "title": "Fixture"}},
            "servers": {"fixture": {"url": server}},
        }
        if store:
            (folder / "url").write_text(store)
            (folder / "url").chmod(0o600)
        file = folder / "lockgate.json"
        file.write_text(json.dumps(config))
        made = subprocess.run([BIN, "keys", "create", "operator", "--role", "operator", "--config", file], cwd=folder,
                              capture_output=True, text=True)
        if made.returncode:
            raise SystemExit(made.stderr)
        log = folder / "log"
        with open(log, "w") as out, running([BIN, "serve", "--listen", "127.0.0.1:0", "--config", file], cwd=folder, stderr=out):
            yield Gateway(folder, log, made.stdout.split()[0])


def schemathesis(gate, report):
    """All operations but the stream of events, which does not end, and the document, which it has read already."""
    command = [Path(TOOLS, "python/bin/st"), "--config-file", Path(__file__).with_name("schemathesis.toml"), "run",
               f"{gate.url}/api/openapi.json", "--url", f"{gate.url}/api",
               "--header", f"Authorization: Bearer {gate.key}", "--exclude-path", "/events", "--exclude-checks", LEFT_OUT,
               "--request-timeout", "35", "--max-examples", EXAMPLES, "--continue-on-failure", "--no-color"]
    if SEED != "random":
        command += ["--seed", SEED, "--generation-deterministic"]
    done = subprocess.run([str(word) for word in command], cwd=gate.folder, capture_output=True, text=True, timeout=600)
    operations = re.search(r"Tested: (\d+)", done.stdout)
    cases = re.search(r"(\d+) generated", done.stdout)
    if done.returncode or not operations or not cases:
        report.write_text(done.stdout + done.stderr)
        raise AssertionError(f"{done.stdout[-6000:]}\n{done.stderr[-2000:]}\nall of it: {report}")
    wanted = sum(len(item) for item in json.loads(gate.ask("/api/openapi.json"))["paths"].values()) - 2
    assert int(operations[1]) == wanted, f"{operations[1]} of {wanted} operations"
    return f"{operations[1]} operations, {cases[1]} requests"


def session(gate, server):
    """What is generated compiles, and does what it says."""
    tools = Path(TOOLS)
    (tools / "document.json").write_bytes(gate.ask("/api/openapi.json"))
    for command in (["openapi-typescript/bin/cli.js", "document.json", "-o", "schema.d.ts"], ["typescript/bin/tsc", "-p", "tsconfig.json"]):
        done = subprocess.run(["node", tools / "node_modules" / command[0], *command[1:]], cwd=tools, capture_output=True, text=True)
        assert done.returncode == 0, f"{command[0]}: {done.stdout}{done.stderr}"
    done = subprocess.run(["node", "out/session.js", gate.url, gate.key, server], cwd=tools, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def first_event(gate):
    """The stream says what it is, and begins."""
    headers = {"authorization": f"Bearer {gate.key}"}
    request = urllib.request.Request(f"{gate.url}/api/events", headers=headers)
    with urllib.request.urlopen(request, timeout=10) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream"), answer.headers
    return "a stream"


def main():
    counts = {True: 0, False: 0}
    began = time.monotonic()

    def check(name, work):
        start = time.monotonic()
        try:
            said, fits = work(), True
        except (AssertionError, subprocess.TimeoutExpired) as error:
            said, fits = error, False
        counts[fits] += 1
        print(f"{'ok  ' if fits else 'FAIL'} {name}: {said} ({time.monotonic() - start:.0f} s)", flush=True)

    with ExitStack() as stack:
        server = stack.enter_context(fixture())
        for store, url in (("SQLite", None), ("PostgreSQL", stack.enter_context(postgres()))):
            gate = stack.enter_context(gateway(server, url))
            report = Path(tempfile.gettempdir(), f"lockgate-api-{store}.txt")
            check(f"a generated client, {store}", lambda gate=gate: session(gate, server))
            check(f"the stream of events, {store}", lambda gate=gate: first_event(gate))
            check(f"schemathesis, {store}", lambda gate=gate, report=report: schemathesis(gate, report))
            broken = [line for line in gate.log.read_text().splitlines() if "panicked" in line]
            check(f"nothing panicked, {store}", lambda broken=broken: holds(not broken, broken))
    print(f"{time.monotonic() - began:.0f} s")
    print(f"{counts[True]} passed, {counts[False]} failed")
    sys.exit(0 if counts[True] and not counts[False] else 1)


def holds(fits, words):
    assert fits, words
    return "none"


main()
