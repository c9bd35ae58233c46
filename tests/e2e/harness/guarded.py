"""Real servers behind the policies of policies/: permitted calls work, refusals give a sentence that a model can act on, hidden
items do not exist, and the database and the folder stay unchanged.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from . import matching
from .cases.everything import call, text
from .clients import CLIENTS, Place, play
from .gateway import Gateway
from .judge import Verdict
from .naming import Merged, Plain, exposed_step
from .postgres import Postgres
from .servers import Server

CLIENT_NAMES = ("py-legacy", "py-modern", "ts-legacy", "ts-modern")
# Without `--full`: each client once at its endpoint, and each era at both endpoints.
SHORT = (("py-legacy", True), ("ts-modern", True), ("ts-legacy", False), ("py-modern", False))
# Files of policies/; the folder of filesystem.yaml is replaced by the folder under test.
SHIPPED = ("databases.yaml", "filesystem.yaml")
PLACEHOLDER = "/srv/project"
OWN = """policies:
  - name: everything-some
    effect: allow
    what: { tools: ["everything/{echo,get-sum}"], resources: ["everything/demo://resource/dynamic/*"] }
  - name: everything-sums-are-small
    effect: deny
    what: { tools: ["everything/get-sum"] }
    arguments:
      /a: { value: { max: 100 } }
      /b: { value: { max: 100 } }
  - name: everything-no-environment
    effect: deny
    what: { tools: ["everything/get-env"], resources: ["everything/demo://resource/dynamic/blob/*"] }
