"""Tests every operation of the gateway's OpenAPI document with Schemathesis, and clients generated from it; on an SQLite and a
PostgreSQL store at the same time."""

import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

BIN, FIXTURE, TOOLS = (os.environ[name] for name in ("LOCKGATE_BIN", "LOCKGATE_FIXTURE", "API_TOOLS"))
# The same requests in each run; SEED=random varies them, EXAMPLES sets their number.
SEED = os.environ.get("SEED", "20261123")
EXAMPLES = os.environ.get("EXAMPLES", "4")
# Some refusals are beyond a schema: cursors of another list, names already in use, addresses that are not permitted.
LEFT_OUT = "positive_data_acceptance"
# Statuses that show only that an operation was not reached.
UNREACHED = {401, 403, 404}
# The caller is the single key of the configuration, which the API cannot revoke.
KEY = secrets.token_hex(24)
# One tool awaits approval, so that an approval exists; a tool that ends only when cancelled is left out.
POLICIES = """policies:
  - { name: all, effect: allow }
  - { name: endless, effect: deny, what: { words: [cancellation] } }
  - name: asked
    effect: ask
    what: { tools: [fixture/test_image_content] }
    approval: { by: { principals: ["key|default"] } }
"""


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
    """Starts a server on a socket in a temporary folder; returns its URL."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    initdb = found[-1] if found else shutil.which("initdb")
    if not initdb:
        raise SystemExit("please install: postgresql")
    programs = Path(initdb).parent
    with tempfile.TemporaryDirectory(prefix="lockgate-pg") as folder:
        options = {}
        if os.getuid() == 0:
            # PostgreSQL does not run as root.
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
    def __init__(self, folder, log):
        self.folder, self.log = folder, log
        self.url = wait_for("the gateway listens", lambda: find_url(log))

    def ask(self, path, body=None):
        headers = {"authorization": f"Bearer {KEY}", "content-type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(urllib.request.Request(f"{self.url}{path}", data, headers), timeout=10) as answer:
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
            "auth": {"key": KEY, "keys_file": "keys.yaml"},
            "admin": {"operators": ["principal:key|default"]},
            "policy": {"files": ["policies.yaml"]},
            "builtin": {"example": True},
            "store": {"keys": [f"file:{ring}"], **({"url": "file:url"} if store else {})},
            "audit": {"output": "file", "file": "audit.jsonl"},
            "pins": {"file": "lockgate.pins.json", "new": "report", "changed": "report"},
            "catalogue": {"fixture": {"url": server, "title": "Fixture"}},
            "servers": {"fixture": {"url": server}, "switched": {"url": server}},
        }
        if store:
            (folder / "url").write_text(store)
            (folder / "url").chmod(0o600)
        (folder / "policies.yaml").write_text(POLICIES)
        file = folder / "lockgate.json"
        file.write_text(json.dumps(config))
        made = subprocess.run([BIN, "keys", "create", "member", "--config", file], cwd=folder, capture_output=True, text=True)
        if made.returncode:
            raise SystemExit(made.stderr)
        log = folder / "log"
        with open(log, "w") as out, running([BIN, "serve", "--listen", "127.0.0.1:0", "--config", file], cwd=folder, stderr=out):
            gate = Gateway(folder, log)
            # An organisation other than the caller's, with an integration.
            gate.ask("/api/organisations", {"id": "acme"})
            gate.ask("/api/mcp-integrations/custom?organizationId=acme", {"name": "Docs", "serverUrl": server})
            yield gate


def schemathesis(gate, server, report):
    """Tests all operations except the event stream, which does not end, the document, which is already read, and an account at
    a server, which only a browser connects."""
    answers = gate.folder / "answers"
    command = [Path(TOOLS, "python/bin/st"), "--config-file", Path(__file__).with_name("schemathesis.toml"), "run",
               f"{gate.url}/api/openapi.json", "--url", f"{gate.url}/api",
               "--header", f"Authorization: Bearer {KEY}", "--exclude-path", "/events",
               "--exclude-path", "/connections/{id}", "--exclude-checks", LEFT_OUT,
               "--request-timeout", "35", "--max-examples", EXAMPLES, "--continue-on-failure", "--no-color"]
    if SEED != "random":
        command += ["--seed", SEED, "--generation-deterministic"]
    hooks = {"SCHEMATHESIS_HOOKS": "real_ids", "PYTHONPATH": str(Path(__file__).parent), "API_GATEWAY": gate.url, "API_KEY": KEY,
             "API_SERVER": server, "API_ANSWERS": str(answers), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([str(word) for word in command], cwd=gate.folder, capture_output=True, text=True, timeout=600,
                          env={**os.environ, **hooks})
    operations = re.search(r"Tested: (\d+)", done.stdout)
    cases = re.search(r"(\d+) generated", done.stdout)
    if done.returncode or not operations or not cases:
        report.write_text(done.stdout + done.stderr)
        raise AssertionError(f"{done.stdout[-6000:]}\n{done.stderr[-2000:]}\nall of it: {report}")
    wanted = sum(len(item) for item in json.loads(gate.ask("/api/openapi.json"))["paths"].values()) - 4
    assert int(operations[1]) == wanted, f"{operations[1]} of {wanted} operations"
    reached, succeeded = check_reached(answers, wanted)
    return f"{operations[1]} operations, {reached} reached, {succeeded} with success; {cases[1]} requests"


def check_reached(answers, wanted):
    """An operation that returned only 401, 403 or 404 was not tested."""
    found = defaultdict(set)
    for line in answers.read_text().splitlines():
        label, status = line.split("\t")
        found[label].add(int(status))
    # The document does not count.
    found.pop("GET /openapi.json", None)
    unreached = {label: sorted(statuses) for label, statuses in found.items() if statuses <= UNREACHED}
    assert not unreached, f"never reached: {unreached}"
    assert len(found) == wanted, f"{len(found)} of {wanted} operations have an answer"
    return len(found), sum(any(status < 400 for status in statuses) for statuses in found.values())


def run(*command, cwd):
    done = subprocess.run([str(word) for word in command], cwd=cwd, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"{command[0]}: {done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def document(gate):
    """Checks that the document is valid OpenAPI 3.1, and that a client generator accepts all of it."""
    tools = Path(TOOLS)
    (tools / "document.json").write_bytes(gate.ask("/api/openapi.json"))
    run(tools / "python/bin/openapi-spec-validator", "--schema", "3.1", "document.json", cwd=tools)
    (tools / "generator.yaml").write_text("post_hooks: []\n")
    said = run(tools / "python/bin/openapi-python-client", "generate", "--path", "document.json", "--config", "generator.yaml",
               "--output-path", "python_client", "--overwrite", "--meta", "none", "--fail-on-warning", cwd=tools)
    run(tools / "python/bin/python", "-m", "compileall", "-q", "python_client", cwd=tools)
    made = len(list((tools / "python_client/api").glob("*/*.py")))
    wanted = sum(len(item) for item in json.loads(gate.ask("/api/openapi.json"))["paths"].values())
    assert made >= wanted, f"{made} of {wanted} operations: {said}"
    return f"valid, and {wanted} operations in a client in Python"


def compile_client():
    """Generates a TypeScript client from the document, and compiles it."""
    tools = Path(TOOLS)
    for command in (["openapi-typescript/bin/cli.js", "document.json", "-o", "schema.d.ts"], ["typescript/bin/tsc", "-p", "tsconfig.json"]):
        run("node", tools / "node_modules" / command[0], *command[1:], cwd=tools)
    return "compiled"


def session(gate, server):
    """Runs a session with the generated client."""
    return run("node", "out/session.js", gate.url, KEY, server, cwd=Path(TOOLS)).strip()


def first_event(gate):
    """Checks the stream's content type and its first event."""
    headers = {"authorization": f"Bearer {KEY}"}
    request = urllib.request.Request(f"{gate.url}/api/events", headers=headers)
    with urllib.request.urlopen(request, timeout=10) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream"), answer.headers
    return "a stream"