"""


def refused(policy: str, words: str) -> dict:
    """Returns the pattern of a refusal: the policy, and a hint for the model."""
    return {"isError": True, "content": [{"type": "text", "text": {"$regex": f"^refused by policy {policy}: .*{words}"}}]}


def sql(statement: str, **rest) -> dict:
    return call("query", {"sql": statement}, **rest)


WRITES = (
    "DELETE FROM canary", "UPDATE canary SET note = 'dead'", "INSERT INTO canary VALUES (2, 'x')", "DROP TABLE canary",
    "TRUNCATE canary", "CREATE TABLE planted (a int)", "COMMIT; DROP TABLE canary; BEGIN",
    "SELECT 1; COMMIT; DELETE FROM canary",
    "WITH gone AS (DELETE FROM canary RETURNING *) SELECT * FROM gone", "SELECT * INTO planted FROM canary",
    "SELECT pg_read_file('/etc/passwd')", "SELECT set_config('transaction_read_only', 'off', false)",
    "EXPLAIN ANALYZE DELETE FROM canary", "SELECT * FROM canary FOR UPDATE", "SELECT nextval('planted')",
    "COPY canary TO PROGRAM 'true'", "SELECT lo_import('/etc/passwd')",
)


def cases(files: Path, outside: Path) -> dict[str, list[tuple[str, list[dict]]]]:
    """Returns the cases by server. A hidden name equals an unknown name."""
    unknown = {"error": -32602}
    gone = {"legacy": {"error": [-32002, -32602]}, "modern": {"error": -32602}}
    return {
        "postgres": [
            ("a query works, and gets the limit that it lacked", [
                sql("SELECT item FROM orders WHERE amount = 30", expect=text({"$regex": "plank 3"})),
                sql("SELECT count(*) AS n FROM orders", expect=text({"$regex": '"n": "40"'})),
                sql("SELECT id FROM orders LIMIT 5000", expect=refused("select-only", "1000")),
            ]),
            ("what is listed", [{"do": "list_tools", "expect": {"tools": [{"name": {"$name": "query"}}]}}]),
            ("writes are refused in words", [
                sql(statement, expect=refused("select-only", r"\w+ \w+")) for statement in WRITES]),
            ("a closed table is refused in words", [
                sql("SELECT * FROM credentials", expect=refused("no-customer-secrets", "credentials")),
                sql("SELECT c.secret FROM orders o JOIN public.\"credentials\" c ON c.id = o.id",
                    expect=refused("no-customer-secrets", "credentials"))]),
            ("arguments that are not as they should be", [
                call("query", {"statement": "SELECT 1"}, expect=refused("select-only", "sql")),
                call("query", {"sql": 1}, expect=refused("select-only", "sql"))]),
            ("a hidden tool is unknown", [call("execute", {"sql": "DROP TABLE canary"}, **unknown)]),
        ],
        "files": [
            ("reading inside of the roots works", [
                call("read_text_file", {"path": f"{files}/lock.txt", "head": 1}, expect=text("first")),
                call("list_directory", {"path": str(files)}, expect=text({"$regex": r"lock\.txt"}))]),
            ("a path outside of the roots is refused in words", [
                call("read_text_file", {"path": path}, expect=refused("files-read", words))
                for path, words in ((f"{outside}/secret.txt", "use a path in"), (f"{files}/../outside/secret.txt", "use a path in"),
                                    ("/etc/passwd", "use a path in"), (f"{files}/%2e%2e/outside/secret.txt", "write the character"),
                                    ("lock.txt", "use an absolute path"))]),
            ("what is never allowed is refused in words", [
                call("read_text_file", {"path": f"{files}/.env"}, expect=refused("files-never", "use another path"))]),
            ("hidden tools are unknown", [
                call("write_file", {"path": f"{files}/lock.txt", "content": "gone"}, **unknown),
                call("move_file", {"source": f"{files}/lock.txt", "destination": f"{files}/x"}, **unknown),
                call("no_such_tool", {}, **unknown)]),
        ],
        "everything": [
            ("allowed calls work", [
                call("echo", {"message": "hello"}, expect=text("Echo: hello")),
                call("get-sum", {"a": 2, "b": 3}, expect=text({"$regex": "5"}))]),
            ("arguments out of bounds are refused in words", [
                call("get-sum", {"a": 2000, "b": 3}, expect=refused("everything-sums-are-small", "100"))]),
            ("hidden tools and resources are unknown", [
                call("get-env", {}, **unknown),
                call("no-such-tool", {}, **unknown),
                {"do": "read_resource", "uri": "demo://resource/dynamic/blob/1", **gone},
                {"do": "read_resource", "uri": "demo://resource/dynamic/text/1",
                 "expect": {"contents": [{"text": {"$regex": "^Resource 1: "}}]}}]),
        ],
    }


class Guarded:
    """The servers, their policies and a separate gateway."""

    def __init__(self, binary: Path, policies: Path, scratch: Path, yard):
        self.scratch = scratch / "guarded"
        self.files, self.outside = self.scratch / "files", self.scratch / "outside"
        self.scratch.mkdir()
        for folder, name, content in ((self.files, "lock.txt", "first\nsecond\n"), (self.files, ".env", "KEY=1\n"),
                                      (self.outside, "secret.txt", "CANARY\n")):
            folder.mkdir(exist_ok=True)
            (folder / name).write_text(content)
        for name in SHIPPED:
            (self.scratch / name).write_text((policies / name).read_text().replace(PLACEHOLDER, str(self.files)))
        (self.scratch / "own.yaml").write_text(OWN)
        self.database = Postgres(scratch)
        package = yard.packages
        self.servers = {server.slug: server for server in (
            Server("postgres", ("legacy",), [yard.node, str(package / "server-postgres/dist/index.js"), self.database.url]),
            # The server may access more than the policy permits.
            Server("files", ("legacy",), [yard.node, str(package / "server-filesystem/dist/index.js"), str(self.scratch)]),
            Server("everything", ("legacy",), [yard.node, str(package / "server-everything/dist/index.js"), "stdio"]),
        )}
        self.gateway = Gateway(binary, self.scratch, self.servers)
        files = [*SHIPPED, "own.yaml"]
        self.gateway.config.write_text(self.gateway.config.read_text() + f"policy: {{ files: {files} }}\n")

    def start(self) -> None:
        self.database.start()
        self.gateway.start()

    def stop(self) -> str:
        complaint = self.gateway.stop()
        self.database.stop()
        return complaint


def played(guarded: Guarded, cache: Path, name: str, slug: str, own: bool) -> list[Verdict]:
    """Plays every case of a server with one client at one endpoint, in one session."""
    kind, view = CLIENTS[name], Plain() if own else Merged(slug)
    url = guarded.gateway.url(slug if own else None, "http")
    found = cases(guarded.files, guarded.outside)[slug]
    if not own:  # the merged list has the tools of all servers
        found = [(title, steps) for title, steps in found if title != "what is listed"]
    steps = [{**step, **step.get(kind.era, {})} for _, all_steps in found for step in all_steps]
    judged = ("expect", "error", "legacy", "modern")
    script = {"steps": [exposed_step({k: v for k, v in step.items() if k not in judged}, view) for step in steps]}
    reports, err = play(kind, cache, Place(url=url), script)
    verdicts, at = [], 1
    for title, own_steps in found:
        reasons = []
        for step, report in zip(steps[at - 1:at - 1 + len(own_steps)], reports[at:at + len(own_steps)]):
            reasons += [f"{step.get('name', step['do'])} {step.get('arguments', '')}: {line}" for line in judge(step, report, view)]
        if len(reports) < at + len(own_steps):
            reasons.append(f"only {len(reports)} reports; standard error ends: {err[-400:]}")
        at += len(own_steps)
        verdicts.append(Verdict(f"guarded {name} {slug} {'own' if own else 'merged'}: {title}", reasons))
    return verdicts


def judge(step: dict, report: dict, view: Plain) -> list[str]:
    from .naming import exposed_pattern
    if (error := step.get("error")) is not None:
        codes = error if isinstance(error, list) else [error]
        got = report["result"] if report["ok"] else report["error"].get("code")
        return [] if not report["ok"] and got in codes else [f"want error {error}, got {matching.short(got, 300)}"]
    if not report["ok"]:
        return [f"error {matching.short(report['error'], 400)}"]
    return matching.differences(exposed_pattern(step["expect"], view), report["result"])


def run(binary: Path, policies: Path, cache: Path, scratch: Path, yard, jobs: int, full: bool):
    """Returns a verdict for each case, and for the unchanged state."""
    begin = time.monotonic()
    guarded = Guarded(binary, policies, scratch, yard)
    try:
        guarded.start()
        before = guarded.database.state()
        players = [(name, own) for name in CLIENT_NAMES for own in (False, True)] if full else SHORT
        todo = [(name, slug, own) for slug in guarded.servers for name, own in players]
        with ThreadPoolExecutor(max(1, jobs)) as pool:
            for verdicts in pool.map(lambda one: played(guarded, cache, *one), todo):
                yield from verdicts
        after = guarded.database.state()
        yield Verdict("guarded: the canary table is as it was", [] if before == after else [f"{before!r} became {after!r}"])
        kept = (guarded.files / "lock.txt").read_text(), (guarded.outside / "secret.txt").read_text()
        yield Verdict("guarded: the files are as they were", [] if kept == ("first\nsecond\n", "CANARY\n") else [str(kept)])
    finally:
        complaint = guarded.stop()
    yield Verdict(f"guarded: the gateway stops on SIGTERM ({time.monotonic() - begin:.0f} s)", [complaint] if complaint else [])