def main():
    counts, lock = {True: 0, False: 0}, threading.Lock()
    began = time.monotonic()

    def check(name, work):
        start = time.monotonic()
        try:
            said, fits = work(), True
        except (AssertionError, subprocess.TimeoutExpired) as error:
            said, fits = error, False
        with lock:
            counts[fits] += 1
        print(f"{'ok  ' if fits else 'FAIL'} {name}: {said} ({time.monotonic() - start:.0f} s)", flush=True)

    def check_store(store, gate, server):
        report = Path(tempfile.gettempdir(), f"lockgate-api-{store}.txt")
        check(f"the stream of events, {store}", lambda: first_event(gate))
        check(f"schemathesis, {store}", lambda: schemathesis(gate, server, report))
        broken = [line for line in gate.log.read_text().splitlines() if "panicked" in line]
        check(f"nothing panicked, {store}", lambda: holds(not broken, broken))

    def check_clients(gates, server):
        check("the document", lambda: document(gates["SQLite"]))
        check("a generated client", compile_client)
        for store, gate in gates.items():
            check(f"a session of the generated client, {store}", lambda gate=gate: session(gate, server))

    with ExitStack() as stack:
        server = stack.enter_context(fixture())
        stores = {"SQLite": None, "PostgreSQL": stack.enter_context(postgres())}
        gates = {store: stack.enter_context(gateway(server, url)) for store, url in stores.items()}
        with ThreadPoolExecutor() as pool:
            work = [pool.submit(check_store, store, gate, server) for store, gate in gates.items()]
            work.append(pool.submit(check_clients, gates, server))
            for one in work:
                one.result()
    print(f"{time.monotonic() - began:.0f} s")
    print(f"{counts[True]} passed, {counts[False]} failed")
    sys.exit(0 if counts[True] and not counts[False] else 1)


def holds(fits, words):
    assert fits, words
    return "none"


main()
